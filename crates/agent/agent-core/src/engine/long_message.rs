//! Messages that are too long for a prompt.
//!
//! Decision: as with tool results, the whole message goes into a file that `read_file` may read, and
//! the model gets its beginning with a note that says where the rest is. This happens before the
//! message is recorded, so the session holds what was sent, and replay and the prompt cache see the
//! same bytes. The file name contains a hash of the content: a message that is delivered again gives
//! the same file and the same text. The file has the bytes that were sent, because people open it,
//! too. A message with lines that are too long for `read_file` is stored a second time, in lines
//! that the model can page through.

use std::io;
use std::path::Path;

use nanobot_context::estimate_tokens;
use nanobot_types::WholeText;

use super::paged_text::PagedText;
use super::result_file::{CUT, StoredText, beginning, line_width, store, write_text};

/// Maximum number of characters of a message that is sent as it is.
pub const MAX_MESSAGE_CHARS: usize = 32_000;
/// Number of characters that are sent of a longer message.
const SHOWN: usize = 16_000;
/// Minimum number of characters that are sent of a longer message.
const LEAST_SHOWN: usize = 200;
/// Maximum number of bytes of a message that are kept.
const MAX_KEPT: usize = 16 << 20;
/// Key of a log entry whose message is kept in a file, with the length in characters.
const LENGTH_KEY: &str = "_length";

/// A message whose whole text is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// The beginning, and the note about the rest.
    pub text: String,
    /// Length of the whole message, in characters.
    pub characters: usize,
}

impl KeptMessage {
    /// Returns the line that tells the person.
    #[must_use]
    pub fn notice(&self) -> String {
        let characters = self.characters;
        format!(
            "The message is long ({characters} characters): it is kept whole in a file, and the model reads on there."
        )
    }
}

/// Marks the log entry of a message that is kept in a file, with its length in characters.
pub(crate) fn mark_kept(characters: usize, extra: &mut nanobot_types::Map) {
    extra.insert(LENGTH_KEY.to_owned(), characters.into());
}

/// Keeps a message in `folder` if it has more than [`MAX_MESSAGE_CHARS`], or more than a quarter of
/// a budget of tokens (0 for no limit). Returns `None` if it is short enough, and is to be sent as
/// it is.
///
/// # Errors
/// Returns the error of the disk.
pub async fn keep_long_message(
    folder: &Path,
    text: &str,
    token_budget: usize,
) -> io::Result<Option<KeptMessage>> {
    let characters = text.chars().count();
    let Some(shown) = shown_of(text, characters, token_budget) else {
        return Ok(None);
    };
    let Some(head) = beginning(text, shown) else {
        return Ok(None);
    };
    let whole = WholeText {
        text: text.to_owned(),
        shown,
        is_complete: true,
    };
    let prefix = folder.join("message");
    let stored = tokio::task::spawn_blocking(move || store_message(&prefix, &whole));
    let note = stored.await.map_err(io::Error::other)??;
    Ok(Some(KeptMessage {
        text: format!("{head}{CUT}{note}"),
        characters,
    }))
}

/// Writes a message to a file, and the note about it.
fn store_message(prefix: &Path, whole: &WholeText) -> io::Result<String> {
    let WholeText { text, shown, .. } = whole;
    let paged = PagedText::new(text, *shown, line_width(*shown), MAX_KEPT);
    if paged.is_cut {
        return Ok(store(prefix, "message", whole, *shown, MAX_KEPT)?.note);
    }
    let sent = write_text(prefix, "", text)?;
    let lines = match paged.is_broken {
        true => Some(write_text(prefix, "-lines", &paged.text)?),
        false => None,
    };
    let stored = StoredText {
        noun: "message",
        file: lines.as_deref().unwrap_or(&sent),
        characters: text.chars().count(),
        is_whole: true,
    };
    Ok(stored.note(&paged, *shown))
}

/// Returns the number of characters to send; `None` for all of them.
fn shown_of(text: &str, characters: usize, token_budget: usize) -> Option<usize> {
    let allowed = match token_budget {
        0 => usize::MAX,
        tokens => tokens / 4,
    };
    // Of a text that is far too long, not every token is counted.
    let tokens = match characters > allowed.saturating_mul(8) {
        true => characters,
        false => estimate_tokens(text),
    };
    if characters <= MAX_MESSAGE_CHARS && tokens <= allowed {
        return None;
    }
    let fitting = characters.saturating_mul(allowed / 2) / tokens.max(1);
    Some(fitting.clamp(LEAST_SHOWN, SHOWN)).filter(|shown| *shown < characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_shown_in_part() {
        for (text, budget, expected) in [
            ("word ".repeat(6_000), 0, None),
            ("word ".repeat(6_000), 65_536, None),
            ("word ".repeat(7_000), 0, Some(16_000)),
            ("short".to_owned(), 1, None),
        ] {
            let characters = text.chars().count();
            assert_eq!(shown_of(&text, characters, budget), expected, "{budget}");
        }
        let chinese = "很长的话".repeat(7_000);
        let shown = shown_of(&chinese, 28_000, 40_000).unwrap();
        assert!((200..16_000).contains(&shown), "{shown}");
        let head: String = chinese.chars().take(shown).collect();
        assert!(estimate_tokens(&head) <= 5_100, "an eighth of the budget");
    }

    #[tokio::test]
    async fn long_message_is_kept_whole() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
        let kept = keep_long_message(folder.path(), &text, 0)
            .await
            .unwrap()
            .unwrap();
        assert!(kept.text.starts_with("line 0\n"));
        assert!(
            kept.text.contains("[The whole message has "),
            "{}",
            kept.text
        );
        let path = kept
            .text
            .split("kept in ")
            .nth(1)
            .and_then(|rest| rest.split_once(". To read on"))
            .unwrap()
            .0;
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        let again = keep_long_message(folder.path(), &text, 0).await.unwrap();
        assert_eq!(again, Some(kept), "the same message gives the same text");
    }

    #[tokio::test]
    async fn kept_file_has_the_bytes_that_were_sent() {
        let long_line = format!("{{\"log\": \"{}\"}}\n", "很长 and long ".repeat(4_000));
        let returns: String = (0..5_000).map(|line| format!("line {line}\r\n")).collect();
        for (text, files) in [(long_line, 2), (returns, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let kept = keep_long_message(folder.path(), &text, 0).await.unwrap();
            let note = kept.unwrap().text;
            let mut stored: Vec<String> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
                .collect();
            assert_eq!(stored.len(), files);
            assert!(stored.contains(&text), "{}", text.len());
            // The note leads to lines that can be read.
            let path = note.split("kept in ").nth(1).unwrap();
            let shown = std::fs::read_to_string(path.split(". To read on").next().unwrap());
            let width = shown
                .unwrap()
                .lines()
                .map(|line| line.chars().count())
                .max();
            assert!(width <= Some(1_000), "{width:?}");
            stored.retain(|stored| *stored != text);
            for lines in stored {
                assert_eq!(lines.replace('\n', ""), text.replace('\n', ""));
            }
        }
    }

    #[tokio::test]
    async fn message_that_cannot_be_kept_is_an_error() {
        let folder = Path::new("/dev/null/messages");
        let text = "a".repeat(MAX_MESSAGE_CHARS + 1);
        keep_long_message(folder, &text, 0).await.unwrap_err();
        let short = keep_long_message(folder, "short", 0).await.unwrap();
        assert_eq!(short, None);
    }
}
