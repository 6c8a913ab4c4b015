//! Finds out whether a message arrived when nobody said so.
//!
//! When a connection breaks after a message was on its way, the channel looks for its name in the
//! conversation: what is there was sent, what is surely not can be sent again. A message of ours that
//! shows no name means that the app may not read names, and then what is not found proves nothing.

use std::time::{Duration, SystemTime};

use nanobot_channel::Value;
use slack_morphism::SlackMessageContent;

use crate::attempts::Attempt;
use crate::channel::SlackChannel;
use crate::error::CallError;
use crate::outbound::{METADATA, named, post};
use crate::place::Place;
use crate::thread::{Replies, Reply};

/// The pauses before the looks for a message that may have been sent.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// How many looks in vain prove that it was not sent.
const PROOF: usize = 2;
/// How far back is looked; clocks may differ.
const LOOK_BACK: Duration = Duration::from_mins(15);

impl SlackChannel {
    /// Sends a text, unless an earlier try turns out to have sent it.
    pub(crate) async fn post_once(
        &self,
        place: &Place,
        content: SlackMessageContent,
        name: &str,
        key: &str,
        attempt: &mut Attempt,
    ) -> Result<Option<String>, CallError> {
        if attempt.is_open
            && let Some(ts) = self.look(place, name).await.map_err(undecided)?
        {
            return Ok(Some(ts));
        }
        let error = match post(&self.api, place, named(content, name)).await {
            Err(error) if error.is_open() => error,
            outcome => return outcome,
        };
        attempt.is_open = true;
        self.attempts.remember(key, *attempt);
        tracing::warn!(channel = %self.name, %error, "a message may have been sent; it is looked for");
        let mut in_vain = 0;
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            match self.look(place, name).await {
                Ok(Some(ts)) => return Ok(Some(ts)),
                Ok(None) => in_vain += 1,
                // The app may not look there: nobody will ever know.
                Err(CallError::Refused { .. }) => break,
                Err(_) => {}
            }
            if in_vain == PROOF {
                return Err(CallError::Unreachable(format!("{error}; it was looked for and is not there")));
            }
        }
        Err(error)
    }

    /// Looks for a message of ours by its name. `None` when it is surely not there.
    async fn look(&self, place: &Place, name: &str) -> Result<Option<String>, CallError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = since.saturating_sub(LOOK_BACK).as_secs();
        let oldest = format!("{since}.000000");
        let mut query = vec![
            ("channel", place.chat.as_str()),
            ("oldest", oldest.as_str()),
            ("limit", "200"),
            ("include_all_metadata", "true"),
        ];
        let method = match &place.thread {
            Some(thread) => {
                query.push(("ts", thread));
                "conversations.replies"
            }
            None => "conversations.history",
        };
        let found: Replies = self.api.ask(method, &query).await?;
        if let Some(message) = found.messages.iter().find(|message| is_named(message, name)) {
            return Ok(Some(message.ts.clone()));
        }
        let user = self.bot_user.get().map(String::as_str);
        if found.messages.iter().any(|message| is_ours(message, user) && hides_its_name(message, since)) {
            let needed = Some("metadata.message:read".to_owned());
            return Err(CallError::Refused { code: "missing_scope".to_owned(), needed });
        }
        Ok(None)
    }
}

/// Who may not look knows nothing of the message.
fn undecided(error: CallError) -> CallError {
    match error {
        CallError::Refused { .. } => CallError::Interrupted(format!("it cannot be looked for: {error}")),
        other => other,
    }
}

fn is_named(message: &Reply, name: &str) -> bool {
    let text = |pointer: &str| message.metadata.pointer(pointer).and_then(Value::as_str);
    text("/event_type") == Some(METADATA) && text("/event_payload/key") == Some(name)
}

/// Where the app's own user is not known, any bot may be it.
fn is_ours(message: &Reply, user: Option<&str>) -> bool {
    message.bot_id.is_some() && user.is_none_or(|user| message.user.as_deref() == Some(user))
}

/// Whether a message has text, as files have not, and no name. The first message of a thread comes
/// along however old it is.
fn hides_its_name(message: &Reply, since: u64) -> bool {
    let seconds = message.ts.split('.').next().and_then(|seconds| seconds.parse::<u64>().ok());
    message.metadata.is_null() && !message.text.is_empty() && seconds.is_some_and(|seconds| seconds >= since)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_readable_conversation_proves_anything() {
        let name = json!({"event_type": METADATA, "event_payload": {"key": "t/0/0/0"}});
        let message = |ts: &str, bot: Option<&str>, text: &str, metadata: &Value| Reply {
            ts: ts.into(),
            user: bot.map(str::to_owned),
            bot_id: bot.map(|_| "B1".to_owned()),
            text: text.into(),
            metadata: metadata.clone(),
            ..Reply::default()
        };
        assert!(is_named(&message("9.1", Some("UBOT"), "x", &name), "t/0/0/0"));
        assert!(!is_named(&message("9.1", Some("UBOT"), "x", &name), "t/0/0/1"));
        let table = [
            (message("9.1", Some("UBOT"), "x", &Value::Null), true),
            (message("9.1", Some("UBOT"), "x", &name), false),
            (message("9.1", Some("UBOT"), "", &Value::Null), false),
            (message("4.1", Some("UBOT"), "x", &Value::Null), false),
            (message("9.1", Some("UOTHER"), "x", &Value::Null), false),
            (message("9.1", None, "x", &Value::Null), false),
        ];
        for (message, expected) in table {
            assert_eq!(is_ours(&message, Some("UBOT")) && hides_its_name(&message, 5), expected, "{message:?}");
        }
        assert!(is_ours(&message("9.1", Some("UOTHER"), "x", &Value::Null), None));
    }
}
