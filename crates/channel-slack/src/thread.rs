//! What was said in a thread before the assistant was called into it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use crate::channel::SlackChannel;
use crate::error::CallError;
use crate::history::Page;
use crate::inbound::{Candidate, Identity};
use crate::text::{head, readable};

/// How many threads are remembered as told about.
const REMEMBERED: usize = 1024;
/// How much of each message is repeated, in code points.
const MESSAGE_LIMIT: usize = 500;
/// How many messages are asked for at a time: they come with the oldest first.
const PAGE: &str = "1000";
/// A thread that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// The threads whose beginning the assistant has been told.
#[derive(Debug, Default)]
pub(crate) struct ToldThreads(Mutex<VecDeque<String>>);

impl ToldThreads {
    /// Whether this is the first time; the thread is remembered with that.
    fn is_first(&self, thread: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.iter().any(|known| known == thread) {
            return false;
        }
        if told.len() >= REMEMBERED {
            told.pop_front();
        }
        told.push_back(thread.to_owned());
        true
    }
}

/// One message of a thread, or of a channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Reply {
    pub(crate) ts: String,
    pub(crate) user: Option<String>,
    pub(crate) bot_id: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) text: String,
    pub(crate) metadata: serde_json::Value,
}

impl SlackChannel {
    /// The last messages of a thread before this one, in words, once per thread. A thread that
    /// begins with this message has none.
    pub(crate) async fn thread_context(&self, me: &Identity, candidate: &Candidate) -> Option<String> {
        let (chat, before) = (candidate.chat.as_str(), candidate.id.as_str());
        let is_first = self.told_threads.is_first(&format!("{chat}/{}", candidate.thread.as_deref()?));
        let thread = candidate.said_in.as_deref().filter(|thread| is_first && *thread != before)?;
        let limit = self.config.thread_context_limit;
        if !self.config.include_thread_context || limit == 0 {
            return None;
        }
        let query = [("channel", chat), ("ts", thread), ("latest", before), ("limit", PAGE)];
        let replies = tokio::time::timeout(PATIENCE, self.api.ask::<Page<Reply>>("conversations.replies", &query));
        let replies = replies.await.unwrap_or_else(|_| Err(CallError::Unreachable("no answer in time".to_owned())));
        match replies {
            Ok(replies) => in_words(me, &replies.messages, before, usize::try_from(limit).unwrap_or(usize::MAX)),
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, "what was said in a thread before could not be fetched");
                None
            }
        }
    }
}

fn in_words(me: &Identity, messages: &[Reply], before: &str, limit: usize) -> Option<String> {
    let said = |message: &&Reply| message.ts != before && !message.text.trim().is_empty();
    let earlier: Vec<_> = messages.iter().filter(said).collect();
    let last = earlier.get(earlier.len().saturating_sub(limit)..)?;
    if last.is_empty() {
        return None;
    }
    let mut lines = vec!["[Earlier in this thread:".to_owned()];
    for message in last {
        let who = match (&message.user, &message.username) {
            (Some(user), _) if *user == me.user => "you".to_owned(),
            (Some(user), _) => format!("<@{user}>"),
            (None, name) => name.clone().unwrap_or_else(|| "somebody".to_owned()),
        };
        let text = readable(&message.text);
        let start = head(text.trim(), MESSAGE_LIMIT);
        let mark = if start.len() < text.trim().len() { "..." } else { "" };
        lines.push(format!("{who}: {start}{mark}"));
    }
    Some(format!("{}]", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_once_and_shortened() {
        let told = ToldThreads::default();
        assert_eq!([told.is_first("a"), told.is_first("b"), told.is_first("a")], [true, true, false]);
        let me = Identity { user: "UBOT".into(), name: "nano".into(), team: "T".into() };
        let message = |ts: &str, user: &str, text: &str| Reply {
            ts: ts.into(),
            user: Some(user.into()).filter(|user: &String| !user.is_empty()),
            text: text.into(),
            ..Reply::default()
        };
        let messages = [
            message("1", "UANN", "dropped"),
            message("2", "UANN", &"語".repeat(501)),
            message("3", "UBOT", "1 &lt; 2"),
            message("4", "", "hm"),
            message("5", "UANN", " "),
            message("6", "UANN", "the question"),
        ];
        let words = format!("[Earlier in this thread:\n<@UANN>: {}...\nyou: 1 < 2\nsomebody: hm]", "語".repeat(500));
        assert_eq!(in_words(&me, &messages, "6", 3), Some(words));
        assert_eq!(in_words(&me, &messages[5..], "6", 3), None);
    }
}
