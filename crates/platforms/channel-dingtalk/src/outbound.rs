//! Sends finished parts: files first, then the text, into the draft if there is one.
//!
//! Files and texts are messages of their own. When a part is sent again, the messages that DingTalk
//! accepted are left out; an unknown outcome is reported as such.

use nanobot_channel::{ChannelError, ChatId, MediaRef, MessageId, OutboundPart, Sent};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::{file_name, is_url};

use crate::channel::DingTalk;
use crate::draft::DraftCard;
use crate::error::{CallError, Refusal};
use crate::outgoing::{Outgoing, escaped, send_message};
use crate::target::SendTarget;
use crate::upload::{remote_file, upload_file};

impl DingTalk {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(&self, chat: &ChatId, text: &str) -> Result<(), ChannelError> {
        let target = SendTarget::new(chat)?;
        send_message(&self.api, &target, &Outgoing::plain(text)).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let target = SendTarget::new(&part.message.chat_id)?;
        let key = part.idempotency_key();
        let id = self.send_steps(part, &target, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: id.map(MessageId::from),
        })
    }

    /// Sends the missing steps: each file is one, and the text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
    ) -> Result<Option<String>, CallError> {
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        let mut last = None;
        for (number, file) in media.iter().enumerate().skip(self.attempts.of(key)) {
            let outgoing = self.file_message(file).await?;
            last = send_message(&self.api, target, &outgoing).await?;
            self.attempts.remember(key, number + 1);
        }
        let reply = PartText::new(part);
        if reply.plain.trim().is_empty() {
            return Ok(last);
        }
        let draft = self.claim_draft(part).await;
        if let Some(draft) = &draft {
            if self.complete_draft(draft, &reply.text).await? {
                return Ok(Some(draft.track().to_owned()));
            }
            self.give_up_draft(part).await?;
        }
        let sent = send_message(&self.api, target, &reply.message()).await?;
        if let Some(draft) = draft {
            self.withdraw_draft(draft);
        }
        Ok(sent.or(last))
    }

    /// Returns the message of a file, or a note in its place if it cannot be sent.
    async fn file_message(&self, media: &MediaRef) -> Result<Outgoing, CallError> {
        if is_url(media) {
            return Ok(remote_file(media));
        }
        let error = match upload_file(&self.api, media).await {
            Ok(outgoing) => return Ok(outgoing),
            Err(error) => error,
        };
        let error = match error.into_call() {
            Ok(error) => return Err(error),
            Err(error) => error,
        };
        let file = file_name(media);
        tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
        Ok(Outgoing::plain(&format!("[Failed to send: {file}]")))
    }

    /// Turns a draft into the reply. `false` if the card cannot be changed (any more).
    async fn complete_draft(&self, draft: &DraftCard, text: &str) -> Result<bool, CallError> {
        match self.draft_at(None).finish(draft, text).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(|refusal| !Refusal::is_about_the_app(refusal)) => {
                tracing::debug!(channel = %self.base.name, %error, "a draft could not become the reply");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the text of a draft that did not become the reply, in the background.
    fn withdraw_draft(&self, draft: DraftCard) {
        let (place, channel) = (self.draft_at(None), self.base.name.clone());
        self.base.background.spawn(async move {
            if let Err(error) = place.withdraw(&draft).await {
                tracing::debug!(%channel, %error, "a draft could not be withdrawn");
            }
        });
    }
}

/// The text of a part, with the labels of its buttons below the last one: DingTalk's messages have
/// no buttons, so a choice is made by its words.
#[derive(Debug)]
struct PartText {
    /// In Markdown.
    text: String,
    /// Without marks.
    plain: String,
    is_marked: bool,
}

impl PartText {
    fn new(part: &OutboundPart) -> Self {
        let labels = labels(part);
        let (mut text, mut plain) = (part.text.clone(), part.plain.clone());
        // A text without marks may be one for which there was no room.
        let is_marked = text != plain;
        if !is_marked {
            text = escaped(&plain);
        }
        if !labels.is_empty() {
            let gap = if plain.trim().is_empty() { "" } else { "\n\n" };
            text.push_str(&format!("{gap}{}", escaped(&labels)));
            plain.push_str(&format!("{gap}{labels}"));
        }
        Self {
            text,
            plain,
            is_marked,
        }
    }

    fn message(&self) -> Outgoing {
        if self.is_marked {
            Outgoing::markdown(&self.text, &self.plain)
        } else {
            Outgoing::plain(&self.plain)
        }
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
