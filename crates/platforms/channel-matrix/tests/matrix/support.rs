//! A fake homeserver, a channel connected to it, and an assistant that is played here.

use std::path::Path;
use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, InboundMessage, OutboundPart,
    RawConfig, Value,
};
use nanobot_channel_matrix::MatrixFactory;
use nanobot_channel_matrix_fake::{BOT_ID, BOT_TOKEN, Incoming, MatrixFake, Person};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A room with several people. Its id has characters that mean something in an address.
pub(crate) const ROOM: &str = "!room/..?#%:fake.test";

/// A person with access.
pub(crate) fn ann() -> Person {
    Person::new("ann")
}

/// A person without access.
pub(crate) fn mallory() -> Person {
    Person::new("mallory")
}

/// Creates a channel at a fake, with these keys and the usual ones.
pub(crate) fn channel(fake: &MatrixFake, keys: &Value) -> Arc<dyn Channel> {
    channel_in(fake, keys, None)
}

/// Creates a channel that may keep files in a folder.
pub(crate) fn channel_in(fake: &MatrixFake, keys: &Value, data: Option<&Path>) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "homeserver": fake.url(), "userId": BOT_ID, "accessToken": BOT_TOKEN,
        "streamEditInterval": 0.5,
    });
    let keys = keys.as_object().unwrap().clone();
    section.as_object_mut().unwrap().extend(keys);
    let config = RawConfig {
        data_dir: data.map(Path::to_owned),
        ..RawConfig::new(section)
    };
    MatrixFactory::new()
        .create(ChannelName::from("matrix"), &config)
        .unwrap()
}

/// A fake that knows the people and the room.
pub(crate) async fn fake() -> MatrixFake {
    let fake = MatrixFake::start().await.unwrap();
    fake.add_person(&ann());
    fake.add_person(&mallory());
    fake.add_room(ROOM, &[ann(), mallory()]);
    fake
}

/// A running channel.
pub(crate) struct Running {
    pub(crate) fake: MatrixFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::with(fake().await, &keys, assistant()).await
    }

    /// Runs a new channel at a fake, with the notes and the memory of an assistant. Returns when it
    /// waits for news.
    pub(crate) async fn with(fake: MatrixFake, keys: &Value, assistant: Arc<Assistant>) -> Self {
        let channel = channel(&fake, keys);
        let running = Self::of(fake, channel, assistant);
        running.fake.wait_for_waiting_syncs(1).await.unwrap();
        running
    }

    /// Runs a channel.
    pub(crate) fn of(
        fake: MatrixFake,
        channel: Arc<dyn Channel>,
        assistant: Arc<Assistant>,
    ) -> Self {
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &[]);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Stops the channel, which must not have violated the rules of the API.
    pub(crate) async fn stop(self) {
        let (fake, _) = self.halt().await;
        assert_eq!(fake.complaints(), Vec::<String>::new());
    }

    /// Stops the channel. The platform and the assistant go on.
    pub(crate) async fn halt(self) -> (MatrixFake, Arc<Assistant>) {
        self.run.stop().await.unwrap();
        // The fake notices late that the channel does not wait any more.
        self.fake.end_syncs();
        self.fake.wait_for_waiting_syncs(0).await.unwrap();
        (self.fake, self.assistant)
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> ChannelError {
        self.run.end().await.unwrap()
    }

    /// Sends a message to the channel and waits until it is acknowledged.
    pub(crate) async fn push_and_wait(&self, incoming: Incoming) -> String {
        let pushed = self.fake.push(incoming);
        self.fake.wait_for_acknowledged(&pushed).await.unwrap();
        pushed.event_id
    }

    /// Returns the texts that arrived so far.
    pub(crate) fn arrived(&self) -> Vec<String> {
        let arrived = self.assistant.seen().arrived.into_iter();
        arrived.map(|(message, _)| message.content).collect()
    }

    /// Pushes a message, and returns it as it arrived.
    pub(crate) async fn receive(&self, incoming: Incoming) -> InboundMessage {
        let before = self.assistant.seen().arrived.len();
        self.fake.push(incoming);
        self.assistant.message(before + 1).await.unwrap()
    }

    /// Begins a conversation, and returns the message that arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.receive(Incoming::direct(&ann(), "hello")).await
    }
}

/// An assistant to which a person has no access.
pub(crate) fn assistant() -> Arc<Assistant> {
    Arc::new(Assistant::new(mallory().user_id))
}

/// Returns a part at a position of the turn.
pub(crate) fn part(inbound: &InboundMessage, position: u32, text: &str) -> OutboundPart {
    with(reply(inbound, text), |message| {
        message.key.position = position;
    })
}
