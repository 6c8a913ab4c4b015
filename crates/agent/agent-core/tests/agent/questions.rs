//! The question about a backlog, and other notices of summaries, on a bus: each is sent once, also
//! if the process dies between storing it and recording that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AgentLoop, LoopSettings};
use nanobot_bus::{Accepted, Bus, BusError, Ledger, MemoryBus, SettleOutcome, Subscription};
use nanobot_session::{
    Entry, MessageEntry, ReadFrom, Seq, SessionError, SessionInfo, SessionStore, SessionView,
};
use nanobot_types::{ChannelName, ChatMessage, InboundMessage, OutboundMessage, SessionKey};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backlog::waiting_backlog;
use crate::consolidation::{Home, SESSION, entry, save, summing_up};

const QUESTION: &str = "older messages of this conversation were never summarised";

/// A store whose process dies when it is to record that a question was asked.
#[derive(Debug)]
struct DiesWhenAsked {
    inner: Arc<dyn SessionStore>,
    is_dead: AtomicBool,
}

#[async_trait]
impl SessionStore for DiesWhenAsked {
    async fn append(
        &self,
        key: &SessionKey,
        head: Seq,
        entries: Vec<Entry>,
    ) -> Result<Seq, SessionError> {
        if entries.iter().any(records_asked) {
            self.is_dead.store(true, Ordering::SeqCst);
        }
        if self.is_dead.load(Ordering::SeqCst) {
            return Err(SessionError::Io {
                key: key.clone(),
                action: "append to",
                path: "nowhere".into(),
                source: std::io::Error::other("the machine is off"),
            });
        }
        self.inner.append(key, head, entries).await
    }

    async fn read(&self, key: &SessionKey, from: ReadFrom) -> Result<SessionView, SessionError> {
        self.inner.read(key, from).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>, SessionError> {
        self.inner.list().await
    }
}

fn records_asked(entry: &Entry) -> bool {
    let Entry::Metadata(change) = entry else {
        return false;
    };
    let chunks = change.get("_consolidation").map(|state| &state["chunks"]);
    let chunks = chunks.and_then(|chunks| chunks.as_array());
    chunks.is_some_and(|chunks| chunks.iter().any(|chunk| chunk["asked"] == true))
}

/// A bus that does not store the question while the power is off.
#[derive(Debug)]
struct PoweredBus {
    inner: Arc<MemoryBus>,
    is_off: AtomicBool,
}

#[async_trait]
impl Bus for PoweredBus {
    async fn publish_inbound(&self, message: InboundMessage) -> Result<Accepted, BusError> {
        self.inner.publish_inbound(message).await
    }

    async fn publish_outbound(&self, message: OutboundMessage) -> Result<Accepted, BusError> {
        if self.is_off.load(Ordering::SeqCst) && message.content.contains(QUESTION) {
            return Err(BusError::Closed);
        }
        self.inner.publish_outbound(message).await
    }

    async fn inbound(&self) -> Result<Subscription<InboundMessage>, BusError> {
        self.inner.inbound().await
    }

    async fn outbound(
        &self,
        channel: &ChannelName,
    ) -> Result<Subscription<OutboundMessage>, BusError> {
        self.inner.outbound(channel).await
    }

    fn offer(&self, message: OutboundMessage) {
        self.inner.offer(message);
    }
}

/// A chat whose process can be started again.
struct Chat {
    home: Home,
    bus: Arc<PoweredBus>,
    out: Subscription<OutboundMessage>,
    messages: u32,
    /// Every durable message that the person got.
    shown: Vec<String>,
}

impl Chat {
    async fn new(home: Home) -> Self {
        let inner = Arc::new(MemoryBus::new());
        let out = inner.outbound(&"telegram".into()).await.unwrap();
        let bus = PoweredBus {
            inner,
            is_off: AtomicBool::new(false),
        };
        Self {
            home,
            bus: Arc::new(bus),
            out,
            messages: 0,
            shown: Vec::new(),
        }
    }

    /// Runs a process that handles these messages and does its background work.
    async fn process(&mut self, texts: &[&str]) {
        let agent = self.home.agent();
        let ledger: Arc<dyn Ledger> = self.bus.inner.clone();
        let settings = LoopSettings {
            grace: std::time::Duration::ZERO,
            ..LoopSettings::default()
        };
        let agent_loop = AgentLoop::new(agent.clone(), self.bus.clone(), ledger, settings);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = TaskTracker::new().spawn(async move { agent_loop.run(stop).await.unwrap() });
        for text in texts {
            self.say(&agent, text).await;
        }
        cancel.cancel();
        task.await.unwrap();
    }

    /// Sends a message and waits for its reply. The answer to a second command comes after
    /// everything that the first message caused.
    async fn say(&mut self, agent: &Arc<Agent>, text: &str) {
        self.publish(text).await;
        self.reply_to_last().await;
        agent.background_idle().await;
        self.publish("/help").await;
        self.reply_to_last().await;
    }

    async fn publish(&mut self, text: &str) {
        self.messages += 1;
        let message = InboundMessage {
            id: Some(self.messages.to_string().into()),
            session_key_override: Some(SESSION.into()),
            ..InboundMessage::text("telegram", "user", "1", text)
        };
        self.bus.publish_inbound(message).await.unwrap();
    }

    async fn reply_to_last(&mut self) {
        let id = format!("/{}", self.messages);
        loop {
            let delivery = self.out.next().await.unwrap();
            delivery.settle(SettleOutcome::Ack).await.unwrap();
            let OutboundMessage {
                key, kind, content, ..
            } = &delivery.message;
            if kind.is_durable() {
                self.shown.push(content.clone());
                if key.is_reply() && key.turn.as_str().ends_with(&id) {
                    return;
                }
            }
        }
    }

    /// Returns how often the person was asked.
    fn questions(&self) -> usize {
        let asks = |text: &&String| text.contains(QUESTION);
        self.shown.iter().filter(asks).count()
    }

    /// `true` if the session records that the question was asked.
    async fn is_recorded(&self) -> bool {
        let metadata = self.home.view().await.metadata;
        records_asked(&Entry::Metadata(metadata))
    }

    /// Runs a process that dies when it is to record that the question was asked.
    async fn process_that_dies(&mut self, texts: &[&str]) {
        let inner = self.home.sessions.clone();
        let dying = Arc::new(DiesWhenAsked {
            inner: inner.clone(),
            is_dead: AtomicBool::new(false),
        });
        self.home.sessions = dying.clone();
        self.process(texts).await;
        assert!(dying.is_dead.load(Ordering::SeqCst), "it died");
        self.home.sessions = inner;
    }
}

fn backlog() -> Home {
    waiting_backlog(summing_up(|_| save(&entry("old times"))))
}

#[tokio::test]
async fn crash_before_the_question_is_recorded_does_not_repeat_it() {
    for text in ["hello", "/new", "/compact"] {
        let mut chat = Chat::new(backlog()).await;
        chat.process_that_dies(&[text]).await;
        assert_eq!(chat.questions(), 1, "{text}: {:?}", chat.shown);
        assert!(!chat.is_recorded().await, "{text}");
        chat.process(&["and now?", "and then?"]).await;
        assert_eq!(chat.questions(), 1, "{text}: {:?}", chat.shown);
        assert!(chat.is_recorded().await, "{text}");
    }
}

#[tokio::test]
async fn crash_before_the_question_is_stored_does_not_lose_it() {
    let mut chat = Chat::new(backlog()).await;
    chat.bus.is_off.store(true, Ordering::SeqCst);
    chat.process(&["hello"]).await;
    assert_eq!(chat.questions(), 0, "{:?}", chat.shown);
    chat.bus.is_off.store(false, Ordering::SeqCst);
    chat.process(&["and now?", "and then?"]).await;
    assert_eq!(chat.questions(), 1, "{:?}", chat.shown);
    assert!(chat.is_recorded().await);
}

#[tokio::test]
async fn crash_before_an_asking_reply_is_stored_does_not_lose_the_question() {
    let mut chat = Chat::new(backlog()).await;
    let agent = chat.home.agent();
    let question = agent.reset(&SESSION.into()).await.unwrap();
    assert!(question.is_some());
    let (session, turn) = (SESSION.into(), "a lost turn".into());
    agent.note_asking_reply(&session, &turn).await.unwrap();
    chat.process(&["hello", "and now?"]).await;
    assert_eq!(chat.questions(), 1, "{:?}", chat.shown);
    assert!(chat.is_recorded().await);
}

/// One command finishes two backlogs.
#[tokio::test]
async fn each_notice_of_a_turn_is_sent() {
    let mut chat = Chat::new(backlog()).await;
    chat.process(&["hello"]).await;
    let key = SessionKey::from(SESSION);
    let words = "some words that were said ".repeat(20);
    let more = (0..3_000).map(|number| {
        let text = format!("{number} {words}");
        Entry::Message(MessageEntry::new(ChatMessage::user(text)))
    });
    let head = chat.home.view().await.head;
    let sessions = chat.home.sessions.clone();
    sessions.append(&key, head, more.collect()).await.unwrap();
    chat.process(&["/new", "/summarize"]).await;
    let is_done = |text: &&String| text.contains("are summarised now");
    let done: Vec<&String> = chat.shown.iter().filter(is_done).collect();
    assert_eq!(done.len(), 2, "{:?}", chat.shown);
}
