//! Removes thinking from what a model wrote.

/// Tags whose content is thinking.
const THINKING_TAGS: [&str; 3] = ["think", "thinking", "thought"];

/// Returns the visible part of `text`, without thinking blocks. This includes a block that was
/// never closed, and one whose opening tag the vendor dropped. Returns `None` if nothing is left.
pub(crate) fn visible(text: &str) -> Option<String> {
    let (_, seen) = split_thinking(text);
    let trimmed = seen.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// Splits a text into its thinking, with the tags, and the rest.
pub(crate) fn split_thinking(text: &str) -> (String, String) {
    let mut thinking = String::new();
    let mut rest = text.to_owned();
    for tag in THINKING_TAGS {
        rest = take_thinking(&rest, tag, &mut thinking);
    }
    (thinking, rest)
}

/// Appends the thinking in this tag to `thinking` and returns the rest.
fn take_thinking(text: &str, tag: &str, thinking: &mut String) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut remaining = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(&open) {
        remaining.push_str(before);
        let (thought, after) = inside.split_once(&close).unwrap_or((inside, ""));
        thinking.extend([&open, thought, &close]);
        rest = after;
    }
    // A closing tag without an opening one: everything before it was thinking.
    if let Some((before, after)) = rest.split_once(&close) {
        thinking.extend([&remaining, before, &close]);
        remaining.clear();
        rest = after;
    }
    remaining.push_str(rest);
    remaining
}

/// Lets visible text through as it streams and removes thinking.
///
/// Text that may be the beginning of a tag is held back until that is clear.
#[derive(Debug, Default)]
pub(crate) struct VisibleStream {
    held: String,
    inside: Option<&'static str>,
    started: bool,
}

impl VisibleStream {
    /// Returns the visible part of the next piece.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let held = std::mem::take(&mut self.held);
        let (mut rest, mut out) = (held.as_str(), String::new());
        while let Some(after) = self.step(rest, &mut out) {
            rest = after;
        }
        self.trim_start(out)
    }

    /// Returns the text that is still held back when the stream ends.
    pub(crate) fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        if self.inside.is_some() {
            String::new()
        } else {
            self.trim_start(rest)
        }
    }

    fn trim_start(&mut self, out: String) -> String {
        if self.started {
            return out;
        }
        let trimmed = out.trim_start();
        self.started = !trimmed.is_empty();
        trimmed.to_owned()
    }

    /// Moves text whose kind is certain from the beginning of `text` to `out` and returns the rest.
    /// Returns `None` if more text is needed; the undecided end is held back.
    fn step<'t>(&mut self, text: &'t str, out: &mut String) -> Option<&'t str> {
        if let Some(tag) = self.inside {
            let close = format!("</{tag}>");
            let Some((_, after)) = text.split_once(&close) else {
                // Hold only what may be the beginning of the closing tag, however long the thinking
                // is.
                let start = text.floor_char_boundary(text.len().saturating_sub(close.len()));
                self.held = text.get(start..).unwrap_or_default().to_owned();
                return None;
            };
            self.inside = None;
            return Some(after);
        }
        let Some(bracket) = text.find('<') else {
            out.push_str(text);
            return None;
        };
        let (before, candidate) = text.split_at_checked(bracket)?;
        out.push_str(before);
        for tag in THINKING_TAGS {
            let open = format!("<{tag}>");
            if let Some(after) = candidate.strip_prefix(&open) {
                self.inside = Some(tag);
                return Some(after);
            }
            if open.starts_with(candidate) {
                self.held = candidate.to_owned();
                return None;
            }
        }
        out.push('<');
        candidate.strip_prefix('<')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_every_form_of_thinking_tag() {
        for (text, seen) in [
            ("plain", Some("plain")),
            ("<think>a</think> b", Some("b")),
            ("a <think>x\ny</think>b <think>z</think>c", Some("a b c")),
            ("<thinking>a</thinking>b", Some("b")),
            ("<thought>a</thought>", None),
            ("answer <think>never closed", Some("answer")),
            ("swallowed opening</think>answer", Some("answer")),
            ("   ", None),
            ("a < b and <thin", Some("a < b and <thin")),
        ] {
            assert_eq!(visible(text).as_deref(), seen, "{text:?}");
        }
    }

    #[test]
    fn chunking_does_not_change_the_visible_text() {
        let text = "<think>secret</think>Hello <b>you</b> <thinking>more</thinking>end <thin";
        for size in 1..text.len() {
            let mut stream = VisibleStream::default();
            let characters: Vec<char> = text.chars().collect();
            let mut seen: String = characters
                .chunks(size)
                .map(|chunk| stream.push(&chunk.iter().collect::<String>()))
                .collect();
            seen.push_str(&stream.finish());
            assert_eq!(seen, "Hello <b>you</b> end <thin", "pieces of {size}");
        }
    }
}
