//! Servers for mail, a channel connected to them, and an assistant that is played here.

use std::sync::Arc;

use mail_parser::{MessageParser, MimeHeaders as _};
use nanobot_channel::{
    Arrival, Channel, ChannelError, ChannelFactory as _, ChannelName, CommandInfo, InboundMessage,
    Notes, OutboundPart, RawConfig, Value, async_trait,
};
use nanobot_channel_email::EmailFactory;
use nanobot_channel_email_fake::{MailFake, PASSWORD, USER};
use nanobot_extract::{Extract, ExtractError, ExtractRequest, ExtractResponse};
use nanobot_testkit::{Assistant, ChannelRun, InProcess};
use serde_json::json;

pub(crate) use nanobot_testkit::channel::{changed_part as with, reply_part as reply};

/// The address of a person with access.
pub(crate) const ANN: &str = "ann@friend.test";
/// The address of a person without access.
pub(crate) const MALLORY: &str = "mallory@stranger.test";
/// The commands of the assistant.
const COMMANDS: [CommandInfo; 2] = [
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
];

/// A channel at a fake, with these keys besides the usual ones.
pub(crate) fn channel(fake: &MailFake, keys: &Value) -> Arc<dyn Channel> {
    made(fake, keys, None, Arc::new(Frail))
}

/// The same on a computer without a reader of mails.
pub(crate) fn channel_without_reader(fake: &MailFake) -> Arc<dyn Channel> {
    made(fake, &json!({}), None, Arc::new(NoReader))
}

/// The same with notes from the start, as programs make it.
pub(crate) fn channel_with_notes(
    fake: &MailFake,
    keys: &Value,
    notes: Arc<dyn Notes>,
) -> Arc<dyn Channel> {
    made(fake, keys, Some(notes), Arc::new(Frail))
}

fn made(
    fake: &MailFake,
    keys: &Value,
    notes: Option<Arc<dyn Notes>>,
    reader: Arc<dyn Extract>,
) -> Arc<dyn Channel> {
    let mut section = json!({
        "enabled": true, "consentGranted": true,
        "imapHost": "127.0.0.1", "imapPort": fake.imap_port(), "imapUsername": USER, "imapPassword": PASSWORD,
        "imapUseSsl": false, "imapUseTls": false,
        "smtpHost": "127.0.0.1", "smtpPort": fake.smtp_port(), "smtpUsername": USER, "smtpPassword": PASSWORD,
        "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>", "authservId": "mx.bot.test",
    });
    section
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    let config = RawConfig {
        notes,
        ..RawConfig::new(section)
    };
    EmailFactory::new(reader)
        .create(ChannelName::from("email"), &config)
        .unwrap()
}

/// Mark of a mail that ends its reader.
pub(crate) const DEADLY: &str = "this ends the reader";
/// Mark of a header that ends its reader.
pub(crate) const DEADLY_HEADER: &str = "X-Deadly: 1";

/// A reader that some mails end.
#[derive(Debug)]
struct Frail;

#[async_trait]
impl Extract for Frail {
    async fn extract(&self, request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
        let (bytes, sign) = match &request {
            ExtractRequest::MailHeader(bytes) => (bytes.clone(), DEADLY_HEADER),
            ExtractRequest::MailHeaders(headers) => (headers.concat(), DEADLY_HEADER),
            ExtractRequest::Mail(bytes) => (bytes.clone(), DEADLY),
            _ => return Err(ExtractError::Garbled),
        };
        let is_deadly = String::from_utf8_lossy(&bytes).contains(sign);
        if is_deadly {
            Err(ExtractError::OutOfMemory)
        } else {
            InProcess.extract(request).await
        }
    }
}

/// A reader that is not installed.
#[derive(Debug)]
struct NoReader;

#[async_trait]
impl Extract for NoReader {
    fn check(&self) -> Result<(), ExtractError> {
        Err(ExtractError::NotInstalled)
    }

    async fn extract(&self, _request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
        Err(ExtractError::NotInstalled)
    }
}

/// A mail as the own server leaves it: with its report about the sender.
pub(crate) fn mail(from: &str, id: &str, rest: &str) -> String {
    let domain = from
        .rsplit(['@', '<', '>'])
        .find(|piece| piece.contains('.'))
        .unwrap_or_default();
    format!(
        "Return-Path: <{from}>\r\nAuthentication-Results: mx.bot.test; dkim=pass header.d={domain};\r\n spf=pass \
         smtp.mailfrom={domain}\r\nFrom: {from}\r\nTo: bot@bot.test\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{id}>\r\n{rest}"
    )
}

/// A mail with nothing but text.
pub(crate) fn note(from: &str, id: &str, text: &str) -> String {
    let kind = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit";
    mail(
        from,
        id,
        &format!("Subject: Hello\r\n{kind}\r\n\r\n{text}\r\n"),
    )
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
        text: message
            .body_text(0)
            .unwrap_or_default()
            .replace("\r\n", "\n")
            .trim_end()
            .to_owned(),
        html: message
            .body_html(0)
            .unwrap_or_default()
            .replace("\r\n", "\n"),
        files: files.collect(),
    }
}

/// An assistant that does not know Mallory.
pub(crate) fn played() -> Arc<Assistant> {
    Arc::new(Assistant::new(MALLORY))
}

/// Every mail is said to have come in the direct chat with its sender.
fn asked_rightly(assistant: &Assistant) {
    for (sender, chat, arrival) in assistant.seen().asked {
        assert_eq!(
            (sender.as_str(), arrival),
            (chat.as_str(), Arrival::direct())
        );
    }
}

/// A channel that runs.
pub(crate) struct Running {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) assistant: Arc<Assistant>,
    run: ChannelRun,
}

impl Running {
    /// Runs a channel at a fake.
    pub(crate) fn at(fake: &MailFake, keys: &Value) -> Self {
        Self::of(channel(fake, keys), played())
    }

    /// Runs a channel (again).
    pub(crate) fn of(channel: Arc<dyn Channel>, assistant: Arc<Assistant>) -> Self {
        let run = ChannelRun::start(Arc::clone(&channel), &assistant, &COMMANDS);
        Self {
            channel,
            assistant,
            run,
        }
    }

    /// Tells the channel to stop.
    pub(crate) async fn stop(self) {
        self.run.stop().await.unwrap();
        asked_rightly(&self.assistant);
    }

    /// Waits until the run ends by itself, and returns its error.
    pub(crate) async fn end(self) -> ChannelError {
        let error = self.run.end().await.unwrap();
        asked_rightly(&self.assistant);
        error
    }
}

/// A message that answers nothing.
pub(crate) fn news(to: &str, text: &str) -> OutboundPart {
    reply(&InboundMessage::text("email", to, to, ""), text)
}
