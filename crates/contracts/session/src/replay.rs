//! From a session log to the conversation that is sent, and to the turn that a crash left open.
//!
//! Decision: replay is a pure function of a view. It renders what was sent before, byte for byte:
//! the runtime block of a message is put behind it again, nothing else is added. What a valid
//! conversation lacks is made up and handed back as entries to append, so that the next replay
//! finds it recorded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nanobot_types::{CallId, ChatMessage, INTERRUPTED_RESULT, MessageId, ToolCall, Transcript};
use serde_json::Value;

use crate::{Entry, MessageEntry, Record, Seq, SessionView, TurnEnd};

/// A conversation rebuilt from its log.
#[derive(Debug)]
pub struct Replay {
    /// What is sent. While [`OpenTurn::pending`] has calls it holds a made-up result for each.
    pub transcript: Transcript,
    /// Results that calls of the past lack, to be appended. Calls of the open turn are not among
    /// them.
    pub repairs: Vec<Entry>,
    /// The turn that was begun and not ended.
    pub open_turn: Option<OpenTurn>,
}

/// How far a turn came before it was interrupted.
///
/// A message that the bus delivers again is looked up with [`SessionView::recorded`]. If it is
/// [`Recorded::Ended`], only its reply is published again. If it is [`Recorded::Open`] and among
/// [`OpenTurn::inbound`], the turn goes on: every pending call gets a result, and the model is
/// asked again; or, if the reply is recorded already, it is published and the turn ended. An open
/// turn that nobody comes back for is history, and its pending calls get [`OpenTurn::abandon`].
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    /// Journal ids of the messages it took in. A message without an id leaves none.
    pub inbound: Vec<MessageId>,
    /// Where its first message is.
    pub began: Seq,
    /// How often the model was asked.
    pub model_calls: usize,
    /// How many tools it called, with the pending ones.
    pub tool_calls: usize,
    /// Calls of its last answer that have no result, in order.
    pub pending: Vec<ToolCall>,
    /// The final text, if that was recorded before the end of the turn was.
    pub reply: Option<String>,
}

impl OpenTurn {
    /// Results to append when the turn will not go on.
    #[must_use]
    pub fn abandon(&self) -> Vec<Entry> {
        self.pending
            .iter()
            .map(|call| Entry::message(ChatMessage::tool(call, INTERRUPTED_RESULT)))
            .collect()
    }
}

/// What a session knows of an inbound message.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// Nothing, or it lies before what was read and its turn ended long ago.
    New,
    /// It is in the log and its turn has not ended.
    Open,
    /// Its turn ended; how is known while that lies behind the cursor.
    Ended(Option<TurnEnd>),
}

impl SessionView {
    /// What became of an inbound message, by its journal id.
    #[must_use]
    pub fn recorded(&self, inbound: &MessageId) -> Recorded {
        let end = self
            .records
            .iter()
            .rev()
            .find_map(|record| match &record.entry {
                Entry::TurnEnded(end) if end.inbound.contains(inbound) => Some(end.clone()),
                _ => None,
            });
        if end.is_some() || self.answered.contains(inbound) {
            return Recorded::Ended(end);
        }
        let is_it = |record: &Record| matches!(&record.entry, Entry::Message(message) if message.inbound.as_ref() == Some(inbound));
        if self.records.iter().any(is_it) {
            Recorded::Open
        } else {
            Recorded::New
        }
    }
}

/// Rebuilds the conversation behind the cursor of `view`.
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

/// The messages to send: from the first that a person said, if there is one.
fn conversation(view: &SessionView) -> Vec<Arc<ChatMessage>> {
    let standing = view.standing();
    let sent = standing
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
    let is_command = entry
        .extra
        .get("_command")
        .is_some_and(|mark| *mark != Value::Bool(false) && !mark.is_null());
    if is_command || says_nothing(&entry.message) {
        return None;
    }
    Some(entry.sent())
}

/// Vendors refuse an empty answer of the model.
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

/// The made-up results that find their call when they are appended at the end of the log. Where a
/// later call has the same id they would not, and are made up again every time.
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
            Entry::TurnEnded(_) | Entry::Reset | Entry::Rewound { .. }
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
    // Another program does not write down that its turns end: a last word is one.
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
