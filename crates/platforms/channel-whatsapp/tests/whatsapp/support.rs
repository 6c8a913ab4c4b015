//! A fake bridge, a channel connected to it, and an assistant that is played here.

use std::path::Path;
use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundPart,
    RawConfig, Value,
};
use nanobot_channel_whatsapp::WhatsAppFactory;
use nanobot_channel_whatsapp_fake::{Incoming, Person, WhatsAppFake};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A group with several people.
pub(crate) const ROOM: &str = "120363000000000001@g.us";
/// Beginning of the ids of people without access.
const STRANGERS: &str = "49666";

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("4915111111111", "Ann")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("4966666666666", "Mallory")
}

/// Returns the part of an address before its server.
pub(crate) fn user(jid: &str) -> String {
    jid.split('@').next().unwrap().to_owned()
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &WhatsAppFake, keys: &Value) -> Arc<dyn Channel> {
    channel_in(fake, keys, None)
}

/// Creates a channel with a folder of data.
pub(crate) fn channel_in(
    fake: &WhatsAppFake,
    keys: &Value,
    data_dir: Option<&Path>,
) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "bridgeUrl": fake.url(), "bridgeToken": fake.token(),
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    let mut config = RawConfig::new(section);
    config.data_dir = data_dir.map(Path::to_owned);
    WhatsAppFactory::new()
        .create(ChannelName::from("whatsapp"), &config)
        .unwrap()
}

/// Adds the people and the group to a fake.
pub(crate) fn settled(fake: WhatsAppFake) -> WhatsAppFake {
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_group(ROOM, true);
    fake
}

/// A fake of version 2.
pub(crate) async fn fake() -> WhatsAppFake {
    settled(WhatsAppFake::start().await.unwrap())
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: WhatsAppFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(fake().await, &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: WhatsAppFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        Self::of(fake, channel)
    }

    /// Runs a channel of a fake.
    pub(crate) fn of(fake: WhatsAppFake, channel: Arc<dyn Channel>) -> Self {
        let assistant = Arc::new(Assistant::new(STRANGERS));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Stops the channel, which must not have violated the protocol. Returns the fake.
    pub(crate) async fn stop(self) -> WhatsAppFake {
        self.stop_with(&[]).await
    }

    /// Stops the channel, about which the fake complained in this way.
    pub(crate) async fn stop_with(self, complaints: &[&str]) -> WhatsAppFake {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), complaints);
        self.fake
    }

    /// Waits until the run ends by itself, and returns the fake and the error.
    pub(crate) async fn end(self) -> (WhatsAppFake, ChannelError) {
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

    /// Returns the texts of all messages that were sent.
    pub(crate) fn texts(&self) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        sent.map(|sent| sent.text).collect()
    }

    /// Waits until the channel reports an impairment with this text in it.
    pub(crate) async fn impaired(&self, text: &str) {
        let is_reported = |reasons: &[String]| reasons.iter().any(|why| why.contains(text));
        self.assistant
            .wait_until(text, |seen| is_reported(&seen.impaired))
            .await
            .unwrap();
    }
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}

/// Returns a part whose earlier attempt may have arrived.
pub(crate) fn in_doubt(part: &OutboundPart) -> OutboundPart {
    OutboundPart {
        in_doubt: true,
        ..part.clone()
    }
}
