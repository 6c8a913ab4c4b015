//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundKey,
    OutboundKind, OutboundMessage, OutboundPart, RawConfig, StreamId, Value,
};
use nanobot_channel_wecom::WeComFactory;
use nanobot_channel_wecom_fake::{BOT_ID, Incoming, Person, SECRET, SentMessage, WeComFake};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A group with several people.
pub(crate) const ROOM: &str = "wrTESTroom";

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("ann")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("mallory")
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &WeComFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "botId": BOT_ID, "secret": SECRET, "wsUrl": fake.ws_url(),
        "streamEditInterval": 0.5,
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    WeComFactory::new()
        .create(ChannelName::from("wecom"), &RawConfig::new(section))
        .unwrap()
}

/// A fake that knows the people and the group, and keeps messages for the next connection.
pub(crate) async fn fake() -> WeComFake {
    let fake = WeComFake::start().await.unwrap();
    fake.keep_messages();
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_group(ROOM, true);
    fake
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: WeComFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(fake().await, &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: WeComFake, keys: &Value) -> Self {
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

    /// Stops the channel, which must not have violated WeCom's rules.
    pub(crate) async fn stop(self) {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
    }

    /// Waits until the run ends by itself, and returns the fake and the error.
    pub(crate) async fn end(self) -> (WeComFake, ChannelError) {
        (self.fake, self.run.end().await.unwrap())
    }

    /// Returns the texts that arrived so far.
    pub(crate) fn arrived(&self) -> Vec<String> {
        let arrived = self.assistant.seen().arrived.into_iter();
        arrived.map(|(message, _)| message.content).collect()
    }

    /// Sends a message to the channel, and returns it as message number `count` of all.
    pub(crate) async fn receive(&self, incoming: Incoming, count: usize) -> InboundMessage {
        self.fake.push(incoming);
        self.assistant.message(count).await.unwrap()
    }

    /// Begins a conversation, and returns the message that arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.receive(Incoming::direct(&ann(), "hello"), 1).await
    }

    /// Begins a conversation in the group.
    pub(crate) async fn hello_in_room(&self) -> InboundMessage {
        let hello = Incoming::to(ROOM, &ann(), "hello").mentioning_bot();
        self.receive(hello, 1).await
    }

    /// Waits until a text is shown.
    pub(crate) async fn shown(&self, text: &str) {
        let is_shown = |sent: &[SentMessage]| {
            let mut sent = sent.iter();
            sent.any(|sent| sent.text == text).then_some(())
        };
        self.fake.wait_for(text, is_shown).await.unwrap();
    }

    /// Waits until exactly these messages are shown, none of which grows any more.
    pub(crate) async fn settled(&self, texts: &[&str]) {
        let is_settled = |sent: &[SentMessage]| {
            let shown = sent.iter().map(|sent| sent.text.as_str());
            let is_all = shown.eq(texts.iter().copied());
            (is_all && !sent.iter().any(|sent| sent.is_streaming)).then_some(())
        };
        self.fake.wait_for("the end", is_settled).await.unwrap();
    }

    /// Returns the texts of all messages that were sent.
    pub(crate) fn texts(&self) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.map(|sent| sent.text).collect()
    }

    /// Shows more text of a stream.
    pub(crate) async fn grow(&self, inbound: &InboundMessage, stream: &str, text: &str) {
        let drafts = self.channel.drafts().unwrap();
        drafts.append(&delta(inbound, stream, text)).await.unwrap();
    }

    /// Ends the turn of a message.
    pub(crate) async fn end_turn(&self, inbound: &InboundMessage) {
        let end = message(inbound, OutboundKind::TurnEnd { unfinished: 0 }, "");
        self.channel.turn_ends().unwrap().ended(&end).await.unwrap();
    }
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}

/// Returns a message of a turn.
pub(crate) fn message(inbound: &InboundMessage, kind: OutboundKind, text: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    OutboundMessage::in_reply_to(inbound, key, kind, text.to_owned())
}

/// Returns a piece of a reply that is being generated.
pub(crate) fn delta(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundMessage {
    let stream = StreamId::from(stream);
    message(inbound, OutboundKind::Delta { stream }, text)
}

/// Returns the reply that a stream becomes.
pub(crate) fn completing(inbound: &InboundMessage, stream: &str, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.completes = Some(StreamId::from(stream));
    })
}
