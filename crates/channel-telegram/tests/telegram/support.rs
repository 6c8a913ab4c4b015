//! A fake platform, a channel connected to it, and an assistant that is played here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, CancellationToken, Channel, ChannelContext, ChannelError,
    ChannelFactory as _, ChannelName, ChatId, CommandInfo, InboundMessage, Intake, MediaError, MediaRef, MediaStore,
    OutboundKey, OutboundKind, OutboundMessage, OutboundPart, Progress, RawConfig, SenderId, TaskTracker,
    TranscribeError, Transcriber, Value, async_trait,
};
use nanobot_channel_telegram::TelegramFactory;
use nanobot_testkit::telegram::{Person, TOKEN};
use nanobot_testkit::{TelegramFake, WAIT_LIMIT};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A supergroup.
pub(crate) const GROUP: i64 = -1_001_234_567_890;
/// What the assistant understands.
const COMMANDS: [CommandInfo; 3] = [
    CommandInfo { name: "new", aliases: &["reset"], about: "Begin anew", usage: "" },
    CommandInfo { name: "stop", aliases: &[], about: "Stop", usage: "" },
    CommandInfo { name: "start", aliases: &[], about: "Say hello", usage: "" },
];
/// A poll lasts longer than that, so a channel that ends in time did not wait for it.
const STOP_WITHIN: Duration = Duration::from_secs(15);

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
    });
    section.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    TelegramFactory.create(ChannelName::from("telegram"), &RawConfig::new(section)).unwrap()
}

/// What the assistant saw, and what it will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<SenderId>,
    pub(crate) arrived: Vec<(InboundMessage, Arrival)>,
    pub(crate) kept: Vec<(String, String, Option<String>, Vec<u8>)>,
    pub(crate) alive: usize,
    pub(crate) degraded: Vec<String>,
    admissions: VecDeque<Admission>,
    strangers_are_asked: Option<String>,
    heard: VecDeque<String>,
}

/// The assistant's side of the contract. Messages are accepted unless said otherwise.
#[derive(Debug)]
pub(crate) struct Assistant(watch::Sender<Seen>);

impl Assistant {
    pub(crate) fn will_answer(&self, admissions: impl IntoIterator<Item = Admission>) {
        self.0.send_modify(|seen| seen.admissions.extend(admissions));
    }

    /// Strangers are to read this text.
    pub(crate) fn will_ask_strangers(&self, text: &str) {
        self.0.send_modify(|seen| seen.strangers_are_asked = Some(text.to_owned()));
    }

    /// The next recording says this; those after it cannot be understood.
    pub(crate) fn will_hear(&self, words: &str) {
        self.0.send_modify(|seen| seen.heard.push_back(words.to_owned()));
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }

    pub(crate) async fn wait_until(&self, what: &str, probe: impl FnMut(&Seen) -> bool) -> Seen {
        let mut watched = self.0.subscribe();
        let waited = tokio::time::timeout(WAIT_LIMIT, watched.wait_for(probe)).await;
        waited.unwrap_or_else(|_| panic!("waited in vain for {what}: {:#?}", self.seen())).unwrap().clone()
    }

    /// Waits until so many messages were offered, and returns the last.
    pub(crate) async fn message(&self, count: usize) -> InboundMessage {
        let seen = self.wait_until("a message", |seen| seen.arrived.len() >= count).await;
        seen.arrived[count - 1].0.clone()
    }
}

#[async_trait]
impl Access for Assistant {
    async fn check(&self, sender: &SenderId, _chat: &ChatId, _arrival: &Arrival) -> AccessDecision {
        self.0.send_modify(|seen| seen.asked.push(sender.clone()));
        if !sender.as_str().starts_with("66") {
            return AccessDecision::Allowed;
        }
        self.seen().strangers_are_asked.map_or(AccessDecision::Denied, AccessDecision::Ask)
    }
}

#[async_trait]
impl Intake for Assistant {
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission {
        let mut answer = Admission::Accepted;
        self.0.send_modify(|seen| {
            seen.arrived.push((message, arrival.clone()));
            answer = seen.admissions.pop_front().unwrap_or(Admission::Accepted);
        });
        answer
    }
}

#[async_trait]
impl Transcriber for Assistant {
    async fn transcribe(&self, _recording: &MediaRef) -> Result<String, TranscribeError> {
        let mut heard = None;
        self.0.send_modify(|seen| heard = seen.heard.pop_front());
        heard.ok_or_else(|| TranscribeError::Failed("nothing can be understood".to_owned()))
    }
}

impl Progress for Assistant {
    fn alive(&self) {
        self.0.send_modify(|seen| seen.alive += 1);
    }

    fn degraded(&self, why: &str) {
        self.0.send_modify(|seen| seen.degraded.push(why.to_owned()));
    }
}

#[async_trait]
impl MediaStore for Assistant {
    fn limit(&self) -> u64 {
        1000
    }

    async fn keep(&self, id: &str, name: &str, mime: Option<&str>, bytes: &[u8]) -> Result<MediaRef, MediaError> {
        let mime = mime.map(str::to_owned);
        let file = (id.to_owned(), name.to_owned(), mime.clone(), bytes.to_vec());
        self.0.send_modify(|seen| seen.kept.push(file));
        Ok(MediaRef { location: format!("/media/{name}"), mime })
    }
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: TelegramFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    pub(crate) cancel: CancellationToken,
    run: JoinHandle<Result<(), ChannelError>>,
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
        let assistant = Arc::new(Assistant(watch::Sender::default()));
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let context = ChannelContext {
            access: Arc::<Assistant>::clone(&assistant),
            intake: Arc::<Assistant>::clone(&assistant),
            progress: Arc::<Assistant>::clone(&assistant),
            media: Arc::<Assistant>::clone(&assistant),
            transcriber: Some(Arc::<Assistant>::clone(&assistant) as Arc<dyn Transcriber>),
            commands: Arc::new(COMMANDS),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
        };
        let runs = Arc::clone(&channel);
        let run = tasks.spawn(async move { runs.run(context).await });
        Self { fake, channel, assistant, cancel, run }
    }

    /// Tells the channel to stop and hands its fake on.
    pub(crate) async fn stop(self) -> TelegramFake {
        self.cancel.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.run).await.unwrap();
        ended.unwrap().unwrap();
        self.fake
    }

    /// Waits for the end of a run that nobody told to stop.
    pub(crate) async fn end(self) -> (TelegramFake, ChannelError) {
        let ended = tokio::time::timeout(WAIT_LIMIT, self.run).await.unwrap();
        (self.fake, ended.unwrap().unwrap_err())
    }

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(nanobot_testkit::telegram::Incoming::private(&ann(), "hello"));
        self.assistant.message(1).await
    }
}

/// A reply in one part, whose text is also its markup.
pub(crate) fn reply(inbound: &InboundMessage, text: &str) -> OutboundPart {
    let key = OutboundKey { turn: "turn".into(), position: 0 };
    part(OutboundMessage::in_reply_to(inbound, key, OutboundKind::Final, text.to_owned()))
}

/// A message as one part.
pub(crate) fn part(message: OutboundMessage) -> OutboundPart {
    let text = message.content.clone();
    OutboundPart { message: Arc::new(message), index: 0, count: 1, plain: text.clone(), text, in_doubt: false }
}

/// The same part with changes to its message.
pub(crate) fn with(part: OutboundPart, change: impl FnOnce(&mut OutboundMessage)) -> OutboundPart {
    let mut message = (*part.message).clone();
    change(&mut message);
    OutboundPart { message: Arc::new(message), ..part }
}
