//! Sends finished parts: files first, then the text, into the stream of the message if there is
//! one.
//!
//! Files and texts are messages of their own. When a part is sent again, the messages that WeCom
//! accepted are left out; an unknown outcome is reported as such.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext, MediaRef, OutboundPart, Sent};
use nanobot_channel_kit::Platform as _;
use nanobot_channel_kit::upload::{file_name, is_url};

use crate::channel::WeCom;
use crate::draft::WeComStream;
use crate::error::{CallError, Refusal};
use crate::outgoing::{Outgoing, SendTarget, req_id, send_message};
use crate::reply::part_text;
use crate::turn_stream::StreamText;
use crate::upload::upload_file;

impl WeCom {
    /// Sends a notice of the channel itself.
    pub(crate) async fn notify(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
        text: &str,
    ) -> Result<(), ChannelError> {
        let target = target(chat, delivery)?;
        send_message(&self.gateway, &target, &Outgoing::plain(text)).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let target = target(&part.message.chat_id, &part.message.delivery)?;
        let key = part.idempotency_key();
        self.send_steps(part, &target, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent::default())
    }

    /// Sends the missing steps: each file is one, and the text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        target: &SendTarget,
        key: &str,
    ) -> Result<(), CallError> {
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        for (number, file) in media.iter().enumerate().skip(self.attempts.of(key)) {
            let outgoing = self.file_message(file).await?;
            send_message(&self.gateway, target, &outgoing).await?;
            self.attempts.remember(key, number + 1);
        }
        let Some(text) = part_text(part) else {
            return Ok(());
        };
        if part.index == 0 && part.message.completes.is_some() {
            let draft = self.claim_draft(part).await;
            let is_earlier =
                |draft: &&WeComStream| !self.streams.has_begun(&draft.req_id, &draft.stream);
            let is_finished = match draft.as_ref().filter(is_earlier) {
                Some(draft) => self.finish_earlier_stream(part, draft, &text).await?,
                None => {
                    let is_noted = draft.is_some();
                    self.finish_stream(part, key, &text, is_noted).await?
                }
            };
            if is_finished {
                return Ok(());
            }
            if draft.is_some() {
                self.give_up_draft(part).await?;
            }
        }
        send_message(&self.gateway, target, &Outgoing::markdown(&text)).await
    }

    /// Finishes the stream of the message with its reply. `false` if the reply has to be sent
    /// without the stream. Without a noted draft, the stream would not be found again after a
    /// restart, so a frame without an answer leaves the outcome unknown.
    async fn finish_stream(
        &self,
        part: &OutboundPart,
        key: &str,
        text: &str,
        is_noted: bool,
    ) -> Result<bool, CallError> {
        let Some(req_id) = req_id(&part.message.delivery) else {
            return Ok(false);
        };
        let streams = &self.streams;
        let was_in_doubt = streams.is_in_doubt(req_id, key);
        let connection = self.gateway.connection();
        let new_id = || self.gateway.new_id("stream");
        let Some(last) = streams.finish(req_id, connection, key, text, new_id) else {
            return Ok(false);
        };
        let (cmd, body) = last.frame(true);
        let error = match self.gateway.reply(cmd, req_id, body).await {
            Ok(()) => {
                streams.close(req_id);
                return Ok(true);
            }
            Err(error) => error,
        };
        let is_refused = error.is(|refusal| !Refusal::is_about_the_app(refusal));
        if is_refused && was_in_doubt {
            // It may have been refused because it arrived before.
            streams.close(req_id);
            return Err(CallError::Interrupted(error.to_string()));
        }
        if is_refused {
            tracing::debug!(channel = %self.base.name, %error, "a stream took no reply");
            streams.close(req_id);
            return Ok(false);
        }
        if error.is_ambiguous() {
            // The same frame may come again.
            streams.doubt(req_id, key);
        }
        Err(if is_noted { error.unambiguous() } else { error })
    }

    /// Finishes a stream of an earlier process, which may have finished it with the same reply.
    /// `false` if the reply has to be sent without the stream.
    async fn finish_earlier_stream(
        &self,
        part: &OutboundPart,
        draft: &WeComStream,
        text: &str,
    ) -> Result<bool, CallError> {
        let last = StreamText {
            req_id: draft.req_id.clone(),
            stream: draft.stream.clone(),
            text: text.to_owned(),
        };
        let (cmd, body) = last.frame(true);
        let Err(error) = self.gateway.reply(cmd, &last.req_id, body).await else {
            return Ok(true);
        };
        if !error.is(|refusal| !Refusal::is_about_the_app(refusal)) {
            return Err(error.unambiguous());
        }
        if part.in_doubt {
            // It may have been refused because it arrived before.
            return Err(CallError::Interrupted(error.to_string()));
        }
        tracing::debug!(channel = %self.base.name, %error, "a stream of an earlier process took no reply");
        Ok(false)
    }

    /// Returns the message of a file, or a note in its place if it cannot be sent.
    async fn file_message(&self, media: &MediaRef) -> Result<Outgoing, CallError> {
        if is_url(media) {
            return Ok(Outgoing::plain(&media.location));
        }
        let file = file_name(media);
        let note = || Outgoing::plain(&format!("[Failed to send: {file}]"));
        let error = match upload_file(&self.gateway, media).await {
            Ok(Some(outgoing)) => return Ok(outgoing),
            Ok(None) => {
                tracing::warn!(channel = %self.base.name, file, "a file is too small to be sent");
                return Ok(note());
            }
            Err(error) => error,
        };
        let error = match error.into_call() {
            Ok(error) => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
        Ok(note())
    }
}

fn target(chat: &ChatId, delivery: &DeliveryContext) -> Result<SendTarget, ChannelError> {
    let target = SendTarget::new(chat, delivery);
    let unusable = || ChannelError::NotFound(format!("`{chat}` is no person or group of WeCom"));
    target.ok_or_else(unusable)
}
