//! What a prompt has shown of its session, and what it missed while it was disconnected.
//!
//! Decision: a gateway discards replies to a terminal that is not connected, and publishes those
//! again that it had not settled when it was killed. So the missed replies are read from the
//! session, and every reply is recognised by its idempotency key: none is lost or shown twice. A
//! reply whose last word was streamed before the connection ended is not shown again. A turn that
//! ended before the last shown one was shown, too, because the turns of a session run one after the
//! other.

use std::collections::VecDeque;

use nanobot_agent_core::was_sent_to;
use nanobot_control::{TERMINAL_CHANNEL, TerminalEvent};
use nanobot_cron::job_of_turn;
use nanobot_session::{
    Entry, MessageEntry, ReadFrom, Record, Seq, SessionError, SessionStore, SessionView, TurnEnd,
    TurnOutcome,
};
use nanobot_tool::resolve_call;
use nanobot_types::{
    ChatMessage, MessageId, NoticeKind, OutboundKey, OutboundSlot, SessionKey, ToolCall, TraceId,
};
use serde::Deserialize;
use uuid::Uuid;

use super::split_session;
use super::streamed::StreamedText;

/// Maximum number of remembered keys.
const MAX_KEYS: usize = 1024;
/// Name of the tool that sends a message during a turn.
const MESSAGE_TOOL: &str = "message";

/// Record of the shown part of a session.
#[derive(Debug, Default)]
pub(super) struct ShownEvents {
    /// Keys of shown replies and ends of turns, the newest last.
    keys: VecDeque<OutboundKey>,
    /// Turns of shown messages of other terminals, the newest last.
    said: VecDeque<TraceId>,
    /// The reply that is being streamed, or was when the connection ended.
    streamed: StreamedText,
    /// End of the session when the terminal joined it.
    from: Seq,
}

/// What a terminal missed.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// The replies and ends of turns, in order.
    pub(super) events: Vec<TerminalEvent>,
    /// Journal ids of the messages that the session has answered.
    pub(super) answered: Vec<MessageId>,
}

impl ShownEvents {
    /// Returns the record of a terminal that joins a session now.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub(super) async fn join(
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<Self, SessionError> {
        let view = store.read(&key_of(session), ReadFrom::Cursor).await?;
        let mut shown = Self::default();
        shown.mark_ends(&view);
        shown.from = view.head;
        Ok(shown)
    }

    /// Records an event and returns `true` if it has to be shown: its reply was not shown before.
    pub(super) fn admit(&mut self, event: &TerminalEvent, key: Option<OutboundKey>) -> bool {
        if let TerminalEvent::TurnEnd { turn, .. } = event {
            self.record(OutboundKey::new(turn.clone(), OutboundSlot::TurnEnd));
            return true;
        }
        let Some(key) = key else { return true };
        self.streamed.observe(event, &key);
        match event {
            TerminalEvent::Reply { text, .. } if self.streamed.was_all_of(&key, text) => {
                self.record(key);
                false
            }
            TerminalEvent::Reply { .. } => {
                // Notices of progress have one key for several messages.
                let is_repeatable =
                    key.position >= OutboundSlot::Notice(NoticeKind::Working).position();
                if !is_repeatable && self.keys.contains(&key) {
                    return false;
                }
                self.record(key);
                true
            }
            TerminalEvent::Delta(_) | TerminalEvent::StreamEnd { .. } => !self.has_reply(&key.turn),
            // A terminal sends its messages again when it is back.
            TerminalEvent::Said { .. } => self.admit_said(key.turn),
            _ => true,
        }
    }

    /// Reads what the session got since the last shown event, and records it as shown. Messages with
    /// the ids `own` were sent here.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub(super) async fn missed(
        &mut self,
        store: &dyn SessionStore,
        session: &str,
        own: &[TraceId],
    ) -> Result<Missed, SessionError> {
        let view = store
            .read(&key_of(session), ReadFrom::Seq(self.from))
            .await?;
        self.streamed.interrupt();
        let shown = view.records.iter().rposition(|record| match &record.entry {
            Entry::TurnEnded(end) => self.is_shown(end),
            _ => false,
        });
        let first = shown.map_or(0, |shown| shown.saturating_add(1));
        let mut missed = Missed {
            events: self.events_of(view.records.get(first..).unwrap_or_default(), session, own),
            answered: view.answered.clone(),
        };
        missed
            .answered
            .extend(ends(&view).flat_map(|end| end.inbound.clone()));
        self.mark_ends(&view);
        self.from = view.head;
        Ok(missed)
    }

    fn events_of(
        &mut self,
        records: &[Record],
        session: &str,
        own: &[TraceId],
    ) -> Vec<TerminalEvent> {
        let mut events = Vec::new();
        let mut turn = RecordedTurn::default();
        for record in records {
            match &record.entry {
                Entry::Message(entry) => turn.add(entry),
                Entry::TurnEnded(end) => {
                    let turn = std::mem::take(&mut turn);
                    self.add_said(&mut events, &turn, own);
                    if is_of_terminal(end, session) {
                        self.add_sent(&mut events, &turn, &end.turn, session);
                        self.add_reply(&mut events, end);
                    }
                    let ended = end.inbound.iter().map(|id| TraceId::from(id.as_str()));
                    events.extend(ended.map(|turn| TerminalEvent::TurnEnd {
                        turn,
                        unfinished: 0,
                    }));
                }
                _ => {}
            }
        }
        self.add_said(&mut events, &turn, own);
        if let Some(id) = turn.begun_by.clone() {
            self.add_sent(&mut events, &turn, &TraceId::from(id.as_str()), session);
        }
        events
    }

    /// Adds the messages of a turn that were sent at other terminals.
    fn add_said(&mut self, events: &mut Vec<TerminalEvent>, turn: &RecordedTurn, own: &[TraceId]) {
        for (id, text) in &turn.said {
            if !own.contains(id) && self.admit_said(id.clone()) {
                events.push(TerminalEvent::said(text, 0));
            }
        }
    }

    /// Adds the messages that the tools of a turn have sent to this terminal.
    fn add_sent(
        &mut self,
        events: &mut Vec<TerminalEvent>,
        turn: &RecordedTurn,
        id: &TraceId,
        session: &str,
    ) {
        for (position, text) in turn.sent_to(session) {
            let key = OutboundKey::new(id.clone(), OutboundSlot::Tool(position));
            let event = reply(text, true);
            if self.admit(&event, Some(key)) {
                events.push(event);
            }
        }
    }

    fn add_reply(&mut self, events: &mut Vec<TerminalEvent>, end: &TurnEnd) {
        let Some(text) = end.visible.clone() else {
            return;
        };
        let is_answer = matches!(end.outcome, TurnOutcome::Replied | TurnOutcome::Suppressed);
        let event = reply(text, is_answer);
        let key = OutboundKey::new(end.turn.clone(), OutboundSlot::Reply);
        if self.admit(&event, Some(key)) {
            events.push(event);
        }
    }

    /// Records the turns that ended at the end of a view.
    fn mark_ends(&mut self, view: &SessionView) {
        let at_end = view.records.iter().filter(|record| record.seq >= view.head);
        for record in at_end {
            if let Entry::TurnEnded(end) = &record.entry {
                self.record(OutboundKey::new(end.turn.clone(), OutboundSlot::Reply));
                self.record(OutboundKey::new(end.turn.clone(), OutboundSlot::TurnEnd));
            }
        }
    }

    fn is_shown(&self, end: &TurnEnd) -> bool {
        self.has_reply(&end.turn)
            || self
                .keys
                .contains(&OutboundKey::new(end.turn.clone(), OutboundSlot::TurnEnd))
    }

    fn has_reply(&self, turn: &TraceId) -> bool {
        self.keys
            .contains(&OutboundKey::new(turn.clone(), OutboundSlot::Reply))
    }

    fn admit_said(&mut self, turn: TraceId) -> bool {
        if self.said.contains(&turn) {
            return false;
        }
        if self.said.len() >= MAX_KEYS {
            self.said.pop_front();
        }
        self.said.push_back(turn);
        true
    }

    fn record(&mut self, key: OutboundKey) {
        if self.keys.contains(&key) {
            return;
        }
        if self.keys.len() >= MAX_KEYS {
            self.keys.pop_front();
        }
        self.keys.push_back(key);
    }
}

/// The messages of a turn, as far as they were read.
#[derive(Debug, Default)]
struct RecordedTurn {
    /// Journal id of the first message.
    begun_by: Option<MessageId>,
    /// Messages that persons sent at terminals.
    said: Vec<(TraceId, String)>,
    /// Calls in order, if the turn was read from its beginning.
    calls: Vec<ToolCall>,
    /// Texts of the results.
    results: Vec<(nanobot_types::CallId, String)>,
}

impl RecordedTurn {
    fn add(&mut self, entry: &MessageEntry) {
        match &*entry.message {
            ChatMessage::User(user) => {
                if let Some(id) = entry.inbound.as_ref().filter(|id| is_typed(id)) {
                    let text = user.content.to_text();
                    self.said.push((TraceId::from(id.as_str()), text));
                }
                if self.begun_by.is_none() {
                    self.begun_by.clone_from(&entry.inbound);
                }
            }
            ChatMessage::Assistant(assistant) if self.begun_by.is_some() => {
                self.calls.extend(assistant.tool_calls.iter().cloned());
            }
            ChatMessage::Tool(result) => {
                let text = result.content.to_text();
                self.results.push((result.tool_call_id.clone(), text));
            }
            _ => {}
        }
    }

    /// Returns the texts that the `message` tool sent to a terminal, with the positions of the
    /// calls in the turn, from 1.
    fn sent_to(&self, session: &str) -> Vec<(u32, String)> {
        #[derive(Deserialize)]
        struct Arguments {
            content: String,
        }
        let (channel, chat) = terminal_chat(session);
        let was_sent = |call: &ToolCall| {
            self.results
                .iter()
                .any(|(id, text)| *id == call.id && was_sent_to(text, &channel, &chat))
        };
        let numbered = (1..).zip(self.calls.iter().map(|call| resolve_call(call)));
        numbered
            .filter(|(_, call)| call.name.as_str() == MESSAGE_TOOL && was_sent(call))
            .filter_map(|(position, call)| {
                let arguments: Arguments = serde_json::from_str(&call.arguments).ok()?;
                Some((position, arguments.content))
            })
            .collect()
    }
}

/// `true` for the id of a message that a terminal sent, which has a random name; those of subagents
/// and jobs have other names.
fn is_typed(id: &MessageId) -> bool {
    let mut parts = id.as_str().split('/');
    let is_of_terminal = parts.next() == Some(TERMINAL_CHANNEL);
    is_of_terminal
        && parts
            .next_back()
            .is_some_and(|name| Uuid::try_parse(name).is_ok())
}

fn reply(text: String, ok: bool) -> TerminalEvent {
    TerminalEvent::Reply {
        text,
        streamed: false,
        ok,
        job: None,
    }
}

fn ends(view: &SessionView) -> impl Iterator<Item = &TurnEnd> {
    view.records
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::TurnEnded(end) => Some(end),
            _ => None,
        })
}

/// `true` if the reply of a turn goes to terminals, and is not among the results of jobs that a
/// terminal shows when it joins. In the session of another channel only the turns of terminals are.
fn is_of_terminal(end: &TurnEnd, session: &str) -> bool {
    let (channel, _) = split_session(session);
    let is_own = channel.as_str() == TERMINAL_CHANNEL;
    let prefix = format!("{TERMINAL_CHANNEL}/");
    let is_asked_here = || {
        end.inbound
            .iter()
            .any(|id| id.as_str().starts_with(&prefix))
    };
    job_of_turn(&end.turn).is_none() && (is_own || is_asked_here())
}

/// Returns the chat of the terminal's channel that receives the replies in a session.
fn terminal_chat(session: &str) -> (nanobot_types::ChannelName, nanobot_types::ChatId) {
    let message = nanobot_control::terminal_message(session, "", None);
    (message.channel, message.chat_id)
}

fn key_of(session: &str) -> SessionKey {
    let (channel, chat) = split_session(session);
    SessionKey::of_chat(&channel, &chat)
}

#[cfg(test)]
mod tests {
    use nanobot_session::InMemoryStore;
    use nanobot_types::{AssistantMessage, Content};

    use super::*;

    const SESSION: &str = "cli:direct";

    fn asked(id: &str, text: &str) -> Entry {
        let entry = MessageEntry::new(ChatMessage::user(text));
        Entry::Message(MessageEntry {
            inbound: Some(id.into()),
            ..entry
        })
    }

    fn ended(id: &str, visible: Option<&str>) -> Entry {
        Entry::TurnEnded(TurnEnd {
            turn: id.into(),
            inbound: vec![id.into()],
            outcome: TurnOutcome::Replied,
            visible: visible.map(str::to_owned),
        })
    }

    /// A turn that calls a tool and sends a message.
    fn sending(text: &str, target: &str) -> [Entry; 3] {
        let call = |id: &str, name: &str, arguments: String| ToolCall {
            id: id.into(),
            name: name.into(),
            arguments,
            extra: nanobot_types::Map::new(),
            function_extra: nanobot_types::Map::new(),
        };
        let arguments = serde_json::json!({"content": text}).to_string();
        let sent = call("b", MESSAGE_TOOL, arguments);
        let listed = call("a", "list_dir", "{}".to_owned());
        let answer = AssistantMessage {
            content: None::<Content>,
            tool_calls: vec![listed.clone(), sent.clone()],
            ..AssistantMessage::default()
        };
        [
            Entry::message(ChatMessage::Assistant(answer)),
            Entry::message(ChatMessage::tool(&listed, "nothing")),
            Entry::message(ChatMessage::tool(
                &sent,
                format!("Message sent to {target}"),
            )),
        ]
    }

    async fn append(store: &InMemoryStore, entries: Vec<Entry>) {
        let key = key_of(SESSION);
        let head = store.read(&key, ReadFrom::Cursor).await.unwrap().head;
        store.append(&key, head, entries).await.unwrap();
    }

    fn end(turn: &str) -> TerminalEvent {
        TerminalEvent::TurnEnd {
            turn: turn.into(),
            unfinished: 0,
        }
    }

    fn whole(text: &str) -> TerminalEvent {
        reply(text.to_owned(), true)
    }

    fn key(turn: &str, position: u32) -> Option<OutboundKey> {
        Some(OutboundKey {
            turn: turn.into(),
            position,
        })
    }

    #[tokio::test]
    async fn missed_replies_are_returned_once() {
        let store = InMemoryStore::default();
        append(
            &store,
            vec![asked("cli/direct/1", "a"), ended("cli/direct/1", Some("A"))],
        )
        .await;
        let mut shown = ShownEvents::join(&store, SESSION).await.unwrap();
        assert_eq!(shown.missed(&store, SESSION, &[]).await.unwrap().events, []);

        // The second reply was shown, the third one was not.
        append(
            &store,
            vec![asked("cli/direct/2", "b"), ended("cli/direct/2", Some("B"))],
        )
        .await;
        assert!(shown.admit(&whole("B"), key("cli/direct/2", 0)));
        append(
            &store,
            vec![asked("cli/direct/3", "c"), ended("cli/direct/3", Some("C"))],
        )
        .await;
        let missed = shown.missed(&store, SESSION, &[]).await.unwrap();
        assert_eq!(missed.events, [whole("C"), end("cli/direct/3")]);
        assert!(missed.answered.contains(&"cli/direct/3".into()));
        assert_eq!(shown.missed(&store, SESSION, &[]).await.unwrap().events, []);

        // The gateway publishes it again, with its pieces.
        assert!(!shown.admit(&whole("C"), key("cli/direct/3", 0)));
        assert!(!shown.admit(
            &TerminalEvent::Delta("C".to_owned()),
            key("cli/direct/3", 0)
        ));
        assert!(shown.admit(&whole("D"), key("cli/direct/4", 0)));
    }

    #[tokio::test]
    async fn missed_messages_of_other_terminals_precede_their_replies() {
        const THEIRS: &str = "cli/direct/67e55044-10b1-426f-9247-bb680e5fe0c8";
        const OWN: &str = "cli/direct/a1a2a3a4-b1b2-c1c2-d1d2-d3d4d5d6d7d8";
        let store = InMemoryStore::default();
        let mut shown = ShownEvents::join(&store, SESSION).await.unwrap();
        append(
            &store,
            vec![
                asked(THEIRS, "你好 👩‍👩‍👧?"),
                ended(THEIRS, Some("A")),
                asked(OWN, "mine"),
                ended(OWN, Some("B")),
                asked("cli/direct/subagent-7-result", "[Subagent]"),
            ],
        )
        .await;
        let missed = shown.missed(&store, SESSION, &[OWN.into()]).await.unwrap();
        let said = TerminalEvent::said("你好 👩‍👩‍👧?", 0);
        assert_eq!(
            missed.events,
            [said.clone(), whole("A"), end(THEIRS), whole("B"), end(OWN)]
        );
        // Their terminal sends it again.
        assert!(!shown.admit(&said, key(THEIRS, 0)));
    }

    #[tokio::test]
    async fn messages_of_tools_are_recognised_by_their_position() {
        let store = InMemoryStore::default();
        let mut shown = ShownEvents::join(&store, SESSION).await.unwrap();
        let mut entries = vec![asked("cli/direct/1", "a")];
        entries.extend(sending("here", SESSION));
        append(&store, entries).await;
        // The turn goes on.
        let missed = shown.missed(&store, SESSION, &[]).await.unwrap();
        assert_eq!(missed.events, [whole("here")]);
        assert!(!shown.admit(&whole("here"), key("cli/direct/1", 2)));
        append(&store, vec![ended("cli/direct/1", None)]).await;
        let missed = shown.missed(&store, SESSION, &[]).await.unwrap();
        assert_eq!(missed.events, [end("cli/direct/1")]);

        let mut entries = vec![asked("cli/direct/2", "b")];
        entries.extend(sending("elsewhere", "telegram:7"));
        entries.push(ended("cli/direct/2", Some("done")));
        append(&store, entries).await;
        let missed = shown.missed(&store, SESSION, &[]).await.unwrap();
        assert_eq!(missed.events, [whole("done"), end("cli/direct/2")]);
    }

    #[tokio::test]
    async fn turns_of_another_channel_are_not_shown() {
        let store = InMemoryStore::default();
        let mut shown = ShownEvents::join(&store, "telegram:7").await.unwrap();
        for (id, text) in [("telegram/7/1", "there"), ("cli/telegram:7/2", "here")] {
            let key = key_of("telegram:7");
            let head = store.read(&key, ReadFrom::Cursor).await.unwrap().head;
            let entries = vec![asked(id, "a"), ended(id, Some(text))];
            store.append(&key, head, entries).await.unwrap();
        }
        let missed = shown.missed(&store, "telegram:7", &[]).await.unwrap();
        let replies: Vec<&TerminalEvent> = missed
            .events
            .iter()
            .filter(|event| matches!(event, TerminalEvent::Reply { .. }))
            .collect();
        assert_eq!(replies, [&whole("here")]);
    }

    #[test]
    fn number_of_remembered_keys_is_bounded() {
        let mut shown = ShownEvents::default();
        for turn in 0..3_000 {
            assert!(shown.admit(&whole("x"), key(&turn.to_string(), 0)));
        }
        assert_eq!(shown.keys.len(), MAX_KEYS);
    }
}
