//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundKind,
    OutboundPart, RawConfig, Value,
};
use nanobot_channel_qq::QqFactory;
use nanobot_channel_qq_fake::{APP_ID, CLIENT_SECRET, Incoming, Person, Pushed, QqFake};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A group with several people.
pub(crate) const ROOM: &str = "6A0000000000000000000000000000FF";

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("mallory", "Mallory")
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &QqFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "appId": APP_ID, "secret": CLIENT_SECRET,
        "apiBase": fake.base_url(), "tokenUrl": fake.token_url(),
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    QqFactory::new()
        .create(ChannelName::from("qq"), &RawConfig::new(section))
        .unwrap()
}

/// A fake that knows the people and the group, with fast heartbeats.
pub(crate) async fn fake() -> QqFake {
    let fake = QqFake::start().await.unwrap();
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_group(ROOM, true);
    fake.beat_every(Duration::from_millis(150));
    fake
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: QqFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        let running = Self::at(fake().await, &keys);
        running.fake.wait_for_ready(1).await.unwrap();
        running
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: QqFake, keys: &Value) -> Self {
        Self::with(fake, keys, Arc::new(Assistant::new(mallory().openid)))
    }

    /// Runs a new channel at a fake, with the notes and the memory of an assistant.
    pub(crate) fn with(fake: QqFake, keys: &Value, assistant: Arc<Assistant>) -> Self {
        let channel = channel(&fake, keys);
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Stops the channel, which must not have violated QQ's rules.
    pub(crate) async fn stop(self) {
        let (fake, _) = self.halt().await;
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }

    /// Stops the channel. The platform and the assistant go on.
    pub(crate) async fn halt(self) -> (QqFake, Arc<Assistant>) {
        self.run.stop().await.unwrap();
        (self.fake, self.assistant)
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> ChannelError {
        self.run.end().await.unwrap()
    }

    /// Sends a message to the channel and waits until it is acknowledged.
    pub(crate) async fn push_and_wait(&self, incoming: Incoming) -> Pushed {
        let pushed = self.fake.push(incoming);
        self.fake.wait_for_acknowledged(&pushed).await.unwrap();
        pushed
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

    /// Begins a conversation in the group, and returns the message that arrived.
    pub(crate) async fn hello_in_room(&self) -> InboundMessage {
        let before = self.assistant.seen().arrived.len();
        self.fake
            .push(Incoming::to_group(ROOM, &ann(), "hello").mentioning_bot());
        self.assistant.message(before + 1).await.unwrap()
    }

    /// Sends a text at a position of the turn.
    pub(crate) async fn send(
        &self,
        inbound: &InboundMessage,
        position: u32,
        text: &str,
    ) -> Result<(), ChannelError> {
        let part = part(inbound, position, text);
        self.channel.send(&part).await.map(drop)
    }

    /// Returns the texts of all messages that were sent, each with `true` if it is a reply.
    pub(crate) fn sent(&self) -> Vec<(String, bool)> {
        let sent = self.fake.sent().into_iter();
        sent.map(|sent| (sent.text, sent.msg_id.is_some()))
            .collect()
    }

    /// Returns the texts of all messages that were sent.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.sent().into_iter().map(|(text, _)| text).collect()
    }
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}

/// Returns a message about the work in progress.
pub(crate) fn progress(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(part(inbound, position, text), |message| {
        message.kind = OutboundKind::Progress;
    })
}
