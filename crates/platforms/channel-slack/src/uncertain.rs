//! Searches for messages whose delivery is uncertain.
//!
//! After a broken connection or a crash during a send, the channel searches the conversation for
//! the key of the message: a found message was sent, a missing one can be sent again. If none of
//! the app's messages shows a key, the app may lack the scope to read keys, and a missing message
//! proves nothing. Files have no keys: only a later message of the part proves that a file was
//! sent.

use std::time::{Duration, SystemTime};

use nanobot_channel::{OutboundPart, Value};
use slack_morphism::SlackMessageContent;

use crate::channel::Slack;
use crate::error::{CallError, from_code};
use crate::history::Extent;
use crate::outbound::{METADATA, post, with_key};
use crate::target::SendTarget;
use crate::thread::ThreadMessage;

/// Pauses before the searches for a message.
const SEARCH_PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// Unsuccessful searches that prove that a message was not sent.
const REQUIRED_MISSES: usize = 2;
/// Time before now that is searched for a recent message; clocks may differ.
const SEARCH_WINDOW: Duration = Duration::from_mins(15);
/// Number of messages of a page.
const PAGE_SIZE: &str = "1000";
/// Most pages that are searched.
const MAX_PAGES: usize = 5;

/// Progress of a part that has to be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendProgress {
    /// Number of steps that are certainly done.
    pub(crate) done: usize,
    /// `true` if the next step may be done, too.
    pub(crate) is_open: bool,
}

/// One of the messages that a part is made of, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendStep {
    /// Its key, which a file does not show.
    pub(crate) key: String,
    /// `true` for a file.
    pub(crate) is_file: bool,
}

impl Slack {
    /// Returns the number of steps of a part that were sent before, also by an earlier process, and
    /// the `ts` of the last one that was found. At least `done` are known.
    pub(crate) async fn sent_steps(
        &self,
        place: &SendTarget,
        part: &OutboundPart,
        steps: &[SendStep],
        done: usize,
    ) -> Result<(usize, Option<String>), CallError> {
        // The time of sending is unknown, but a reply is later than its question.
        let question = part.message.delivery.reply_to.as_ref();
        let since = question
            .and_then(|ts| seconds(ts.as_str()))
            .unwrap_or_default();
        let keys: Vec<_> = steps.iter().map(|step| step.key.as_str()).collect();
        let found = self.search(place, &keys, since).await.map_err(uncertain)?;
        let (there, last) = found.map_or((0, None), |(index, ts)| (index + 1, Some(ts)));
        let done = done.max(there);
        if steps.get(done).is_some_and(|step| step.is_file) {
            return Err(CallError::Interrupted(
                "a file cannot be looked for".to_owned(),
            ));
        }
        Ok((done, last))
    }

    /// Sends a text, unless an earlier attempt has sent it.
    pub(crate) async fn post_once(
        &self,
        place: &SendTarget,
        content: SlackMessageContent,
        message_key: &str,
        part_key: &str,
        attempt: &mut SendProgress,
    ) -> Result<Option<String>, CallError> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let since = now.saturating_sub(SEARCH_WINDOW).as_secs();
        if attempt.is_open
            && let Some((_, ts)) = self
                .search_once(place, &[message_key], since)
                .await
                .map_err(uncertain)?
        {
            return Ok(Some(ts));
        }
        let error = match post(&self.api, place, with_key(content, message_key)).await {
            Err(error) if error.is_ambiguous() => error,
            outcome => return outcome,
        };
        tracing::warn!(channel = %self.base.name, %error, "a message may have been sent; it is looked for");
        match self.search(place, &[message_key], since).await {
            Ok(Some((_, ts))) => Ok(Some(ts)),
            Ok(None) => {
                attempt.is_open = true;
                self.attempts.remember(part_key, *attempt);
                Err(CallError::Unreachable(format!(
                    "{error}; it was looked for and is not there"
                )))
            }
            Err(_) => Err(error),
        }
    }

    /// Searches for a message that was sent some time ago, and returns its `ts`.
    pub(crate) async fn search_since(
        &self,
        place: &SendTarget,
        key: &str,
        age: Duration,
    ) -> Result<Option<String>, CallError> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let since = now.saturating_sub(age + SEARCH_WINDOW).as_secs();
        let found = self.search_once(place, &[key], since).await?;
        Ok(found.map(|(_, ts)| ts))
    }

    /// Searches until one of the messages is found or its absence is proved.
    async fn search(
        &self,
        place: &SendTarget,
        keys: &[&str],
        since: u64,
    ) -> Result<Option<(usize, String)>, CallError> {
        let mut misses = 0;
        let mut outcome = Ok(None);
        for pause in SEARCH_PAUSES {
            tokio::time::sleep(pause).await;
            outcome = self.search_once(place, keys, since).await;
            match &outcome {
                Ok(None) => misses += 1,
                // The app may not search there, so the outcome stays unknown.
                Ok(Some(_)) | Err(CallError::Refused(_)) => break,
                Err(_) => {}
            }
            if misses == REQUIRED_MISSES {
                return Ok(None);
            }
        }
        match outcome {
            // A single unsuccessful search proves nothing.
            Ok(None) => Err(CallError::Unreachable(
                "it could not be looked for often enough".to_owned(),
            )),
            outcome => outcome,
        }
    }

    /// Searches once for the app's messages by their keys. Returns the index of the last found key
    /// and its `ts`; `None` if none was found.
    async fn search_once(
        &self,
        place: &SendTarget,
        keys: &[&str],
        since: u64,
    ) -> Result<Option<(usize, String)>, CallError> {
        let messages = self.messages_since(place, since).await?;
        let found = keys.iter().enumerate().rev().find_map(|(index, key)| {
            let message = messages
                .iter()
                .find(|message| key_of(message) == Some(key))?;
            Some((index, message.ts.clone()))
        });
        if found.is_some() {
            return Ok(found);
        }
        let user = self.bot_user.get().map(String::as_str);
        if hides_keys(
            messages.iter().filter(|message| is_ours(message, user)),
            since,
        ) {
            let needed = Some("metadata.message:read".to_owned());
            return Err(from_code("missing_scope".to_owned(), needed));
        }
        Ok(None)
    }

    /// Returns all messages of a conversation since a second of the epoch.
    async fn messages_since(
        &self,
        place: &SendTarget,
        since: u64,
    ) -> Result<Vec<ThreadMessage>, CallError> {
        let oldest = format!("{since}.000000");
        let extent = Extent {
            oldest: &oldest,
            page: PAGE_SIZE,
            pages: MAX_PAGES,
            has_metadata: true,
        };
        match self.read_history(place, extent).await? {
            (messages, true) => Ok(messages),
            _ => Err(from_code("too much was said since".to_owned(), None)),
        }
    }
}

/// Converts the failure of a search: a refusal leaves the outcome unknown, other failures may be
/// retried.
fn uncertain(error: CallError) -> CallError {
    match error {
        CallError::Refused(_) => {
            CallError::Interrupted(format!("it cannot be looked for: {error}"))
        }
        other => other.unambiguous(),
    }
}

/// Returns the key in the metadata of a message.
fn key_of(message: &ThreadMessage) -> Option<&str> {
    let text = |pointer: &str| message.metadata.pointer(pointer).and_then(Value::as_str);
    text("/event_payload/key").filter(|_| text("/event_type") == Some(METADATA))
}

/// The second of the epoch that a `ts` begins with.
fn seconds(ts: &str) -> Option<u64> {
    ts.split('.')
        .next()
        .and_then(|seconds| seconds.parse().ok())
}

/// `true` for messages of the app; if its own user is unknown, for those of any bot.
fn is_ours(message: &ThreadMessage, user: Option<&str>) -> bool {
    message.bot_id.is_some() && user.is_none_or(|user| message.user.as_deref() == Some(user))
}

/// `true` if some of the app's messages have text, as files have not, and none shows a key. The
/// first message of a thread is included whatever its age.
fn hides_keys<'a>(ours: impl Iterator<Item = &'a ThreadMessage>, since: u64) -> bool {
    let mut is_hidden = false;
    for message in ours {
        if key_of(message).is_some() {
            return false;
        }
        let is_in_time = seconds(&message.ts).is_some_and(|second| second >= since);
        is_hidden |= message.metadata.is_null() && !message.text.is_empty() && is_in_time;
    }
    is_hidden
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_metadata_makes_a_search_inconclusive() {
        let name = json!({"event_type": METADATA, "event_payload": {"key": "t/0/0/0"}});
        let message = |ts: &str, bot: Option<&str>, text: &str, metadata: &Value| ThreadMessage {
            ts: ts.into(),
            user: bot.map(str::to_owned),
            bot_id: bot.map(|_| "B1".to_owned()),
            text: text.into(),
            metadata: metadata.clone(),
            ..ThreadMessage::default()
        };
        assert_eq!(
            key_of(&message("9.1", Some("UBOT"), "x", &name)),
            Some("t/0/0/0")
        );
        assert_eq!(
            key_of(&message("9.1", Some("UBOT"), "x", &Value::Null)),
            None
        );
        let table = [
            (message("9.1", Some("UBOT"), "x", &Value::Null), true),
            (message("9.1", Some("UBOT"), "x", &name), false),
            (message("9.1", Some("UBOT"), "", &Value::Null), false),
            (message("4.1", Some("UBOT"), "x", &Value::Null), false),
            (message("9.1", Some("UOTHER"), "x", &Value::Null), false),
            (message("9.1", None, "x", &Value::Null), false),
        ];
        for (message, expected) in table {
            let ours = [&message]
                .into_iter()
                .filter(|message| is_ours(message, Some("UBOT")));
            assert_eq!(hides_keys(ours, 5), expected, "{message:?}");
        }
        let both = [
            message("9.1", Some("UBOT"), "x", &Value::Null),
            message("9.2", Some("UBOT"), "x", &name),
        ];
        assert!(
            !hides_keys(both.iter(), 5),
            "one name that is shown is enough"
        );
        assert!(is_ours(
            &message("9.1", Some("UOTHER"), "x", &Value::Null),
            None
        ));
    }
}
