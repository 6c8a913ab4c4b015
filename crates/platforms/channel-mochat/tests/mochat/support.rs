//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, Notes as _,
    OutboundPart, RawConfig, Value,
};
use nanobot_channel_mochat::MochatFactory;
use nanobot_channel_mochat_fake::{
    BOT_USER_ID, CLAW_TOKEN, Incoming, MochatFake, Person, Serializer,
};
use nanobot_testkit::{Assistant, ChannelRun, WAIT_LIMIT};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A panel with several people.
pub(crate) const ROOM: &str = "panel1";
/// The name of the note with the positions.
pub(crate) const NOTE: &str = "session-cursors";

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// Another person with access.
pub(crate) fn ben() -> Person {
    Person::new("ben", "Ben")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("mallory", "Mallory")
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &MochatFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "clawToken": CLAW_TOKEN, "agentUserId": BOT_USER_ID,
        "baseUrl": fake.base_url(), "socketUrl": fake.socket_url(),
        "sessions": ["*"], "panels": ["*"], "socketReconnectDelayMs": 5,
        "socketMaxReconnectDelayMs": 50, "retryDelayMs": 5, "refreshIntervalMs": 20,
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    MochatFactory::new()
        .create(ChannelName::from("mochat"), &RawConfig::new(section))
        .unwrap()
}

/// A fake that knows the people and the panel.
pub(crate) async fn fake_with(serializer: Serializer) -> MochatFake {
    let fake = MochatFake::start_with(serializer).await.unwrap();
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_panel(ROOM);
    fake
}

/// A fake with the usual form of packets.
pub(crate) async fn fake() -> MochatFake {
    fake_with(Serializer::Msgpack).await
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: MochatFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    /// Runs a channel, and waits until it is subscribed.
    pub(crate) async fn start(keys: Value) -> Self {
        let running = Self::at(fake().await, &keys);
        running.subscribed().await;
        running
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: MochatFake, keys: &Value) -> Self {
        Self::with(fake, Arc::new(Assistant::new("mallory")), keys)
    }

    /// Runs a new channel for an assistant.
    pub(crate) fn with(fake: MochatFake, assistant: Arc<Assistant>, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Waits until the channel is subscribed to a session and the panel.
    pub(crate) async fn subscribed(&self) {
        self.fake
            .wait_for_subscription(&ann().direct())
            .await
            .unwrap();
        self.fake.wait_for_subscription(ROOM).await.unwrap();
    }

    /// Waits until the channel has a position in a session: what follows it is new.
    pub(crate) async fn positioned(&self, session: &str) {
        self.noted(session, |cursor| !cursor.is_null()).await;
    }

    /// Waits until a position is in the note, which is written soon after it moved.
    pub(crate) async fn noted(&self, session: &str, is_expected: impl Fn(&Value) -> bool) {
        let reached = async {
            while !is_expected(&note(&self.assistant).await["cursors"][session]) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_LIMIT, reached).await.unwrap();
    }

    /// Stops the channel, which must not have violated Mochat's rules.
    pub(crate) async fn stop(self) -> (MochatFake, Arc<Assistant>) {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
        (self.fake, self.assistant)
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> ChannelError {
        self.run.end().await.unwrap()
    }

    /// Returns the texts that arrived so far.
    pub(crate) fn arrived(&self) -> Vec<String> {
        let arrived = self.assistant.seen().arrived.into_iter();
        arrived.map(|(message, _)| message.content).collect()
    }

    /// Begins a conversation, and returns the message that arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::direct(&ann(), "hello"));
        self.assistant.message(1).await.unwrap()
    }

    /// Waits until this text is the last that arrived, and returns all.
    pub(crate) async fn last(&self, text: &str) -> Vec<String> {
        self.assistant
            .wait_until(text, |seen| {
                let last = seen.arrived.last();
                last.is_some_and(|(message, _)| message.content == text)
            })
            .await
            .unwrap();
        self.arrived()
    }

    /// Returns the texts of all messages that were sent.
    pub(crate) fn texts(&self) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.map(|sent| sent.text).collect()
    }
}

/// Returns the note with the positions.
pub(crate) async fn note(assistant: &Assistant) -> Value {
    let note = assistant.notes().read(NOTE).await.unwrap();
    note.map(|note| serde_json::from_str(&note).unwrap())
        .unwrap_or_default()
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}
