//! Determines from a session log how a turn starts.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_session::{Entry, InboundStatus, MessageEntry, OpenTurn, SessionView, TurnEnd, replay};
use nanobot_types::{ChatMessage, MessageId};

use crate::engine::{Steering, TurnProgress, untrusted_origin};

/// The state of a turn in the log before it runs.
pub(super) enum TurnStart {
    /// It has ended; the end itself is `None` once the log no longer shows it.
    Ended(Option<TurnEnd>),
    /// It is new.
    Fresh {
        /// Entries to record before the message that begins it.
        repairs: Vec<Entry>,
        /// The conversation so far.
        messages: Vec<Arc<ChatMessage>>,
    },
    /// A crash interrupted it, and it is resumed.
    Resumed(Resumed),
}

/// A turn to resume.
pub(super) struct Resumed {
    /// Entries to record first.
    pub(super) repairs: Vec<Entry>,
    /// The conversation so far, without results for pending calls.
    pub(super) messages: Vec<Arc<ChatMessage>>,
    /// The steps taken so far.
    pub(super) steps: Vec<Arc<ChatMessage>>,
    /// The calls made so far.
    pub(super) progress: TurnProgress,
    /// Its final reply, if only its end is missing.
    pub(super) reply: Option<String>,
    /// Journal ids of the messages it took in.
    pub(super) inbound: Vec<MessageId>,
    /// Results to record if it is not resumed after all.
    pub(super) abandoned: Vec<Entry>,
}

impl TurnStart {
    /// Looks up the message that begins the turn.
    pub(super) fn of(view: &SessionView, inbound: Option<&MessageId>) -> Self {
        if let Some(InboundStatus::Ended(end)) = inbound.map(|id| view.recorded(id)) {
            return Self::Ended(end);
        }
        let replayed = replay(view);
        let messages = replayed.transcript.into_messages();
        let mut repairs = replayed.repairs;
        match replayed.open_turn {
            Some(open) if inbound.is_some_and(|id| open.inbound.contains(id)) => {
                Self::Resumed(Resumed::of(view, open, messages, repairs))
            }
            // The open turn belongs to another message and will not be resumed.
            Some(open) => {
                repairs.extend(open.abandon());
                Self::Fresh { repairs, messages }
            }
            None => Self::Fresh { repairs, messages },
        }
    }
}

impl Resumed {
    fn of(
        view: &SessionView,
        open: OpenTurn,
        mut messages: Vec<Arc<ChatMessage>>,
        repairs: Vec<Entry>,
    ) -> Self {
        let pending: HashSet<_> = open.pending.iter().map(|call| call.id.clone()).collect();
        let last_answer = messages
            .iter()
            .rposition(|message| matches!(**message, ChatMessage::Assistant(_)));
        let mut index = 0;
        messages.retain(|message| {
            index += 1;
            let is_made_up = matches!(&**message, ChatMessage::Tool(result) if pending.contains(&result.tool_call_id));
            !(is_made_up && last_answer.is_some_and(|last| index > last))
        });
        let recorded = view
            .records
            .iter()
            .filter(|record| record.seq >= open.began)
            .filter_map(|record| match &record.entry {
                Entry::Message(entry) => Some(entry),
                _ => None,
            });
        let untrusted = recorded.clone().filter_map(untrusted_origin).next_back();
        let steps = recorded.map(|entry| entry.message.clone());
        let abandoned = open.abandon();
        Self {
            abandoned,
            repairs,
            messages,
            steps: steps.collect(),
            progress: TurnProgress {
                model_calls: u32::try_from(open.model_calls).unwrap_or(u32::MAX),
                tool_calls: u32::try_from(open.tool_calls).unwrap_or(u32::MAX),
                pending: open.pending,
                untrusted: untrusted.map(str::to_owned),
            },
            reply: open.reply,
            inbound: open.inbound,
        }
    }
}

/// Returns the number of steps recorded after the message in its turn; `u32::MAX` if the turn
/// ended.
pub(super) fn steps_recorded(view: &SessionView, inbound: &MessageId) -> u32 {
    if matches!(view.recorded(inbound), InboundStatus::Ended(_)) {
        return u32::MAX;
    }
    let messages = view
        .records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Message(entry) => Some(entry),
            _ => None,
        });
    let steps = messages
        .skip_while(|entry| entry.inbound.as_ref() != Some(inbound))
        .skip(1)
        .count();
    u32::try_from(steps).unwrap_or(u32::MAX)
}

/// Steering that drops messages that are already recorded, and remembers which ones the turn took
/// in.
pub(super) struct FreshSteering<'a> {
    inner: &'a mut dyn Steering,
    taken: Vec<MessageId>,
}

impl<'a> FreshSteering<'a> {
    /// Wraps `inner`; `taken` are the journal ids that are already recorded.
    pub(super) fn new(inner: &'a mut dyn Steering, taken: Vec<MessageId>) -> Self {
        Self { inner, taken }
    }

    /// Returns the journal ids of all messages that the turn took in.
    pub(super) fn into_message_ids(self) -> Vec<MessageId> {
        self.taken
    }
}

#[async_trait]
impl Steering for FreshSteering<'_> {
    async fn take(&mut self) -> Vec<MessageEntry> {
        let mut fresh = Vec::new();
        for entry in self.inner.take().await {
            match &entry.inbound {
                Some(id) if self.taken.contains(id) => continue,
                Some(id) => self.taken.push(id.clone()),
                None => {}
            }
            fresh.push(entry);
        }
        fresh
    }
}
