//! Servers for mail, a channel connected to them, and an assistant that is played here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mail_parser::{MessageParser, MimeHeaders as _};
use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, CancellationToken, Channel, ChannelContext, ChannelError,
    ChannelFactory as _, ChannelName, ChatId, CommandInfo, InboundMessage, Intake, MediaError, MediaRef, MediaStore,
    OutboundKey, OutboundKind, OutboundMessage, OutboundPart, Progress, RawConfig, SenderId, TaskTracker,
    TranscribeError, Transcriber, Value, async_trait,
};
use nanobot_channel_email::EmailFactory;
use nanobot_testkit::mail::{PASSWORD, USER};
use nanobot_testkit::{MailFake, WAIT_LIMIT};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Who may talk.
pub(crate) const ANN: &str = "ann@friend.test";
/// Who may not.
pub(crate) const MALLORY: &str = "mallory@stranger.test";
/// What the assistant understands.
const COMMANDS: [CommandInfo; 2] = [
    CommandInfo { name: "new", aliases: &["reset"], about: "Begin anew", usage: "" },
    CommandInfo { name: "stop", aliases: &[], about: "Stop", usage: "" },
];
/// A wait for mail lasts longer than that, so a channel that ends in time did not wait for it.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &MailFake, keys: &Value) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "consentGranted": true,
        "imapHost": "127.0.0.1", "imapPort": fake.imap_port(), "imapUsername": USER, "imapPassword": PASSWORD,
        "imapUseSsl": false, "imapUseTls": false,
        "smtpHost": "127.0.0.1", "smtpPort": fake.smtp_port(), "smtpUsername": USER, "smtpPassword": PASSWORD,
        "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>",
    });
    section.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    EmailFactory.create(ChannelName::from("email"), &RawConfig::new(section)).unwrap()
}

/// A mail as the own server leaves it: with its report about the sender.
pub(crate) fn mail(from: &str, id: &str, rest: &str) -> String {
    let domain = from.rsplit(['@', '<', '>']).find(|piece| piece.contains('.')).unwrap_or_default();
    format!(
        "Return-Path: <{from}>\r\nAuthentication-Results: mx.bot.test; dkim=pass header.d={domain};\r\n spf=pass \
         smtp.mailfrom={domain}\r\nFrom: {from}\r\nTo: bot@bot.test\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{id}>\r\n{rest}"
    )
}

/// A mail with nothing but text.
pub(crate) fn note(from: &str, id: &str, text: &str) -> String {
    let kind = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit";
    mail(from, id, &format!("Subject: Hello\r\n{kind}\r\n\r\n{text}\r\n"))
}

/// A mail that was sent, as its reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) html: String,
    /// Name, type and content, pictures included.
    pub(crate) files: Vec<(String, String, Vec<u8>)>,
}

/// Reads a mail as a program for mail does.
pub(crate) fn shown(raw: &str) -> Shown {
    let message = MessageParser::default().parse(raw.as_bytes()).unwrap();
    let files = message.parts.iter().filter_map(|part| {
        let (name, kind) = (part.attachment_name()?, part.content_type()?);
        let kind = format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default());
        Some((name.to_owned(), kind, part.contents().to_vec()))
    });
    Shown {
        text: message.body_text(0).unwrap_or_default().replace("\r\n", "\n").trim_end().to_owned(),
        html: message.body_html(0).unwrap_or_default().replace("\r\n", "\n"),
        files: files.collect(),
    }
}

/// What the assistant saw, and what it will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<SenderId>,
    pub(crate) arrived: Vec<InboundMessage>,
    pub(crate) kept: Vec<(String, Option<String>, Vec<u8>)>,
    pub(crate) alive: usize,
    admissions: VecDeque<Admission>,
    strangers_are_asked: Option<String>,
}

/// The assistant's side of the contract. Messages are accepted unless said otherwise.
#[derive(Debug, Default)]
pub(crate) struct Assistant(watch::Sender<Seen>);

impl Assistant {
    pub(crate) fn will_answer(&self, admissions: impl IntoIterator<Item = Admission>) {
        self.0.send_modify(|seen| seen.admissions.extend(admissions));
    }

    /// Strangers are to read this text.
    pub(crate) fn will_ask_strangers(&self, text: &str) {
        self.0.send_modify(|seen| seen.strangers_are_asked = Some(text.to_owned()));
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
        self.wait_until("a message", |seen| seen.arrived.len() >= count).await.arrived[count - 1].clone()
    }
}

#[async_trait]
impl Access for Assistant {
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision {
        assert_eq!((sender.as_str(), arrival), (chat.as_str(), &Arrival::direct()));
        self.0.send_modify(|seen| seen.asked.push(sender.clone()));
        if sender.as_str() != MALLORY {
            return AccessDecision::Allowed;
        }
        self.seen().strangers_are_asked.map_or(AccessDecision::Denied, AccessDecision::Ask)
    }
}

#[async_trait]
impl Intake for Assistant {
    async fn deliver(&self, message: InboundMessage, _arrival: &Arrival) -> Admission {
        let mut answer = Admission::Accepted;
        self.0.send_modify(|seen| {
            seen.arrived.push(message);
            answer = seen.admissions.pop_front().unwrap_or(Admission::Accepted);
        });
        answer
    }
}

impl Progress for Assistant {
    fn alive(&self) {
        self.0.send_modify(|seen| seen.alive += 1);
    }

    fn degraded(&self, _why: &str) {}
}

#[async_trait]
impl MediaStore for Assistant {
    fn limit(&self) -> u64 {
        1000
    }

    async fn keep(&self, _id: &str, name: &str, mime: Option<&str>, bytes: &[u8]) -> Result<MediaRef, MediaError> {
        let mime = mime.map(str::to_owned);
        self.0.send_modify(|seen| seen.kept.push((name.to_owned(), mime.clone(), bytes.to_vec())));
        Ok(MediaRef { location: format!("/media/{name}"), mime })
    }
}

#[async_trait]
impl Transcriber for Assistant {
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError> {
        Ok(format!(" what is said in {} ", recording.location))
    }
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    cancel: CancellationToken,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl Running {
    /// Runs a channel at a fake.
    pub(crate) fn at(fake: &MailFake, keys: &Value) -> Self {
        Self::of(channel(fake, keys), Arc::default())
    }

    /// Runs a channel (again).
    pub(crate) fn of(channel: Arc<dyn Channel>, assistant: Arc<Assistant>) -> Self {
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let context = ChannelContext {
            access: Arc::<Assistant>::clone(&assistant),
            intake: Arc::<Assistant>::clone(&assistant),
            progress: Arc::<Assistant>::clone(&assistant),
            media: Arc::<Assistant>::clone(&assistant),
            transcriber: Some(Arc::<Assistant>::clone(&assistant)),
            commands: Arc::new(COMMANDS),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
        };
        let runs = Arc::clone(&channel);
        let run = tasks.spawn(async move { runs.run(context).await });
        Self { channel, assistant, cancel, run }
    }

    /// Tells the channel to stop.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        tokio::time::timeout(STOP_WITHIN, self.run).await.unwrap().unwrap().unwrap();
    }

    /// Waits for the end of a run that nobody told to stop.
    pub(crate) async fn end(self) -> ChannelError {
        tokio::time::timeout(WAIT_LIMIT, self.run).await.unwrap().unwrap().unwrap_err()
    }
}

/// A reply in one part, whose text is also its markup.
pub(crate) fn reply(inbound: &InboundMessage, text: &str) -> OutboundPart {
    let key = OutboundKey { turn: "turn".into(), position: 0 };
    part(OutboundMessage::in_reply_to(inbound, key, OutboundKind::Final, text.to_owned()))
}

/// A message that answers nothing.
pub(crate) fn news(to: &str, text: &str) -> OutboundPart {
    reply(&InboundMessage::text("email", to, to, ""), text)
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
