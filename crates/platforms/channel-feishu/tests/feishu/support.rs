//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundKey,
    OutboundKind, OutboundMessage, OutboundPart, RawConfig, StreamId, Value,
};
use nanobot_channel_feishu::FeishuFactory;
use nanobot_channel_feishu_fake::{
    APP_ID, APP_SECRET, FeishuFake, Incoming, Person, Pushed, SentMessage,
};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A group with several people.
pub(crate) const ROOM: &str = "oc_room";

/// The one who may talk.
pub(crate) fn ann() -> Person {
    Person::new("ou_ann", "Ann")
}

/// One who may not.
pub(crate) fn mallory() -> Person {
    Person::new("ou_mallory", "Mallory")
}

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &FeishuFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "appId": APP_ID, "appSecret": APP_SECRET, "apiBase": fake.base_url(),
    });
    section
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    FeishuFactory::new()
        .create(ChannelName::from("feishu"), &RawConfig::new(section))
        .unwrap()
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: FeishuFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(FeishuFake::start().await.unwrap(), &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: FeishuFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        let assistant = Arc::new(Assistant::new(&mallory().open_id));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Tells the channel to stop; nothing it did was against Feishu's rules.
    pub(crate) async fn stop(self) {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> ChannelError {
        self.run.end().await.unwrap()
    }

    /// Sends a message and waits until it is acknowledged.
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

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::direct(&ann(), "hello"));
        self.assistant.message(1).await.unwrap()
    }

    /// Waits until a text is shown.
    pub(crate) async fn shown(&self, text: &str) {
        let is_shown = |sent: &[SentMessage]| {
            let mut sent = sent.iter().filter(|sent| !sent.is_deleted);
            sent.any(|sent| sent.text == text).then_some(())
        };
        self.fake.wait_for(text, is_shown).await.unwrap();
    }

    /// Returns the messages that people see.
    pub(crate) fn visible(&self) -> Vec<SentMessage> {
        let sent = self.fake.sent().into_iter();
        sent.filter(|sent| !sent.is_deleted).collect()
    }
}

/// A piece of a reply that is being written.
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

/// The reply that a stream becomes.
pub(crate) fn completing(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.completes = Some(StreamId::from(stream));
    })
}
