//! What was said in a thread before the assistant was called into it.
//!
//! It is told once: which threads were told is kept in a note over restarts. A thread counts as told when
//! the message that tells of it is stored, so that nothing is missing in one that comes again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::Notes;
use nanobot_channel_kit::LateNote;
use serde::Deserialize;

use crate::candidate::Candidate;
use crate::channel::SlackChannel;
use crate::error::CallError;
use crate::history::Page;
use crate::text::{head, readable};

/// What the note is called.
const NOTE: &str = "told-threads";
/// How many threads are remembered as told about; those told first are forgotten.
const REMEMBERED: usize = 1024;
/// How much of each message is repeated, in code points.
const MESSAGE_LIMIT: usize = 500;
/// How many messages are asked for at a time: they come with the oldest first.
const PAGE: &str = "1000";
/// A thread that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// The threads whose beginning the assistant has been told.
#[derive(Debug)]
pub(crate) struct ToldThreads {
    known: Mutex<Known>,
    note: LateNote,
}

#[derive(Debug, Default)]
struct Known {
    is_read: bool,
    /// The one told first comes first.
    told: VecDeque<String>,
}

impl Default for ToldThreads {
    /// None are known before [`Self::open`].
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            note: LateNote::new(NOTE),
        }
    }
}

impl ToldThreads {
    /// A run begins. The note is read with the first.
    pub(crate) async fn open(&self, notes: &dyn Notes) {
        if std::mem::replace(&mut self.known().is_read, true) {
            return;
        }
        let Some(told) = self.note.read::<VecDeque<String>>(notes).await else {
            return;
        };
        self.known().told = told.into_iter().take(REMEMBERED).collect();
    }

    /// Writes the note whenever it changed, but not too often. Does not return.
    pub(crate) async fn keep_written(&self, notes: &dyn Notes) {
        self.note
            .keep_written(notes, || self.known().told.clone())
            .await;
    }

    /// Writes the note if it changed.
    pub(crate) async fn write(&self, notes: &dyn Notes) {
        self.note.write(notes, || self.known().told.clone()).await;
    }

    /// A message in a thread is stored: nobody has to be told of it again.
    pub(crate) fn insert(&self, candidate: &Candidate) {
        if let Some(name) = name(candidate)
            && self.known().insert(name)
        {
            self.note.change();
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.known().told.iter().any(|known| known == name)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Whether it was not known.
    fn insert(&mut self, name: String) -> bool {
        if self.told.contains(&name) {
            return false;
        }
        if self.told.len() >= REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(name);
        true
    }
}

/// What the thread in which a message is answered is remembered as.
fn name(candidate: &Candidate) -> Option<String> {
    candidate
        .delivery
        .thread
        .as_deref()
        .map(|thread| format!("{}/{thread}", candidate.chat))
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
    pub(crate) async fn thread_context(&self, candidate: &Candidate) -> Option<String> {
        let (chat, before) = (candidate.chat.as_str(), candidate.id.as_str());
        let thread = candidate
            .origin
            .said_in
            .as_deref()
            .filter(|thread| *thread != before)?;
        let limit = self.config.thread_context_limit;
        if !self.config.include_thread_context
            || limit == 0
            || self.told_threads.contains(&name(candidate)?)
        {
            return None;
        }
        let query = [
            ("channel", chat),
            ("ts", thread),
            ("latest", before),
            ("limit", PAGE),
        ];
        let replies = tokio::time::timeout(
            PATIENCE,
            self.api.ask::<Page<Reply>>("conversations.replies", &query),
        );
        let replies = replies
            .await
            .unwrap_or_else(|_| Err(CallError::Unreachable("no answer in time".to_owned())));
        match replies {
            Ok(replies) => in_words(
                self.bot_user.get().map_or("", String::as_str),
                &replies.messages,
                before,
                usize::try_from(limit).unwrap_or(usize::MAX),
            ),
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, "what was said in a thread before could not be fetched");
                None
            }
        }
    }
}

fn in_words(me: &str, messages: &[Reply], before: &str, limit: usize) -> Option<String> {
    let said = |message: &&Reply| message.ts != before && !message.text.trim().is_empty();
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
    use nanobot_channel::LONGEST_NOTE;
    use nanobot_testkit::NoteBook;

    use super::*;

    #[test]
    fn what_was_said_is_shortened() {
        let me = "UBOT";
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
        let words = format!(
            "[Earlier in this thread:\n<@UANN>: {}...\nyou: 1 < 2\nsomebody: hm]",
            "語".repeat(500)
        );
        assert_eq!(in_words(me, &messages, "6", 3), Some(words));
        assert_eq!(in_words(me, &messages[5..], "6", 3), None);
    }

    #[tokio::test]
    async fn the_note_is_bounded_and_those_told_first_are_forgotten() {
        let (notes, told) = (NoteBook::default(), ToldThreads::default());
        let thread = |number: usize| format!("C0123456789/{}.000001", 1_700_000_000 + number);
        for number in 0..=REMEMBERED {
            assert!(told.known().insert(thread(number)));
            assert!(!told.known().insert(thread(1.min(number))));
        }
        told.note.change();
        told.write(&notes).await;
        assert!(notes.all()[NOTE].len() < LONGEST_NOTE);
        let restarted = ToldThreads::default();
        restarted.open(&notes).await;
        assert_eq!(
            [0, 1, REMEMBERED].map(|number| restarted.contains(&thread(number))),
            [false, true, true]
        );
    }
}
