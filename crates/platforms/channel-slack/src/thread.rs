//! Context of a thread: messages before the one that called the assistant into it.
//!
//! The model gets them once per thread; the threads that have it are noted over restarts. A thread
//! is noted when the message with its context is stored, so that a message that comes again has it
//! again.

use std::time::Duration;

use nanobot_channel_kit::{LateNote, Noted, Recent};
use serde::Deserialize;

use crate::candidate::CandidateMessage;
use crate::channel::Slack;
use crate::error::CallError;
use crate::history::MessagePage;
use crate::text::{head, readable};

/// Maximum number of threads that are noted; the oldest are forgotten.
const CAPACITY: usize = 1024;
/// Length of the excerpt of each message, in code points.
const MESSAGE_LIMIT: usize = 500;
/// Messages in the one page that is read, the oldest first.
const PAGE_SIZE: &str = "1000";
/// Time after which the context is left out.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The threads whose context the model got.
pub(crate) type ThreadsWithContext = LateNote<ThreadNames>;

/// Names of threads.
#[derive(Debug)]
pub(crate) struct ThreadNames(Recent<String>);

impl Default for ThreadNames {
    fn default() -> Self {
        Self(Recent::new(CAPACITY))
    }
}

impl Noted for ThreadNames {
    const NAME: &'static str = "told-threads";
    type Form = Vec<String>;

    fn form(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    fn restore(&mut self, names: Vec<String>) {
        self.0.refill(names);
    }
}

/// Returns the name of the thread in which a message is answered.
fn thread_name(candidate: &CandidateMessage) -> Option<String> {
    candidate
        .delivery
        .thread
        .as_deref()
        .map(|thread| format!("{}/{thread}", candidate.chat))
}

/// A message of a thread or of a channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadMessage {
    pub(crate) ts: String,
    pub(crate) user: Option<String>,
    pub(crate) bot_id: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) text: String,
    pub(crate) metadata: serde_json::Value,
}

impl Slack {
    /// Notes the thread of a message that is stored with its context.
    pub(crate) fn note_context(&self, candidate: &CandidateMessage) {
        if let Some(name) = thread_name(candidate) {
            self.threads_with_context
                .update(|threads| threads.0.insert(name));
        }
    }

    /// Returns the last messages of a thread before this one as text, once per thread. A thread
    /// that begins with this message has none.
    pub(crate) async fn thread_context(&self, candidate: &CandidateMessage) -> Option<String> {
        let (chat, before) = (candidate.chat.as_str(), candidate.id.as_str());
        let thread = candidate
            .origin
            .source_thread
            .as_deref()
            .filter(|thread| *thread != before)?;
        let limit = self.config.thread_context_limit;
        if !self.config.include_thread_context || limit == 0 || {
            let name = thread_name(candidate)?;
            self.threads_with_context
                .with(|threads| threads.0.contains(&name))
        } {
            return None;
        }
        let query = [
            ("channel", chat),
            ("ts", thread),
            ("latest", before),
            ("limit", PAGE_SIZE),
        ];
        let replies = tokio::time::timeout(
            FETCH_TIMEOUT,
            self.api
                .query::<MessagePage<ThreadMessage>>("conversations.replies", &query),
        );
        let replies = replies
            .await
            .unwrap_or_else(|_| Err(CallError::Unreachable("no answer in time".to_owned())));
        match replies {
            Ok(replies) => excerpt(
                self.bot_user.get().map_or("", String::as_str),
                &replies.messages,
                before,
                usize::try_from(limit).unwrap_or(usize::MAX),
            ),
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "the context of a thread could not be fetched");
                None
            }
        }
    }
}

fn excerpt(me: &str, messages: &[ThreadMessage], before: &str, limit: usize) -> Option<String> {
    let said = |message: &&ThreadMessage| message.ts != before && !message.text.trim().is_empty();
    let earlier: Vec<_> = messages.iter().filter(said).collect();
    let last = earlier.get(earlier.len().saturating_sub(limit)..)?;
    if last.is_empty() {
        return None;
    }
    let mut lines = vec!["[Earlier in this thread:".to_owned()];
    for message in last {
        let who = match (&message.user, &message.username) {
            (Some(user), _) if user == me => "you".to_owned(),
            (Some(user), _) => format!("<@{user}>"),
            (None, name) => name.clone().unwrap_or_else(|| "somebody".to_owned()),
        };
        let text = readable(&message.text);
        let start = head(text.trim(), MESSAGE_LIMIT);
        let mark = if start.len() < text.trim().len() {
            "..."
        } else {
            ""
        };
        lines.push(format!("{who}: {start}{mark}"));
    }
    Some(format!("{}]", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use nanobot_channel::MAX_NOTE_BYTES;
    use nanobot_testkit::NoteBook;

    use super::*;

    #[test]
    fn long_thread_messages_are_truncated() {
        let me = "UBOT";
        let message = |ts: &str, user: &str, text: &str| ThreadMessage {
            ts: ts.into(),
            user: Some(user.into()).filter(|user: &String| !user.is_empty()),
            text: text.into(),
            ..ThreadMessage::default()
        };
        let messages = [
            message("1", "UANN", "dropped"),
            message("2", "UANN", &"語".repeat(501)),
            message("3", "UBOT", "1 &lt; 2"),
            message("4", "", "hm"),
            message("5", "UANN", " "),
            message("6", "UANN", "the question"),
        ];
        let words = format!(
            "[Earlier in this thread:\n<@UANN>: {}...\nyou: 1 < 2\nsomebody: hm]",
            "語".repeat(500)
        );
        assert_eq!(excerpt(me, &messages, "6", 3), Some(words));
        assert_eq!(excerpt(me, &messages[5..], "6", 3), None);
    }

    #[tokio::test]
    async fn note_is_bounded_and_drops_the_oldest_threads() {
        let (notes, threads) = (NoteBook::default(), ThreadsWithContext::default());
        let thread = |number: usize| format!("C0123456789/{}.000001", 1_700_000_000 + number);
        for number in 0..=CAPACITY {
            assert!(threads.update(|threads| threads.0.insert(thread(number))));
            assert!(!threads.update(|threads| threads.0.insert(thread(1.min(number)))));
        }
        threads.write(&notes).await;
        assert!(notes.all()[ThreadNames::NAME].len() < MAX_NOTE_BYTES);
        let restarted = ThreadsWithContext::default();
        restarted.open(&notes).await;
        assert_eq!(
            [0, 1, CAPACITY]
                .map(|number| { restarted.with(|threads| threads.0.contains(&thread(number))) }),
            [false, true, true]
        );
    }
}
