//! Sends finished parts.
//!
//! Mochat takes no files: addresses are written into the text, other files are named in a note.

use nanobot_channel::{ChannelError, ChatId, Map, MediaRef, MessageId, OutboundPart, Sent, Value};
use nanobot_channel_kit::upload::{file_name, is_url};

use crate::candidate::{GROUP_KEY, KIND_KEY, MESSAGE_ID_KEY};
use crate::channel::Mochat;
use crate::error::Refusal;
use crate::target::Target;

impl Mochat {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(&self, chat: &ChatId, text: &str) -> Result<(), ChannelError> {
        let target = self.target_of(chat, &Map::new())?;
        self.api.send(&target, text, None, None).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let target = self.target_of(&message.chat_id, &message.delivery.extra)?;
        let text = part_text(part);
        if text.trim().is_empty() {
            return Ok(Sent { message_id: None });
        }
        let group = [&message.delivery.extra, &message.metadata]
            .into_iter()
            .find_map(|facts| facts.get(GROUP_KEY)?.as_str())
            .filter(|group| !group.is_empty());
        let quoted = quoted(part);
        let id = match self.api.send(&target, &text, quoted, group).await {
            // The quoted message may be gone.
            Err(error) if quoted.is_some() && error.is(Refusal::is_about_the_place) => {
                self.api.send(&target, &text, None, group).await?
            }
            sent => sent?,
        };
        Ok(Sent {
            message_id: id.map(MessageId::from),
        })
    }

    /// Returns the target of a chat. The id of a session need not look like one.
    fn target_of(&self, chat: &ChatId, facts: &Map) -> Result<Target, ChannelError> {
        let is_noted = facts.get(KIND_KEY).and_then(Value::as_str) == Some("session");
        Target::new(chat, |id| is_noted || self.targets.is_session(id))
    }
}

/// Returns the message that a part quotes: the begin of a reply quotes what it answers, in groups.
/// What is sent at another time quotes nothing.
fn quoted(part: &OutboundPart) -> Option<&str> {
    let reply_to = part.message.delivery.reply_to.as_ref()?.as_str();
    let answered = part.message.metadata.get(MESSAGE_ID_KEY);
    let is_answer = answered.and_then(Value::as_str) == Some(reply_to);
    (part.index == 0 && is_answer && part.message.key.is_reply()).then_some(reply_to)
}

/// Returns the text of a part. Below the last part are the files of the message and the labels of
/// its buttons.
fn part_text(part: &OutboundPart) -> String {
    let mut pieces = vec![part.text.clone()];
    if part.index + 1 == part.count {
        pieces.extend(part.message.media.iter().map(file_note));
        let buttons = part.message.buttons.iter().flatten();
        let labels = buttons.map(|button| button.label.trim());
        let labels = labels.filter(|label| !label.is_empty());
        let labels: Vec<String> = labels.map(|label| format!("[{label}]")).collect();
        pieces.push(labels.join(" "));
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces.join("\n\n")
}

/// Returns the text in the place of a file.
fn file_note(media: &MediaRef) -> String {
    if is_url(media) {
        media.location.clone()
    } else {
        format!("[Failed to send: {}]", file_name(media))
    }
}
