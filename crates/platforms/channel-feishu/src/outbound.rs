//! Sends finished parts: files first, then the text, into the draft when there is one.
//!
//! A text without marks is a plain message. One with marks, a table or buttons is a card; if Feishu
//! refuses it, its text is sent without marks. Every message of the ledger carries a digest of its
//! key: within an hour, Feishu drops a second one with the same digest and answers with the first.
//! A message that may be lost has no key.

use std::sync::Arc;

use nanobot_channel::{
    ChannelError, ChatId, DeliveryContext, MediaRef, MessageId, OutboundPart, Sent,
};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::Refusal as _;
use nanobot_channel_kit::upload::{file_name, is_url};

use crate::channel::Feishu;
use crate::draft::DraftCard;
use crate::error::{CallError, Refusal};
use crate::interaction::OpenChoice;
use crate::outgoing::{Outgoing, send_message, uuid};
use crate::reply::{Reply, replies};
use crate::target::SendTarget;
use crate::upload::upload_file;

impl Feishu {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
        text: &str,
    ) -> Result<(), ChannelError> {
        let target = SendTarget::new(chat, delivery)?;
        send_message(&self.api, &target, &Outgoing::plain(text), None).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let mut target = SendTarget::new(&message.chat_id, &message.delivery)?;
        if self.config.reply_to_message && message.kind.is_durable() && part.index == 0 {
            target = target.quoting(&message.delivery);
        }
        let key = part.idempotency_key();
        let id = self.send_steps(part, &target, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: id.map(MessageId::from),
        })
    }

    /// Sends the missing steps: each file is one, and each text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
    ) -> Result<Option<String>, CallError> {
        let mut done = self.attempts.of(key);
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        let mut last = None;
        for (number, file) in media.iter().enumerate().skip(done) {
            let outgoing = self.file_message(file).await?;
            let id = uuid(&format!("{key}/file/{number}"));
            last = send_message(&self.api, target, &outgoing, Some(&id)).await?;
            done += 1;
            self.attempts.remember(key, done);
        }
        let done = done.saturating_sub(media.len());
        let prefix = self.config.tool_hint_prefix.as_str();
        let with_table = replies(part, true, prefix);
        let mut sent = self.send_replies(part, target, key, with_table, done).await;
        if !part.blocks.is_empty()
            && matches!(&sent, Err(error) if error.is(Refusal::is_about_tables))
        {
            tracing::warn!(channel = %self.base.name, "a table was refused; it is sent as text");
            let without = replies(part, false, prefix);
            sent = self.send_replies(part, target, key, without, done).await;
        }
        Ok(sent?.or(last))
    }

    /// Sends the missing texts. Returns the id of the last one.
    async fn send_replies(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
        replies: Vec<Reply>,
        done: usize,
    ) -> Result<Option<String>, CallError> {
        let files = if part.index == 0 {
            part.message.media.len()
        } else {
            0
        };
        let mut last = None;
        for (number, reply) in replies.into_iter().enumerate().skip(done) {
            let draft = match number {
                0 => self.claim_draft(part).await,
                _ => None,
            };
            let id = uuid(&format!("{key}/{number}"));
            let (message, card) = self.deliver_reply(target, &reply, &id, draft).await?;
            last = message;
            if let (true, Some(message)) = (reply.has_buttons, &last) {
                self.choices.remember(OpenChoice {
                    message: message.clone(),
                    text: reply.text,
                    card,
                });
            }
            self.attempts.remember(key, files + number + 1);
        }
        Ok(last)
    }

    /// Sends a text, in the draft if there is one. Returns the id of the message, and the card of
    /// the draft that became it.
    async fn deliver_reply(
        &self,
        target: &SendTarget,
        reply: &Reply,
        id: &str,
        draft: Option<DraftCard>,
    ) -> Result<(Option<String>, Option<DraftCard>), CallError> {
        if let Some(draft) = &draft
            && self.complete_draft(draft, reply).await?
        {
            return Ok((Some(draft.message.clone()), Some(draft.clone())));
        }
        let sent = self.send_reply(target, reply, id).await?;
        if let Some(draft) = draft {
            self.delete_draft(draft);
        }
        Ok((sent, None))
    }

    /// Sends a text as a new message. A refused card is sent as its text.
    async fn send_reply(
        &self,
        target: &SendTarget,
        reply: &Reply,
        id: &str,
    ) -> Result<Option<String>, CallError> {
        let plain = Outgoing::plain(&reply.plain);
        if reply.elements.is_none() {
            return send_message(&self.api, target, &plain, Some(id)).await;
        }
        let outgoing = Outgoing::new("interactive", &reply.card());
        match send_message(&self.api, target, &outgoing, Some(id)).await {
            Err(error) if reply.has_table && error.is(Refusal::is_about_tables) => Err(error),
            Err(error) if error.is(Refusal::is_about_the_card) => {
                tracing::warn!(channel = %self.base.name, %error, "a card was refused; its text is sent");
                send_message(&self.api, target, &plain, Some(id)).await
            }
            outcome => outcome,
        }
    }

    /// Returns the message of a file, or a note in its place if it cannot be sent.
    async fn file_message(&self, media: &MediaRef) -> Result<Outgoing, CallError> {
        if is_url(media) {
            return Ok(Outgoing::link(&media.location));
        }
        let error = match upload_file(&self.api, media).await {
            Ok(file) => return Ok(Outgoing::new(file.kind, &file.content)),
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
    async fn complete_draft(&self, draft: &DraftCard, reply: &Reply) -> Result<bool, CallError> {
        match draft.complete(&self.api, &reply.card()).await {
            Ok(()) => Ok(true),
            Err(error) if reply.has_table && error.is(Refusal::is_about_tables) => Err(error),
            Err(CallError::Refused(refusal)) => match refusal.to_channel_error() {
                ChannelError::Auth(_) => Err(CallError::Refused(refusal)),
                _ => {
                    tracing::debug!(channel = %self.base.name, %refusal, "a draft could not become the reply");
                    Ok(false)
                }
            },
            Err(error) => Err(error),
        }
    }

    /// Deletes a draft that did not become the reply, in the background.
    fn delete_draft(&self, draft: DraftCard) {
        let (api, channel) = (Arc::clone(&self.api), self.base.name.clone());
        self.base.background.spawn(async move {
            if let Err(error) = draft.delete(&api).await {
                tracing::debug!(%channel, %error, "a draft could not be taken away");
            }
        });
    }
}
