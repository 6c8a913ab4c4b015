//! From a mail of a sender who may talk to a message.

use nanobot_channel::{
    ChannelContext, ChannelName, InboundMessage, Map, MessageId, OWN_LINE_KEY, SessionKey,
    UNTRUSTED_KEY,
};
use nanobot_extract::MailText;

use crate::EmailConfig;
use crate::attachment::{MailFile, store_all};
use crate::envelope::Envelope;
use crate::imap::MailUid;
use crate::text::{limited, marked, own_line, without_quote};
use crate::thread::fingerprint;

/// Beginning of a text that came by mail, so that it is not taken for the assistant's own.
const HEADING: &str = "[EMAIL-CONTEXT] Email received.";

/// Maximum length of a Message-ID that is not replaced by its fingerprint, in bytes.
const LONGEST_ID: usize = 64;

/// Length of the beginning of a text that is part of its id, in characters.
const ID_TEXT: usize = 1000;

/// A parsed mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedMail {
    /// Lines end with `\n`; empty if there is no text.
    pub(crate) text: String,
    pub(crate) attachments: Vec<MailFile>,
}

impl From<MailText> for ParsedMail {
    fn from(mail: MailText) -> Self {
        let attachments = mail
            .files
            .into_iter()
            .map(|file| MailFile::new(&file.name, file.mime.as_deref(), file.bytes));
        Self {
            text: mail.text,
            attachments: attachments.collect(),
        }
    }
}

/// A mail of a sender who may talk, parsed.
#[derive(Debug)]
pub(crate) struct MailCandidate<'a> {
    pub(crate) uid: MailUid,
    pub(crate) envelope: &'a Envelope,
    pub(crate) content: ParsedMail,
    /// `true` if only the beginning was fetched; its files may be incomplete.
    pub(crate) is_cut: bool,
}

impl MailCandidate<'_> {
    /// Makes the message, keeping its files.
    pub(crate) async fn compose(
        &self,
        name: &ChannelName,
        config: &EmailConfig,
        context: &ChannelContext,
    ) -> InboundMessage {
        let Envelope { sender, ids, .. } = self.envelope;
        let id = self.id();
        let attachments = if self.is_cut {
            &[]
        } else {
            self.content.attachments.as_slice()
        };
        let (mut markers, images) = store_all(
            attachments,
            &format!("{:032x}", fingerprint(&id)),
            config,
            context,
        )
        .await;
        if self.is_cut {
            markers.push(
                "[the mail is too large: only its beginning was read, and no files]".to_owned(),
            );
        }
        let text = match self.command(context) {
            Some(command) if markers.is_empty() => command.to_owned(),
            _ => self.shown(config, &markers),
        };
        let mut message =
            InboundMessage::text(name.clone(), sender.as_str(), sender.as_str(), text);
        message.id = Some(MessageId::from(id));
        message.media = images;
        message.metadata = self.metadata();
        message.delivery = ids.delivery(&self.envelope.subject);
        if config.session_per_thread
            && let Some(root) = ids.root()
        {
            let key = format!("{name}:{sender}:thread:{:016x}", fingerprint(root) >> 64);
            message.session_key_override = Some(SessionKey::from(key));
        }
        message
    }

    /// Returns the same id for every copy of a mail: its Message-ID and a fingerprint of its
    /// content, because some programs give one Message-ID to many mails.
    fn id(&self) -> String {
        let Envelope {
            subject, date, ids, ..
        } = self.envelope;
        let Some(own) = &ids.own else {
            return format!("uid:{}.{}", self.uid.validity, self.uid.uid);
        };
        // Of a large mail, only the beginning may be here.
        let beginning: String = self.content.text.chars().take(ID_TEXT).collect();
        // A sender decides how long it is, and it is a key of the ledger and the session.
        let own = if own.len() <= LONGEST_ID {
            own.clone()
        } else {
            format!("{:032x}", fingerprint(own))
        };
        format!(
            "{own}#{:016x}",
            fingerprint(&format!("{date}\n{subject}\n{beginning}")) >> 64
        )
    }

    /// Returns the first line if it is a command of the assistant; a signature may follow it.
    fn command(&self, context: &ChannelContext) -> Option<&str> {
        let line = self
            .content
            .text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        let word = line
            .strip_prefix('/')?
            .split_whitespace()
            .next()?
            .to_lowercase();
        let is_command = context.commands.iter().any(|known| known.is_named(&word));
        is_command.then_some(line)
    }

    fn shown(&self, config: &EmailConfig, markers: &[String]) -> String {
        let Envelope {
            shown_sender,
            subject,
            date,
            ids,
            ..
        } = self.envelope;
        let body = if ids.answers_us() {
            without_quote(&self.content.text)
        } else {
            self.content.text.clone()
        };
        let body = limited(&marked(&body), config.max_body_chars);
        let body = if body.trim().is_empty() {
            "(empty email body)".to_owned()
        } else {
            body
        };
        let mut text =
            format!("{HEADING}\nFrom: {shown_sender}\nSubject: {subject}\nDate: {date}\n\n{body}");
        if !markers.is_empty() {
            text = format!("{text}\n\n{}", markers.join("\n"));
        }
        text
    }

    fn metadata(&self) -> Map {
        let Envelope {
            sender,
            subject,
            date,
            ids,
            ..
        } = self.envelope;
        let mut metadata = Map::new();
        let mut set =
            |key: &str, value: nanobot_channel::Value| metadata.insert(key.to_owned(), value);
        set("message_id", ids.own.clone().into());
        set("subject", subject.clone().into());
        set("date", date.clone().into());
        set("sender_email", sender.clone().into());
        set("uid", self.uid.uid.to_string().into());
        set("uid_validity", self.uid.validity.into());
        // A sender's address proves little, and mails quote and forward the words of others.
        set(UNTRUSTED_KEY, "e-mail".into());
        // The rest of a mail that was cut could say something else.
        if let Some(line) = own_line(&self.content.text).filter(|_| !self.is_cut) {
            set(OWN_LINE_KEY, line.into());
        }
        metadata
    }
}
