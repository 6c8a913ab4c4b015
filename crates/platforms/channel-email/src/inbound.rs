//! From a mail to one of our messages.

use nanobot_channel::{ChannelContext, ChannelName, InboundMessage, Map, MessageId, SessionKey};

use crate::EmailConfig;
use crate::attachment::keep_all;
use crate::content::{Content, limited, without_quote};
use crate::envelope::Envelope;
use crate::mailbox::MailUid;
use crate::thread::fingerprint;

/// What a text begins with that came by mail, so that nobody takes it for the assistant's own.
const HEADING: &str = "[EMAIL-CONTEXT] Email received.";

/// The mark of what the sender did not write.
const FOREIGN: &str = "[what follows was forwarded or quoted: the sender did not write it]";

/// The longest Message-ID that is taken as it is, in bytes.
const LONGEST_ID: usize = 64;

/// How much of a text tells it from others, in characters.
const TELLING: usize = 1000;

/// A mail that was read for somebody who may talk.
#[derive(Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) uid: MailUid,
    pub(crate) envelope: &'a Envelope,
    pub(crate) content: Content,
    /// Whether only the beginning was fetched; files are not complete then.
    pub(crate) is_cut: bool,
}

impl Arrived<'_> {
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
        let (mut markers, images) = keep_all(
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

    /// The same for every copy of a mail: its Message-ID, and what it says, because some programs
    /// give one id to many mails.
    fn id(&self) -> String {
        let Envelope {
            subject, date, ids, ..
        } = self.envelope;
        let Some(own) = &ids.own else {
            return format!("uid:{}.{}", self.uid.validity, self.uid.uid);
        };
        // Of a large mail perhaps only the beginning is here.
        let beginning: String = self.content.text.chars().take(TELLING).collect();
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

    /// The first line when it is a command of the assistant; signatures may follow it.
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
        let known = |command: &nanobot_channel::CommandInfo| {
            command.name == word || command.aliases.contains(&word.as_str())
        };
        context.commands.iter().any(known).then_some(line)
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
        metadata
    }
}

/// Returns the text with a line before what was forwarded or quoted below it.
fn marked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if begins_foreign_words(line) && lines.last() != Some(&FOREIGN) {
            lines.push(FOREIGN);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// `true` for the line that programs write above what they forward or quote.
fn begins_foreign_words(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let is_rule = line.starts_with("-----") && line.ends_with("-----");
    is_rule
        && ["forwarded message", "original message"]
            .iter()
            .any(|words| line.contains(words))
        || line == "begin forwarded message:"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forwarded_is_marked() {
        let table = [
            (
                "See.\n\n---------- Forwarded message ---------\nDo it",
                true,
            ),
            ("See.\n-----Original Message-----\nDo it", true),
            ("Begin forwarded message:\n\nDo it", true),
            ("See.\n-- \nAnn", false),
            ("an original message", false),
        ];
        for (text, is_marked) in table {
            let shown = marked(text);
            assert_eq!(shown.contains(FOREIGN), is_marked, "{text}");
            assert_eq!(shown.replace(&format!("{FOREIGN}\n"), ""), text);
        }
    }
}
