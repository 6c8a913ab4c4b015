//! Text shown while it is being written: one message that is edited until the reply takes it over.
//!
//! Decision: one small task per draft owns its message and its pace, so that showing text never
//! keeps a reply waiting for longer than the one call that is under way. Drafts are decoration:
//! without a running channel, beyond the bound, or after a failed first message there is none, and
//! the reply is a message of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::StreamId;
use slack_morphism::SlackMessageContent;
use tokio::sync::watch;

use crate::api::Api;
use crate::error::CallError;
use crate::outbound::{EDIT_LIMIT, named, post, update};
use crate::place::Place;
use crate::text::{escaped, head};

/// How many streams are remembered, finished ones included: what comes late must not begin anew.
const REMEMBERED: usize = 128;
/// How many are shown at a time.
const LIVE: usize = 32;
/// How long a draft waits for more text.
const LONGEST_SILENCE: Duration = Duration::from_mins(10);
/// How long one call may take, and with it a reply that waits for it.
const CALL_TIME: Duration = Duration::from_secs(10);

/// The drafts of one channel.
#[derive(Debug, Default)]
pub(crate) struct DraftBoard(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    stream: StreamId,
    text: watch::Sender<Text>,
    shown: watch::Receiver<Shown>,
}

impl Entry {
    fn is_live(&self) -> bool {
        self.text.borrow().phase == Phase::Growing && !self.shown.borrow().is_over
    }
}

/// What shall be shown.
#[derive(Clone, Debug, Default)]
struct Text {
    text: String,
    length: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// More may come.
    #[default]
    Growing,
    /// Nothing more comes.
    Closed,
    /// The message belongs to the reply now.
    Claimed,
}

/// What is shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    message: Option<String>,
    is_over: bool,
}

impl Text {
    /// What does not fit into one message is not shown; some more is kept, so that the cut is right.
    fn add(&mut self, delta: &str) -> bool {
        let takes = self.phase == Phase::Growing && self.length <= EDIT_LIMIT;
        if takes {
            self.text.push_str(delta);
            self.length += delta.chars().count();
        }
        takes
    }

    /// As Slack shows it: nothing in it is a mention, or a link of Slack's kind.
    fn visible(&self) -> String {
        let mut limit = EDIT_LIMIT;
        loop {
            let text = escaped(head(&self.text, limit));
            let over = text.chars().count().saturating_sub(EDIT_LIMIT);
            if over == 0 {
                return text;
            }
            limit = limit.saturating_sub(over.div_ceil(5).max(1));
        }
    }
}

impl DraftBoard {
    /// Adds text to a draft. `None`, unless this begins one: then it is to be kept running.
    pub(crate) fn append(&self, stream: &StreamId, delta: &str) -> Option<DraftSlot> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry.text.send_if_modified(|text| text.add(delta));
            return None;
        }
        if entries.iter().filter(|entry| entry.is_live()).count() >= LIVE {
            return None;
        }
        let mut text = Text::default();
        text.add(delta);
        Some(insert(&mut entries, stream, text))
    }

    /// Nothing more comes.
    pub(crate) fn close(&self, stream: &StreamId) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) {
            entry.text.send_if_modified(|text| {
                let is_growing = text.phase == Phase::Growing;
                if is_growing {
                    text.phase = Phase::Closed;
                }
                is_growing
            });
        }
    }

    /// Takes the message of a draft for the reply, after what is under way. Asked again it gives the
    /// same message, because a reply may have to be sent again.
    pub(crate) async fn claim(&self, stream: &StreamId) -> Option<String> {
        let mut shown = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entries.iter().find(|entry| entry.stream == *stream) else {
                insert(&mut entries, stream, Text { phase: Phase::Claimed, ..Text::default() });
                return None;
            };
            entry.text.send_modify(|text| text.phase = Phase::Claimed);
            entry.shown.clone()
        };
        let message = shown.wait_for(|shown| shown.is_over).await.ok().and_then(|shown| shown.message.clone());
        // A task that was ended from outside leaves what it last said.
        message.or_else(|| shown.borrow().message.clone())
    }
}

fn insert(entries: &mut VecDeque<Entry>, stream: &StreamId, text: Text) -> DraftSlot {
    if entries.len() >= REMEMBERED {
        entries.pop_front();
    }
    let (text, reader) = watch::channel(text);
    let (writer, shown) = watch::channel(Shown::default());
    entries.push_back(Entry { stream: stream.clone(), text, shown });
    DraftSlot { text: reader, shown: writer }
}

/// The place of a new draft on the board.
#[derive(Debug)]
pub(crate) struct DraftSlot {
    text: watch::Receiver<Text>,
    shown: watch::Sender<Shown>,
}

/// Shows one draft.
#[derive(Debug)]
pub(crate) struct DraftWriter {
    pub(crate) api: Arc<Api>,
    pub(crate) place: Place,
    pub(crate) interval: Duration,
    pub(crate) slot: DraftSlot,
}

impl DraftWriter {
    /// Shows the text as it grows, until it is complete or claimed.
    pub(crate) async fn run(mut self) {
        let mut visible = String::new();
        loop {
            let (text, phase) = {
                let current = self.slot.text.borrow_and_update();
                (current.visible(), current.phase)
            };
            if phase == Phase::Claimed {
                break;
            }
            let mut pause = Duration::ZERO;
            if text != visible && !text.trim().is_empty() {
                let shown = tokio::time::timeout(CALL_TIME, self.show(&text)).await;
                pause = self.interval;
                if let Err(error) = shown.unwrap_or_else(|_| Err(CallError::Interrupted("no answer".to_owned()))) {
                    tracing::debug!(%error, "a draft could not be shown");
                    if let CallError::RateLimited(wait) = error {
                        pause = pause.max(wait);
                    }
                }
                // Without its id there may be a message all the same: a second one would stay.
                if phase == Phase::Closed || self.slot.shown.borrow().message.is_none() {
                    break;
                }
                visible = text;
            } else if phase == Phase::Closed {
                break;
            }
            if !self.rest(pause).await {
                break;
            }
        }
        self.slot.shown.send_modify(|shown| shown.is_over = true);
    }

    async fn show(&self, text: &str) -> Result<(), CallError> {
        let content = SlackMessageContent::new().with_text(text.to_owned());
        let known = self.slot.shown.borrow().message.clone();
        if let Some(ts) = known {
            return update(&self.api, &self.place, &ts, content).await;
        }
        let ts = post(&self.api, &self.place, named(content, "draft")).await?;
        self.slot.shown.send_modify(|shown| shown.message = ts);
        Ok(())
    }

    /// Waits for the pause and then for news. `false` when none will come.
    async fn rest(&mut self, pause: Duration) -> bool {
        let mut watched = self.slot.text.clone();
        tokio::select! {
            claimed = watched.wait_for(|text| text.phase == Phase::Claimed) => return claimed.is_ok(),
            () = tokio::time::sleep(pause) => {}
        }
        matches!(tokio::time::timeout(LONGEST_SILENCE, self.slot.text.changed()).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_escaped_and_fits() {
        let mut text = Text::default();
        text.add("<@U1> & 1");
        assert_eq!(text.visible(), "&lt;@U1&gt; &amp; 1");
        for _ in 0..3 {
            text.add(&"&語".repeat(1500));
        }
        let visible = text.visible();
        assert!((EDIT_LIMIT - 10..=EDIT_LIMIT).contains(&visible.chars().count()), "{}", visible.chars().count());
        assert!(!text.add("more"), "no more is kept than can be shown");
    }
}
