//! Sends parts of messages as mails.
//!
//! Decision: every mail has a plain and an HTML form.

use std::sync::Arc;

use lettre::Message;
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use nanobot_channel::markup::html::{attribute, escape};
use nanobot_channel::{
    ChannelError, ChatAddress, ChatId, MessageId, OutboundKey, OutboundKind, OutboundMessage,
    OutboundPart, OutboundSlot, Sent,
};

use crate::EmailChannel;
use crate::envelope::Envelope;
use crate::smtp;
use crate::thread::{ThreadHeaders, fingerprint, own_id};
use crate::upload::OutgoingFiles;

impl EmailChannel {
    /// Sends a notice of the channel itself, as an answer to a mail.
    pub(crate) async fn send_notice(&self, envelope: &Envelope, text: &str) {
        let address = ChatAddress {
            delivery: envelope.ids.delivery(&envelope.subject),
            ..ChatAddress::new(self.name.clone(), envelope.sender.as_str())
        };
        let turn = format!(
            "notice-{:032x}",
            fingerprint(&format!("{:?}{text}", envelope.ids))
        );
        let key = OutboundKey::new(turn, OutboundSlot::Reply);
        let message = OutboundMessage::to(address, key, OutboundKind::Notice, text.to_owned());
        let mut html = String::new();
        escape(text, &mut html);
        let part = OutboundPart {
            message: Arc::new(message),
            index: 0,
            count: 1,
            text: html.replace('\n', "<br>\n"),
            plain: text.to_owned(),
            blocks: Vec::new(),
            in_doubt: false,
        };
        if let Err(error) = self.send_part(&part).await {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }

    /// Sends a part as one mail.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let to = address(&part.message.chat_id)?;
        let id = own_id(part, self.sender.email.domain());
        let mail = compose(part, &self.sender, &to, &id, &self.config().subject_prefix).await?;
        let envelope = lettre::address::Envelope::new(Some(self.sender.email.clone()), vec![to]);
        let envelope = envelope.map_err(|error| ChannelError::NotFound(error.to_string()))?;
        smtp::send(&self.servers, &envelope, &mail).await?;
        Ok(Sent {
            message_id: Some(MessageId::from(id)),
        })
    }
}

fn address(chat: &ChatId) -> Result<lettre::Address, ChannelError> {
    chat.as_str()
        .parse()
        .map_err(|_error| ChannelError::NotFound(format!("`{chat}` is no address of a mailbox")))
}

/// A header of automatic mails.
macro_rules! machine_header {
    ($name:ident, $header:literal) => {
        #[derive(Clone)]
        struct $name(&'static str);

        impl Header for $name {
            fn name() -> HeaderName {
                HeaderName::new_from_ascii_str($header)
            }

            fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
                Err("it is written only".into())
            }

            fn display(&self) -> HeaderValue {
                HeaderValue::new(Self::name(), self.0.to_owned())
            }
        }
    };
}

machine_header!(AutoSubmitted, "Auto-Submitted");
machine_header!(Suppress, "X-Auto-Response-Suppress");

/// Renders the mail of a part.
async fn compose(
    part: &OutboundPart,
    from: &Mailbox,
    to: &lettre::Address,
    id: &str,
    prefix: &str,
) -> Result<Vec<u8>, ChannelError> {
    let files = if part.index == 0 {
        OutgoingFiles::load(&part.message.media).await
    } else {
        OutgoingFiles::default()
    };
    let choices = choices(part);
    let plain = [part.plain.trim_end(), &choices, &files.notes.join("\n")];
    let plain = plain
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n");
    let html = html(part, &choices, &files);
    let ThreadHeaders {
        subject,
        references,
    } = ThreadHeaders::of(part, prefix);
    let is_answer = !references.is_empty();
    let mut builder = Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, to.clone()))
        .subject(subject)
        .message_id(Some(id.to_owned()))
        .date_now()
        .header(AutoSubmitted(if is_answer {
            "auto-replied"
        } else {
            "auto-generated"
        }))
        .header(Suppress("All"));
    if let Some(last) = references.last() {
        builder = builder
            .in_reply_to(last.clone())
            .references(references.join(" "));
    }
    let body = MultiPart::alternative().singlepart(SinglePart::plain(plain));
    let body = if files.pictures.is_empty() {
        body.singlepart(SinglePart::html(html))
    } else {
        let related = MultiPart::related().singlepart(SinglePart::html(html));
        body.multipart(
            files
                .pictures
                .into_iter()
                .fold(related, |related, file| related.singlepart(file.part)),
        )
    };
    let body = if files.others.is_empty() {
        body
    } else {
        let mixed = MultiPart::mixed().multipart(body);
        files
            .others
            .into_iter()
            .fold(mixed, |mixed, file| mixed.singlepart(file.part))
    };
    let message = builder
        .multipart(body)
        .map_err(|error| ChannelError::Refused(error.to_string()))?;
    Ok(message.formatted())
}

/// Returns the buttons as text, in the last part.
fn choices(part: &OutboundPart) -> String {
    if part.index + 1 != part.count {
        return String::new();
    }
    let rows = part.message.buttons.iter();
    let rows = rows.map(|row| {
        row.iter()
            .map(|button| format!("[{}]", button.label))
            .collect::<Vec<_>>()
            .join(" ")
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn html(part: &OutboundPart, choices: &str, files: &OutgoingFiles) -> String {
    let mut body = part.text.trim_end().to_owned();
    for line in choices
        .lines()
        .map(str::to_owned)
        .chain(files.notes.iter().cloned())
    {
        body.push_str(&format!("\n<p>{}</p>", attribute(&line)));
    }
    for picture in &files.pictures {
        body.push_str(&format!(
            "\n<p><img src=\"cid:{}\" alt=\"{}\"></p>",
            picture.id,
            attribute(&picture.name)
        ));
    }
    format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"></head><body>\n{body}\n</body></html>\n"
    )
}
