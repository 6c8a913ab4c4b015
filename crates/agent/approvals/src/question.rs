//! A question about a call, as it is kept and shown.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use nanobot_tool::CallReview;
use nanobot_types::{Button, ChatAddress, SenderId, SessionKey, ToolCall, ToolName, TraceId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Symbols of codes: no two look alike.
const SYMBOLS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Length of a code.
const CODE_LENGTH: usize = 4;
/// Maximum number of characters of a call that a question shows at its beginning and at its end.
const SHOWN: usize = 1_000;

/// The call that a permission is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBinding {
    /// The turn.
    pub trace: TraceId,
    /// Position of the call among the calls of its turn, from 1.
    pub position: u32,
    /// SHA-256 of the tool's name, the exact arguments and the circumstances, in hexadecimal.
    pub digest: String,
}

impl CallBinding {
    /// Returns the binding of a call.
    #[must_use]
    pub fn of(trace: &TraceId, position: u32, call: &ToolCall, review: &CallReview) -> Self {
        let mut hash = Sha256::new();
        for part in [
            call.name.as_str(),
            call.arguments.as_str(),
            review.circumstances.as_str(),
        ] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            trace: trace.clone(),
            position,
            digest,
        }
    }

    /// Returns a number that differs between questions of one turn, also if the circumstances of
    /// one call changed between two questions about it.
    #[must_use]
    pub fn slot(&self) -> u32 {
        let digits = self.digest.get(..8).unwrap_or_default();
        let number = u32::from_str_radix(digits, 16).unwrap_or_default();
        number.wrapping_add(self.position)
    }
}

/// A question that is not settled yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Distinguishes the buttons of this question from those of others.
    pub code: String,
    /// Session of the turn.
    pub session: SessionKey,
    /// The turn.
    pub trace: TraceId,
    /// Position of the call among the calls of its turn.
    pub position: u32,
    /// Digest that the permission is bound to.
    pub digest: String,
    /// The chat and thread in which the question is asked.
    pub address: ChatAddress,
    /// The only person who may answer; `None` if everyone who may talk in the chat may.
    pub sender: Option<SenderId>,
    /// The tool.
    pub tool: ToolName,
    /// The rule that "always" is about; `None` if "always" is not offered.
    pub rule: Option<String>,
    /// The text that is shown.
    pub text: String,
    /// Time of the question.
    pub asked_at: DateTime<Utc>,
    /// Time after which the question is refused.
    pub expires_at: DateTime<Utc>,
    /// Its state.
    pub state: QuestionState,
}

/// State of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionState {
    /// It has no answer yet.
    Asked,
    /// A person agreed; the call has not begun.
    Granted,
    /// A person refused.
    Refused,
    /// A person agreed, and the call began.
    Begun,
}

impl OpenQuestion {
    /// Returns the binding of its call.
    #[must_use]
    pub fn binding(&self) -> CallBinding {
        CallBinding {
            trace: self.trace.clone(),
            position: self.position,
            digest: self.digest.clone(),
        }
    }

    /// Returns the row of its buttons. Each carries the code, so that a button of an old question
    /// answers no other one.
    #[must_use]
    pub fn buttons(&self) -> Vec<Vec<Button>> {
        let always = self.rule.is_some().then_some("Always");
        let words = ["Yes"].into_iter().chain(always).chain(["No"]);
        let row = words
            .map(|word| Button {
                label: format!("{word} {}", self.code),
            })
            .collect();
        vec![row]
    }

    /// `true` if the text could be the code of a question, as buttons write it.
    pub(crate) fn is_code(text: &str) -> bool {
        text.len() == CODE_LENGTH && text.bytes().all(|byte| SYMBOLS.contains(&byte))
    }

    pub(crate) fn new_code() -> String {
        // The first bytes of a random UUID are random.
        let bytes = Uuid::new_v4().into_bytes();
        bytes
            .iter()
            .take(CODE_LENGTH)
            .filter_map(|byte| SYMBOLS.get(usize::from(*byte) % SYMBOLS.len()))
            .map(|symbol| char::from(*symbol))
            .collect()
    }

    /// Extends the time of a question that a restart interrupted.
    pub(crate) fn extend(&mut self, now: DateTime<Utc>, least: Duration) {
        let least = TimeDelta::from_std(least).unwrap_or(TimeDelta::MAX);
        self.expires_at = self.expires_at.max(now + least);
    }
}

/// Returns the text of a question.
pub(crate) fn text(
    call: &ToolCall,
    review: &CallReview,
    reason: &str,
    timeout: Duration,
) -> String {
    let arguments = shown_arguments(call);
    let fence = fence_around(&arguments);
    let minutes = timeout.as_secs().div_ceil(60);
    let always = review.rule.as_ref().map_or_else(String::new, |rule| {
        format!(
            " \"always\" also allows later calls like this one: {}.",
            nanobot_escape::sanitize_line(rule)
        )
    });
    let words = match review.rule {
        Some(_) => "yes, always or no",
        None => "yes or no",
    };
    let circumstances = match review.circumstances.lines().next() {
        None | Some("") => String::new(),
        Some(first) => format!(" ({})", nanobot_escape::sanitize_line(first)),
    };
    format!(
        "May I run `{name}`{circumstances}? {reason}\n{fence}\n{arguments}\n{fence}\n\
         Answer {words} within {minutes} minutes; no answer means no.{always}",
        name = call.name,
    )
}

/// Returns the arguments as they are, with hidden characters made visible: the command of `exec`
/// alone, otherwise the JSON text. The middle of a long text is left out.
fn shown_arguments(call: &ToolCall) -> String {
    let command = call.parsed_arguments().ok().and_then(|arguments| {
        match (arguments.len(), arguments.get("command")) {
            (1, Some(serde_json::Value::String(command))) => Some(command.clone()),
            _ => None,
        }
    });
    let text = nanobot_escape::sanitize(command.as_ref().unwrap_or(&call.arguments));
    let count = text.chars().count();
    if count <= 2 * SHOWN {
        return text;
    }
    let begin: String = text.chars().take(SHOWN).collect();
    let end: String = text.chars().skip(count - SHOWN).collect();
    format!(
        "{begin}\n[… {} characters are not shown …]\n{end}",
        count - 2 * SHOWN
    )
}

/// Returns a fence of a code block that the text does not contain.
fn fence_around(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    fence
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn open_question() -> OpenQuestion {
        let now = DateTime::UNIX_EPOCH;
        OpenQuestion {
            code: "K7QX".to_owned(),
            session: SessionKey::from("telegram:7"),
            trace: TraceId::from("turn"),
            position: 1,
            digest: "00".to_owned(),
            address: ChatAddress::new("telegram", "7"),
            sender: Some(SenderId::from("7")),
            tool: ToolName::from("exec"),
            rule: None,
            text: "May I?".to_owned(),
            asked_at: now,
            expires_at: now + TimeDelta::minutes(10),
            state: QuestionState::Asked,
        }
    }

    #[test]
    fn binding_covers_tool_arguments_and_circumstances() {
        let review = |circumstances: &str| CallReview {
            circumstances: circumstances.to_owned(),
            ..CallReview::default()
        };
        let digest = |name: &str, arguments: &str, circumstances: &str| {
            let call = ToolCall::new("1", name, arguments);
            CallBinding::of(&TraceId::from("turn"), 1, &call, &review(circumstances)).digest
        };
        let first = digest("exec", r#"{"command":"ls"}"#, "in /a");
        assert_eq!(first, digest("exec", r#"{"command":"ls"}"#, "in /a"));
        for other in [
            digest("exec", r#"{"command": "ls"}"#, "in /a"),
            digest("exec", r#"{"command":"ls"}"#, "in /b"),
            digest("exe", r#"c{"command":"ls"}"#, "in /a"),
            digest("exec", r#"{"command":"ls"}in /a"#, ""),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn question_shows_the_exact_call() {
        let call = ToolCall::new("1", "exec", r#"{"command":"echo a\u200bb ``` c"}"#);
        let review = CallReview {
            circumstances: "in /home/me\nenvironment abc".to_owned(),
            ..CallReview::default()
        }
        .with_rule("echo");
        let text = text(&call, &review, "Why.", Duration::from_secs(600));
        assert!(text.contains("````\necho a"), "{text}");
        assert!(!text.contains('\u{200b}'), "{text}");
        assert!(text.contains("(in /home/me)? Why."), "{text}");
        assert!(text.contains("within 10 minutes"), "{text}");
        assert!(text.contains("like this one: echo."), "{text}");
    }

    #[test]
    fn always_is_offered_only_with_a_rule() {
        let labels = |rule: Option<&str>| {
            let question = OpenQuestion {
                rule: rule.map(str::to_owned),
                ..open_question()
            };
            let row = question.buttons().concat();
            row.into_iter()
                .map(|button| button.label)
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(None), ["Yes K7QX", "No K7QX"]);
        assert_eq!(labels(Some("ls")), ["Yes K7QX", "Always K7QX", "No K7QX"]);
    }

    #[test]
    fn codes_are_recognised() {
        for _ in 0..100 {
            assert!(OpenQuestion::is_code(&OpenQuestion::new_code()));
        }
        for text in ["", "K7Q", "K7QXX", "K7Q0", "dear", "好好"] {
            assert!(!OpenQuestion::is_code(text), "{text}");
        }
    }
}
