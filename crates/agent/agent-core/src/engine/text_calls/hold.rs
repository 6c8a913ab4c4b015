//! Holds back streamed text that may be a call.

use super::forms::{FORMS, next_form};

/// Lets text through as it streams until a call may begin. Text after that is held until the
/// answer is complete and it is known whether it has calls.
#[derive(Debug, Default)]
pub(crate) struct CallHold {
    held: String,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    /// All text so far may begin an answer of JSON.
    #[default]
    Beginning,
    /// Text passes until a marker.
    Passing,
    /// The rest of the answer is held.
    Holding,
}

impl CallHold {
    /// Returns the part of the text so far that is no call.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        if self.state == State::Beginning && !may_be_json(&self.held) {
            self.state = State::Passing;
        }
        if self.state != State::Passing {
            return String::new();
        }
        let passed = if let Some((before, _, _)) = next_form(&self.held) {
            self.state = State::Holding;
            before.len()
        } else {
            self.held.len() - undecided(&self.held)
        };
        self.held.drain(..passed).collect()
    }

    /// Ends the answer and returns what was held, unless the answer has calls.
    pub(crate) fn finish(&mut self, has_calls: bool) -> String {
        let held = std::mem::take(&mut self.held);
        if has_calls { String::new() } else { held }
    }
}

/// Returns `true` if a text may go on to be JSON, perhaps in a block of code.
fn may_be_json(text: &str) -> bool {
    let text = text.trim_start();
    if "```".starts_with(text) {
        return true;
    }
    let code = match text.strip_prefix("```") {
        Some(block) => match block.split_once('\n') {
            Some((_, code)) => code.trim_start(),
            None => return true,
        },
        None => text,
    };
    let object = code.strip_prefix('[').unwrap_or(code).trim_start();
    object.is_empty() || object.starts_with('{')
}

/// Returns the length of the end of a text that may be the beginning of a marker.
fn undecided(text: &str) -> usize {
    let common = |form: &super::Form| {
        let lengths = (1..form.open.len()).rev();
        let ends_with = |length: &usize| {
            let begin = form.open.get(..*length);
            begin.is_some_and(|begin| text.ends_with(begin))
        };
        lengths.into_iter().find(ends_with).unwrap_or_default()
    };
    FORMS.iter().map(common).max().unwrap_or_default()
}
