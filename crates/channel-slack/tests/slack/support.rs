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
use nanobot_channel_slack::SlackFactory;
use nanobot_testkit::slack::{APP_TOKEN, BOT_TOKEN, Incoming, Person};
use nanobot_testkit::{SlackFake, WAIT_LIMIT};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A channel with several people.
pub(crate) const ROOM: &str = "C0ROOM";
/// What the assistant understands.
const COMMANDS: [CommandInfo; 2] = [
    CommandInfo { name: "new", aliases: &["reset"], about: "Begin anew", usage: "" },
    CommandInfo { name: "model", aliases: &[], about: "Choose the model", usage: "[NAME]" },
];
const STOP_WITHIN: Duration = Duration::from_secs(15);

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
    section.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    SlackFactory.create(ChannelName::from("slack"), &RawConfig::new(section)).unwrap()
}

/// What the assistant saw, and what it will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<SenderId>,
    pub(crate) arrived: Vec<(InboundMessage, Arrival)>,
    pub(crate) kept: Vec<(String, String, Option<String>, Vec<u8>)>,
    pub(crate) degraded: Vec<String>,
    admissions: VecDeque<Admission>,
    /// Nothing is answered as long as this is set.
    is_held: bool,
}

/// The assistant's side of the contract. Messages are accepted unless said otherwise.
#[derive(Debug)]
pub(crate) struct Assistant(watch::Sender<Seen>);

impl Assistant {
    pub(crate) fn will_answer(&self, admissions: impl IntoIterator<Item = Admission>) {
        self.0.send_modify(|seen| seen.admissions.extend(admissions));
    }

    /// Whether messages have to wait for their answer.
    pub(crate) fn hold(&self, is_held: bool) {
        self.0.send_modify(|seen| seen.is_held = is_held);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.borrow().clone()
    }

    pub(crate) async fn wait_until(&self, what: &str, probe: impl FnMut(&Seen) -> bool) -> Seen {
        let mut watched = self.0.subscribe();
        let waited = tokio::time::timeout(WAIT_LIMIT, watched.wait_for(probe)).await.map(|seen| seen.unwrap().clone());
        waited.unwrap_or_else(|_| panic!("waited in vain for {what}: {:#?}", self.seen()))
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
        if *sender == SenderId::from("U0MALLORY") { AccessDecision::Denied } else { AccessDecision::Allowed }
    }
}

#[async_trait]
impl Intake for Assistant {
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission {
        self.0.send_modify(|seen| seen.arrived.push((message, arrival.clone())));
        self.wait_until("an answer", |seen| !seen.is_held).await;
        let mut answer = Admission::Accepted;
        self.0.send_modify(|seen| answer = seen.admissions.pop_front().unwrap_or(Admission::Accepted));
        answer
    }
}

impl Progress for Assistant {
    fn alive(&self) {}

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

/// Hears the same in every recording.
#[derive(Debug)]
struct Ear;

#[async_trait]
impl Transcriber for Ear {
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError> {
        Ok(format!("words of {}", recording.location))
    }
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) fake: SlackFake,
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    cancel: CancellationToken,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl Running {
    pub(crate) async fn start(keys: Value) -> Self {
        Self::at(SlackFake::start().await.unwrap(), &keys)
    }

    /// Runs a new channel at a fake.
    pub(crate) fn at(fake: SlackFake, keys: &Value) -> Self {
        let channel = channel(&fake, keys);
        let assistant = Arc::new(Assistant(watch::Sender::default()));
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let context = ChannelContext {
            access: Arc::<Assistant>::clone(&assistant),
            intake: Arc::<Assistant>::clone(&assistant),
            progress: Arc::<Assistant>::clone(&assistant),
            media: Arc::<Assistant>::clone(&assistant),
            transcriber: Some(Arc::new(Ear)),
            commands: Arc::new(COMMANDS),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
        };
        let runs = Arc::clone(&channel);
        let run = tasks.spawn(async move { runs.run(context).await });
        Self { fake, channel, assistant, cancel, run }
    }

    /// Tells the channel to stop; nothing it did was against Slack's rules.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.run).await.unwrap();
        ended.unwrap().unwrap();
        assert_eq!(self.fake.complaints(), Vec::<String>::new());
    }

    /// Waits for the end of a run that nobody told to stop.
    pub(crate) async fn end(self) -> ChannelError {
        let ended = tokio::time::timeout(WAIT_LIMIT, self.run).await.unwrap();
        ended.unwrap().unwrap_err()
    }

    /// Begins a conversation, so that the fake knows the chat; returns what arrived.
    pub(crate) async fn hello(&self) -> InboundMessage {
        self.fake.push(Incoming::direct(&ann(), "hello"));
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
