//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! Every event has a transaction id made of the key of its message, so that the homeserver drops a
//! second one.

use nanobot_channel::markup::html;
use nanobot_channel::{ChannelError, MediaRef, MessageId, OutboundPart, Sent};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::{file_name, is_url};

use crate::channel::Matrix;
use crate::error::CallError;
use crate::markup::render_blocks;
use crate::outgoing::{RichText, transaction, without_controls};
use crate::target::SendTarget;
use crate::upload::UploadError;

impl Matrix {
    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut target = SendTarget::new(&message.chat_id, &message.delivery)?;
        if part.index > 0 || !message.kind.is_durable() {
            target = target.without_quote();
        }
        let mut last = None;
        if part.index == 0 {
            let key = part.idempotency_key();
            let done = self.attempts.of(&key);
            for (index, media) in message.media.iter().enumerate() {
                if index >= done {
                    last = Some(self.send_file(part, &target, index, media).await?);
                    self.attempts.remember(&key, index + 1);
                }
                target = target.without_quote();
            }
        }
        let text = part_text(part);
        if !text.plain.trim().is_empty() {
            last = Some(self.send_text(part, &target, &text).await?);
        }
        self.attempts.forget(&part.idempotency_key());
        Ok(Sent {
            message_id: last.map(MessageId::from),
        })
    }

    async fn send_file(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        index: usize,
        media: &MediaRef,
    ) -> Result<String, CallError> {
        let room = &target.room;
        let mut content = if is_url(media) {
            RichText::plain(&media.location).content(None)
        } else {
            let limit = self.config.max_media_bytes;
            let uploaded = self.outgoing.upload_file(room, media, limit).await;
            match uploaded.map_err(UploadError::into_call) {
                Ok(content) => content,
                Err(Ok(error)) => return Err(error.unambiguous()),
                Err(Err(error)) => {
                    let file = file_name(media);
                    tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
                    RichText::plain(&format!("[attachment: {file} - send failed]")).content(None)
                }
            }
        };
        if let (Some(members), Some(relation)) = (content.as_object_mut(), target.relation()) {
            members.insert("m.relates_to".to_owned(), relation);
        }
        let transaction = part_transaction(part, &format!("/file/{index}"));
        self.outgoing
            .send_message(room, &content, &transaction)
            .await
    }

    async fn send_text(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        text: &RichText,
    ) -> Result<String, ChannelError> {
        if let Some(draft) = self.claim_draft(part).await {
            let transaction = part_transaction(part, "/edit");
            let edit = text.edit(&draft);
            let edited = self
                .outgoing
                .send_message(&target.room, &edit, &transaction)
                .await;
            match edited {
                Ok(_) => return Ok(draft),
                // The draft is gone: the reply is a message of its own.
                Err(error) if error.is(crate::error::Refusal::is_missing) => {}
                Err(error) => return Err(error.repeatable()),
            }
        }
        let content = text.content(target.relation());
        let transaction = part_transaction(part, "");
        let sent = self
            .outgoing
            .send_message(&target.room, &content, &transaction);
        Ok(sent.await?)
    }
}

/// Returns the transaction id of a piece of a part.
fn part_transaction(part: &OutboundPart, piece: &str) -> String {
    transaction(&format!("{}{piece}", part.idempotency_key()))
}

/// Returns the text of a part, with the labels of its buttons below the last one: a choice is made
/// by its words.
fn part_text(part: &OutboundPart) -> RichText {
    let mut plain = part.plain.clone();
    let mut html = if part.blocks.is_empty() {
        part.text.clone()
    } else {
        render_blocks(&part.blocks)
    };
    let mut escaped = String::new();
    html::escape(&part.plain, &mut escaped);
    // A text without marks may be one for which there was no room.
    let is_plain = part.text == part.plain || html == escaped.replace('\n', "<br>");
    let labels = labels(part);
    if !labels.is_empty() {
        let is_blank = plain.trim().is_empty();
        plain.push_str(&format!("{}{labels}", if is_blank { "" } else { "\n\n" }));
        let mut escaped = String::new();
        html::escape(&labels, &mut escaped);
        html.push_str(&format!(
            "{}{escaped}",
            if is_blank { "" } else { "<br><br>" }
        ));
    }
    RichText {
        plain: without_controls(&plain),
        html: Some(without_controls(&html)).filter(|_| !is_plain),
    }
}

/// Returns the labels of a part's buttons.
fn labels(part: &OutboundPart) -> String {
    if part.index + 1 < part.count {
        return String::new();
    }
    let buttons = part.message.buttons.iter().flatten();
    let labels = buttons.map(|button| button.label.trim());
    let labels = labels.filter(|label| !label.is_empty());
    let labels: Vec<String> = labels.map(|label| format!("[{label}]")).collect();
    labels.join(" ")
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{Button, InboundMessage};
    use nanobot_testkit::channel::{changed_part, reply_part};

    use super::*;

    fn part(text: &str, plain: &str) -> OutboundPart {
        let inbound = InboundMessage::text("matrix", "@ann:x", "!a:x", "hi");
        let mut part = reply_part(&inbound, plain);
        (part.text, part.plain) = (text.to_owned(), plain.to_owned());
        part
    }

    #[test]
    fn html_is_sent_only_if_it_says_more() {
        assert_eq!(part_text(&part("a &lt; b<br>c", "a < b\nc")).html, None);
        assert_eq!(part_text(&part("a < b", "a < b")).html, None);
        let rich = part_text(&part("<em>a</em>", "a"));
        assert_eq!(
            (rich.plain.as_str(), rich.html.as_deref()),
            ("a", Some("<em>a</em>"))
        );
    }

    #[test]
    fn labels_of_buttons_follow_the_text() {
        let button = |label: &str| Button {
            label: label.to_owned(),
        };
        let rows = vec![vec![button("yes"), button(" ")], vec![button("<no>")]];
        let part = changed_part(part("<em>a</em>", "a"), |message| message.buttons = rows);
        let text = part_text(&part);
        assert_eq!(text.plain, "a\n\n[yes] [<no>]");
        assert_eq!(text.html.unwrap(), "<em>a</em><br><br>[yes] [&lt;no&gt;]");
    }
}
