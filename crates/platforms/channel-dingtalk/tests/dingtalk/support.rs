//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundKey,
    OutboundKind, OutboundMessage, OutboundPart, RawConfig, StreamId, Value,
};
use nanobot_channel_dingtalk::DingTalkFactory;
use nanobot_channel_dingtalk_fake::{
    CLIENT_ID, CLIENT_SECRET, DingTalkFake, Incoming, Person, Pushed, SentMessage,
};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A group with several people.
pub(crate) const ROOM: &str = "cidRoom==";

/// The chat of the group.
pub(crate) fn room() -> String {
    format!("group:{ROOM}")
}

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("mallory", "Mallory")
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &DingTalkFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET,
        "apiBase": fake.base_url(), "oapiBase": fake.oapi_url(),
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    DingTalkFactory::new()
        .create(ChannelName::from("dingtalk"), &RawConfig::new(section))
        .unwrap()
}

/// A fake that knows the people and the group.
pub(crate) async fn fake() -> DingTalkFake {
    let fake = DingTalkFake::start().await.unwrap();
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_group(ROOM, true);
    fake
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: DingTalkFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(fake().await, &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: DingTalkFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        let assistant = Arc::new(Assistant::new("mallory"));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Stops the channel, which must not have violated DingTalk's rules.
    pub(crate) async fn stop(self) {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
    }

    /// Stops the channel, and runs a new one with its notes.
    pub(crate) async fn restart(self, keys: &Value) -> Self {
        self.run.stop().await.unwrap();
        let channel = channel(&self.fake, keys);
        let run = ChannelRun::start(Arc::clone(&channel), &self.assistant, &[]);
        Self {
            channel,
            run,
            ..self
        }
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

    /// Waits until a text is shown.
    pub(crate) async fn shown(&self, text: &str) {
        let is_shown = |sent: &[SentMessage]| {
            let mut sent = sent.iter();
            sent.any(|sent| sent.text == text).then_some(())
        };
        self.fake.wait_for(text, is_shown).await.unwrap();
    }

    /// Returns the texts of all messages that were sent.
    pub(crate) fn texts(&self) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.map(|sent| sent.text).collect()
    }
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}

/// Returns a piece of a reply that is being generated.
pub(crate) fn delta(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    let kind = OutboundKind::Delta {
        stream: StreamId::from(stream),
    };
    OutboundMessage::in_reply_to(inbound, key, kind, text.to_owned())
}

/// Returns the reply that a stream becomes.
pub(crate) fn completing(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.completes = Some(StreamId::from(stream));
    })
}
