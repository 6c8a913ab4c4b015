//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, ChannelName, CommandInfo, InboundMessage,
    RawConfig, Value,
};
use nanobot_channel_slack::SlackFactory;
use nanobot_channel_slack_fake::{APP_TOKEN, BOT_TOKEN, Incoming, Person, Pushed, SlackFake};
use nanobot_testkit::{Assistant, ChannelRun};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// A channel with several people.
pub(crate) const ROOM: &str = "C0ROOM";
/// The commands of the assistant.
const COMMANDS: [CommandInfo; 2] = [
    CommandInfo {
        name: "new",
        aliases: &["reset"],
        about: "Begin anew",
        usage: "",
    },
    CommandInfo {
        name: "model",
        aliases: &[],
        about: "Choose the model",
        usage: "[NAME]",
    },
];

/// The one who may talk.
pub(crate) fn ann() -> Person {
    Person::new("U0ANN", "ann")
}

/// One who may not.
pub(crate) fn mallory() -> Person {
    Person::new("U0MALLORY", "mallory")
}

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &SlackFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": fake.api_base(),
        "streamEditInterval": 1.0,
    });
    section
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    SlackFactory::new()
        .create(ChannelName::from("slack"), &RawConfig::new(section))
        .unwrap()
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: SlackFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(SlackFake::start().await.unwrap(), &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: SlackFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        let assistant = Arc::new(Assistant::new("U0MALLORY"));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &COMMANDS);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Tells the channel to stop; nothing it did was against Slack's rules.
    pub(crate) async fn stop(self) {
        self.run.stop().await.unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
    }

    /// Stops the channel, lets something happen, and runs a new one that has the notes of the
    /// first.
    pub(crate) async fn restart(self, keys: &Value, meanwhile: impl FnOnce(&SlackFake)) -> Self {
        let Self {
            fake,
            assistant,
            run,
            ..
        } = self;
        run.stop().await.unwrap();
        meanwhile(&fake);
        let channel = channel(&fake, keys);
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &COMMANDS);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
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

    /// Returns the texts that arrived from a conversation so far.
    pub(crate) fn arrived(&self, chat: &str) -> Vec<String> {
        let arrived = self.assistant.seen().arrived.into_iter();
        let there = arrived.filter(|(message, _)| message.chat_id.as_str() == chat);
        there.map(|(message, _)| message.content).collect()
    }

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::direct(&ann(), "hello"));
        self.assistant.message(1).await.unwrap()
    }
}
