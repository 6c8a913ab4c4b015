//! Replays a session log into the conversation to send and the turn that a crash left open.
//!
//! Decision: replay is a pure function of a view. It renders what was sent before, byte for byte:
//! the runtime block of a message is appended to it again, and nothing else is added. Results that
//! a valid conversation lacks are synthesised and returned as entries to append, so that the next
//! replay finds them recorded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nanobot_types::{CallId, ChatMessage, INTERRUPTED_RESULT, MessageId, ToolCall, Transcript};
use serde_json::Value;

use crate::{Entry, MessageEntry, Record, Seq, SessionView, TurnEnd};

/// A conversation rebuilt from its log.
#[derive(Debug)]
pub struct Replay {
    /// The messages to send. While [`OpenTurn::pending`] has calls, it contains a synthesised
    /// result for each of them.
    pub transcript: Transcript,
    /// Results that earlier calls lack, to be appended. Calls of the open turn are not included.
    pub repairs: Vec<Entry>,
    /// The turn that was started and not ended.
    pub open_turn: Option<OpenTurn>,
}

/// Progress of a turn that was interrupted.
///
/// A message that the bus delivers again is looked up with [`SessionView::recorded`]. If it is
/// [`InboundStatus::Ended`], only its reply is published again. If it is [`InboundStatus::Open`]
/// and in [`OpenTurn::inbound`], the turn is resumed: every pending call gets a result and the
/// model is asked again. If the reply is already recorded, it is published instead, and the turn is
/// ended. An open turn that is not resumed becomes history, and its pending calls get the results
/// of [`OpenTurn::abandon`].
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    /// Journal ids of the messages it took in. A message without an id is not included.
    pub inbound: Vec<MessageId>,
    /// Position of its first message.
    pub began: Seq,
    /// Number of model calls.
    pub model_calls: usize,
    /// Number of tool calls, including the pending ones.
    pub tool_calls: usize,
    /// Calls of its last answer without a result, in order.
    pub pending: Vec<ToolCall>,
    /// The final text, if it was recorded before the end of the turn.
    pub reply: Option<String>,
}

impl OpenTurn {
    /// Returns the results to append if the turn will not be resumed.
    #[must_use]
    pub fn abandon(&self) -> Vec<Entry> {
        self.pending
            .iter()
            .map(|call| Entry::message(ChatMessage::tool(call, INTERRUPTED_RESULT)))
            .collect()
    }
}

/// State of an inbound message in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum InboundStatus {
    /// The message is not recorded, or it lies before the part that was read and its turn ended
    /// long ago.
    New,
    /// The message is in the log and its turn has not ended.
    Open,
    /// The turn of the message ended. The end itself is known only if it lies after the cursor.
    Ended(Option<TurnEnd>),
}

impl SessionView {
    /// Returns the state of the inbound message with this journal id.
    #[must_use]
    pub fn recorded(&self, inbound: &MessageId) -> InboundStatus {
        let end = self
            .records
            .iter()
            .rev()
            .find_map(|record| match &record.entry {
                Entry::TurnEnded(end) if end.inbound.contains(inbound) => Some(end.clone()),
                _ => None,
            });
        if end.is_some() || self.answered.contains(inbound) {
            return InboundStatus::Ended(end);
        }
        let is_it = |record: &Record| matches!(&record.entry, Entry::Message(message) if message.inbound.as_ref() == Some(inbound));
        if self.records.iter().any(is_it) {
            InboundStatus::Open
        } else {
            InboundStatus::New
        }
    }
}

/// Rebuilds the conversation after the cursor of `view`.
#[must_use]
pub fn replay(view: &SessionView) -> Replay {
    let open_turn = open_turn(view);
    let repaired = Transcript::repair(conversation(view));
    let pending: HashSet<&CallId> = open_turn
        .iter()
        .flat_map(|turn| &turn.pending)
        .map(|call| &call.id)
        .collect();
    let repairs = recordable(repaired.transcript.messages(), &repaired.synthesised)
        .filter(|(call, _)| !pending.contains(call))
        .map(|(_, result)| Entry::Message(MessageEntry::new(result.clone())))
        .collect();
    Replay {
        transcript: repaired.transcript,
        repairs,
        open_turn,
    }
}

/// Returns the messages to send, starting with the first user message, if there is one.
fn conversation(view: &SessionView) -> Vec<Arc<ChatMessage>> {
    let records = view.effective_records();
    let sent = records
        .into_iter()
        .filter(|record| record.seq >= view.cursor)
        .filter_map(sent_message);
    let mut messages: Vec<Arc<ChatMessage>> = sent.collect();
    let first = messages
        .iter()
        .position(|message| matches!(**message, ChatMessage::User(_)));
    messages.drain(..first.unwrap_or(0));
    messages
}

fn sent_message(record: &Record) -> Option<Arc<ChatMessage>> {
    let Entry::Message(entry) = &record.entry else {
        return None;
    };
    if is_command(entry) || says_nothing(&entry.message) {
        return None;
    }
    Some(entry.sent())
}

/// `true` for a slash command or its answer, which v0.3 stores among the messages.
pub(crate) fn is_command(entry: &MessageEntry) -> bool {
    entry
        .extra
        .get("_command")
        .is_some_and(|mark| *mark != Value::Bool(false) && !mark.is_null())
}

/// `true` for an empty assistant message, which vendors reject.
fn says_nothing(message: &ChatMessage) -> bool {
    match message {
        ChatMessage::Assistant(assistant) => {
            assistant.tool_calls.is_empty()
                && assistant
                    .content
                    .as_ref()
                    .is_none_or(|content| content.is_empty())
        }
        ChatMessage::System { .. } | ChatMessage::User(_) | ChatMessage::Tool(_) => false,
    }
}

/// Returns the synthesised results that will find their call when they are appended at the end of
/// the log. If a later call has the same id, the result would go to that call; such results are not
/// recorded but synthesised again each time.
fn recordable<'a>(
    messages: &'a [Arc<ChatMessage>],
    synthesised: &'a [Arc<ChatMessage>],
) -> impl Iterator<Item = (&'a CallId, &'a Arc<ChatMessage>)> {
    let made_up: HashSet<*const ChatMessage> = synthesised.iter().map(Arc::as_ptr).collect();
    let mut latest: HashMap<&CallId, &Arc<ChatMessage>> = HashMap::new();
    for message in messages {
        if let ChatMessage::Tool(result) = &**message {
            latest.insert(&result.tool_call_id, message);
        }
    }
    messages.iter().filter_map(move |message| match &**message {
        ChatMessage::Tool(result)
            if made_up.contains(&Arc::as_ptr(message))
                && latest
                    .get(&result.tool_call_id)
                    .is_some_and(|last| Arc::ptr_eq(last, message)) =>
        {
            Some((&result.tool_call_id, message))
        }
        _ => None,
    })
}

fn open_turn(view: &SessionView) -> Option<OpenTurn> {
    let ends = |entry: &Entry| {
        matches!(
            entry,
            Entry::TurnEnded(_) | Entry::Reset | Entry::Rewound { .. } | Entry::Restored
        )
    };
    let ended = view.records.iter().rposition(|record| ends(&record.entry));
    let since: Vec<(Seq, &MessageEntry)> = view
        .records
        .iter()
        .skip(ended.map_or(0, |index| index + 1))
        .filter(|record| record.seq >= view.cursor)
        .filter_map(|record| match &record.entry {
            Entry::Message(message) => Some((record.seq, message)),
            _ => None,
        })
        .collect();
    let is_user = |message: &MessageEntry| matches!(*message.message, ChatMessage::User(_));
    let is_journaled = |message: &MessageEntry| message.inbound.is_some() && is_user(message);
    let first = since
        .iter()
        .position(|(_, message)| is_journaled(message))
        .or_else(|| since.iter().rposition(|(_, message)| is_user(message)))?;
    let (began, _) = since.get(first)?;
    let mut turn = OpenTurn {
        inbound: Vec::new(),
        began: *began,
        model_calls: 0,
        tool_calls: 0,
        pending: Vec::new(),
        reply: None,
    };
    for (_, message) in since.iter().skip(first) {
        turn.take(message);
    }
    // Other programs do not record the end of a turn: a final reply ends it.
    let over = turn.inbound.is_empty() && turn.reply.is_some();
    (!over).then_some(turn)
}

impl OpenTurn {
    fn take(&mut self, entry: &MessageEntry) {
        match &*entry.message {
            ChatMessage::System { .. } => {}
            ChatMessage::User(_) => {
                self.inbound.extend(entry.inbound.clone());
                self.reply = None;
            }
            ChatMessage::Assistant(assistant) => {
                self.model_calls += 1;
                self.tool_calls += assistant.tool_calls.len();
                self.pending = assistant.tool_calls.clone();
                self.reply = (assistant.tool_calls.is_empty() && !says_nothing(&entry.message))
                    .then(|| entry.message.text());
            }
            ChatMessage::Tool(result) => self.pending.retain(|call| call.id != result.tool_call_id),
        }
    }
}
