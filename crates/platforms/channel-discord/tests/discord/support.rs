//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{
    Arrival, Channel, ChannelError, ChannelFactory as _, ChannelName, ChatId, CommandInfo,
    InboundMessage, OutboundKey, OutboundKind, OutboundMessage, OutboundPart, RawConfig, Value,
};
use nanobot_channel_discord::DiscordFactory;
use nanobot_channel_discord_fake::{DiscordFake, GUILD, Incoming, Person, TOKEN};
use nanobot_testkit::{Assistant, ChannelRun, WAIT_LIMIT};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, single_part as part};

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
        about: "Choose a model",
        usage: "[NAME]",
    },
];

/// The one who may talk.
pub(crate) fn ann() -> Person {
    Person::new(7, "ann")
}

/// One who may not.
pub(crate) fn mallory() -> Person {
    Person::new(66, "mallory")
}

/// Returns the arrival of a message in the server, within these parent channels.
pub(crate) fn in_server(channels: &[u64], addressed: bool) -> Arrival {
    let parents = channels
        .iter()
        .chain([&GUILD])
        .map(|id| ChatId::from(id.to_string()))
        .collect();
    Arrival {
        parents,
        ..Arrival::group(addressed)
    }
}

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &DiscordFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "token": TOKEN, "apiBase": fake.api_base(), "streamEditInterval": 0.1,
        "readReceiptEmoji": "", "workingEmoji": "", "reconnectPause": 0.01,
    });
    section
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    DiscordFactory::new()
        .create(ChannelName::from("discord"), &RawConfig::new(section))
        .unwrap()
}

/// Waits until so many messages arrived from a chat as are expected, and compares their texts.
async fn expect_texts(assistant: &Assistant, chat: u64, expected: &[&str]) {
    let chat = ChatId::from(chat.to_string());
    assistant
        .wait_until(&format!("{expected:?}"), |seen| {
            let arrived = seen.arrived.iter();
            let from_chat = arrived.filter(|(message, _)| message.chat_id == chat);
            from_chat.count() >= expected.len()
        })
        .await
        .unwrap();
    let arrived = assistant.seen().arrived.into_iter();
    let from_chat = arrived.filter(|(message, _)| message.chat_id == chat);
    let texts: Vec<_> = from_chat.map(|(message, _)| message.content).collect();
    assert_eq!(texts, expected);
}

/// Another program with the notes of the last one, which waits until it has a session.
pub(crate) struct Program {
    pub(crate) fake: DiscordFake,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Program {
    /// The first start ever.
    pub(crate) async fn first(keys: &Value) -> Self {
        let fake = DiscordFake::start().await.unwrap();
        Self::start(fake, Arc::new(Assistant::new("66")), keys).await
    }

    pub(crate) async fn start(fake: DiscordFake, assistant: Arc<Assistant>, keys: &Value) -> Self {
        let sessions = fake.identifies();
        let channel: Arc<dyn Channel> = channel(&fake, keys);
        let run = ChannelRun::start(channel, &assistant, &[]);
        fake.wait_for_identifies(sessions + 1).await.unwrap();
        Self {
            fake,
            assistant,
            run,
        }
    }

    pub(crate) async fn stop(self) -> (DiscordFake, Arc<Assistant>) {
        self.run.stop().await.unwrap();
        (self.fake, self.assistant)
    }

    /// So many messages arrived from a chat, and these are their texts.
    pub(crate) async fn expect_texts(&self, chat: u64, expected: &[&str]) {
        expect_texts(&self.assistant, chat, expected).await;
    }
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: DiscordFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    /// Runs a new channel at a new fake, and waits until it receives.
    pub(crate) async fn start(keys: Value) -> Self {
        let fake = DiscordFake::start().await.unwrap();
        let channel = channel(&fake, &keys);
        Self::of(fake, channel).ready().await
    }

    /// Runs a channel (again).
    pub(crate) fn of(fake: DiscordFake, channel: Arc<dyn Channel>) -> Self {
        // The machine may be busy.
        fake.answer_within(WAIT_LIMIT);
        let assistant = Arc::new(Assistant::new("66"));
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &COMMANDS);
        Self {
            fake,
            channel,
            assistant,
            run,
        }
    }

    /// Waits until a session began.
    pub(crate) async fn ready(self) -> Self {
        self.fake.wait_for_identifies(1).await.unwrap();
        self
    }

    /// Tells the channel to stop and hands its fake on.
    pub(crate) async fn stop(self) -> DiscordFake {
        self.run.stop().await.unwrap();
        self.fake
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> (DiscordFake, ChannelError) {
        let Self { fake, run, .. } = self;
        let ended = run.end().await.with_context(|| {
            let (sessions, resumed, complaints) =
                (fake.identifies(), fake.resumes(), fake.complaints());
            format!("{sessions} sessions, resumed {resumed} times, {complaints:?}")
        });
        (fake, ended.unwrap())
    }

    /// So many messages arrived from a chat, and these are their texts.
    pub(crate) async fn expect_texts(&self, chat: u64, expected: &[&str]) {
        expect_texts(&self.assistant, chat, expected).await;
    }

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::direct(&ann(), "hello"));
        self.assistant.message(1).await.unwrap()
    }
}

/// A reply in one part, whose text is also its markup.
pub(crate) fn reply(inbound: &InboundMessage, text: &str) -> OutboundPart {
    let key = OutboundKey {
        turn: format!("turn-of-{text}").as_str().into(),
        position: 0,
    };
    part(OutboundMessage::in_reply_to(
        inbound,
        key,
        OutboundKind::Final,
        text.to_owned(),
    ))
}

/// A message that is no reply, to the same place.
pub(crate) fn event(inbound: &InboundMessage, kind: OutboundKind, text: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    OutboundMessage::in_reply_to(inbound, key, kind, text.to_owned())
}
