//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, CommandInfo, InboundMessage,
    RawConfig, Value,
};
use nanobot_channel_telegram::TelegramFactory;
use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{
    changed_part as with, reply_part as reply, single_part as part,
};

/// A supergroup.
pub(crate) const GROUP: i64 = -1_001_234_567_890;
/// The commands of the assistant.
const COMMANDS: [CommandInfo; 3] = [
    CommandInfo {
        name: "new",
        aliases: &["reset"],
        about: "Begin anew",
        usage: "",
    },
    CommandInfo {
        name: "stop",
        aliases: &[],
        about: "Stop",
        usage: "",
    },
    CommandInfo {
        name: "start",
        aliases: &[],
        about: "Say hello",
        usage: "",
    },
];

/// The one who may talk.
pub(crate) fn ann() -> Person {
    Person::new(7, "Ann", "ann_x")
}

/// One who may not.
pub(crate) fn mallory() -> Person {
    Person::new(66, "Mallory", "mallory_x")
}

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &TelegramFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "token": TOKEN, "apiBase": fake.api_base(), "streamEditInterval": 0.1, "pollTimeout": 50,
        "reconnectPause": 0.005,
    });
    section
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    TelegramFactory::new()
        .create(ChannelName::from("telegram"), &RawConfig::new(section))
        .unwrap()
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: TelegramFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        let fake = TelegramFake::start().await.unwrap();
        Self::at(fake, &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: TelegramFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        Self::of(fake, channel)
    }

    /// Runs a channel (again).
    pub(crate) fn of(fake: TelegramFake, channel: Arc<dyn Channel>) -> Self {
        let assistant = Arc::new(Assistant::new("66"));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &COMMANDS);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Stops and starts the program: a new channel, and an assistant that knows what it knew.
    pub(crate) async fn restart(self, keys: &Value) -> Self {
        self.run.stop().await.unwrap();
        let channel = channel(&self.fake, keys);
        let run = ChannelRun::start(Arc::clone(&channel), &self.assistant, &COMMANDS);
        Self {
            fake: self.fake,
            channel,
            assistant: self.assistant,
            run,
        }
    }

    /// Tells the channel to stop and hands its fake on.
    pub(crate) async fn stop(self) -> TelegramFake {
        self.run.stop().await.unwrap();
        self.fake
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> (TelegramFake, ChannelError) {
        (self.fake, self.run.end().await.unwrap())
    }

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::private(&ann(), "hello"));
        self.assistant.message(1).await.unwrap()
    }
}
