//! Sends finished parts: files first, then the text.
//!
//! Files and texts are messages of their own, as replies as long as QQ takes any. When a part is
//! sent again, the messages that QQ accepted are left out. A reply whose outcome is unknown is sent
//! again under its number, and QQ refuses it if it arrived; a message of its own is not.

use nanobot_channel::{ChannelError, MediaRef, MessageId, OutboundPart, Sent};
use nanobot_channel_kit::upload::file_name;

use crate::budget::{ReplyRequest, ReplySlot};
use crate::candidate::CandidateMessage;
use crate::channel::Qq;
use crate::error::{CallError, Refusal};
use crate::outgoing::{Outgoing, Reply, reply_number, send_message};
use crate::target::{Place, SendTarget};
use crate::upload;

const UNKNOWN: &str = "whether QQ has this message cannot be found out";

/// The facts that the messages of a part have in common.
#[derive(Clone, Copy, Debug)]
struct Order<'a> {
    target: &'a SendTarget,
    chat: &'a str,
    answered: Option<&'a str>,
    is_lossy: bool,
    /// `true` if an earlier attempt may have arrived.
    in_doubt: bool,
}

impl Qq {
    /// Sends a notice of the channel itself in reply to a message.
    pub(crate) async fn reply_notice(
        &self,
        candidate: &CandidateMessage,
        text: &str,
    ) -> Result<(), ChannelError> {
        let target = SendTarget {
            place: candidate.origin.clone(),
            is_guess: false,
        };
        let order = Order {
            target: &target,
            chat: candidate.chat.as_str(),
            answered: Some(candidate.id.as_str()),
            is_lossy: false,
            in_doubt: false,
        };
        let key = format!("{}/notice", candidate.id);
        let notice = Outgoing::Text(text.to_owned());
        self.deliver(&order, &key, &notice).await?;
        Ok(())
    }

    /// Sends one part.
    pub(crate) async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let message = &part.message;
        let known = |chat: &str| self.chats.with(|chats| chats.find(chat));
        let target = SendTarget::new(&message.chat_id, &message.delivery, known)?;
        let order = Order {
            target: &target,
            chat: message.chat_id.as_str(),
            answered: message.delivery.reply_to.as_ref().map(MessageId::as_str),
            is_lossy: !message.kind.is_durable(),
            in_doubt: part.in_doubt,
        };
        let key = part.idempotency_key();
        let id = self.send_steps(part, &order, &key).await?;
        self.attempts.forget(&key);
        Ok(Sent {
            message_id: id.map(MessageId::from),
        })
    }

    /// Sends the missing steps: each file is one, and the text.
    async fn send_steps(
        &self,
        part: &OutboundPart,
        order: &Order<'_>,
        key: &str,
    ) -> Result<Option<String>, CallError> {
        let media = if part.index == 0 {
            part.message.media.as_slice()
        } else {
            &[]
        };
        let mut last = None;
        for (number, file) in media.iter().enumerate().skip(self.attempts.of(key)) {
            let step = format!("{key}/file/{number}");
            last = self.send_file(order, &step, file).await?;
            self.attempts.remember(key, number + 1);
        }
        let sent = self.send_text(order, key, part).await?;
        Ok(sent.or(last))
    }

    /// Sends a file, or a note in its place if it cannot be sent.
    async fn send_file(
        &self,
        order: &Order<'_>,
        key: &str,
        media: &MediaRef,
    ) -> Result<Option<String>, CallError> {
        let place = &order.target.place;
        let error = match upload::file_message(&self.api, place, media).await {
            Ok(outgoing) => return self.deliver(order, key, &outgoing).await,
            Err(error) => error,
        };
        let error = match error.into_call() {
            Ok(error) => return Err(error),
            Err(error) => error,
        };
        let file = file_name(media);
        tracing::warn!(channel = %self.base.name, %error, file, "a file could not be sent");
        let note = Outgoing::Text(format!("[Failed to send: {file}]"));
        self.deliver(order, &format!("{key}/note"), &note).await
    }

    /// Sends the text of a part. QQ's Markdown is sent without marks if it is refused.
    async fn send_text(
        &self,
        order: &Order<'_>,
        key: &str,
        part: &OutboundPart,
    ) -> Result<Option<String>, CallError> {
        let labels = labels(part);
        let plain = with_labels(&part.plain, &labels);
        if plain.trim().is_empty() {
            return Ok(None);
        }
        let is_guild = matches!(order.target.place, Place::Guild(_));
        if self.config.is_markdown() && !is_guild && part.text != part.plain {
            let marked = with_labels(&part.text, &crate::markup::escaped(&labels));
            match self.deliver(order, key, &Outgoing::Markdown(marked)).await {
                Err(error) if error.is(Refusal::is_about_markdown) => {
                    let channel = &self.base.name;
                    tracing::warn!(%channel, %error, "Markdown was refused; plain text is sent");
                    let key = format!("{key}/plain");
                    return self.deliver(order, &key, &Outgoing::Text(plain)).await;
                }
                outcome => return outcome,
            }
        }
        self.deliver(order, key, &Outgoing::Text(plain)).await
    }

    /// Sends a message in a chat whose kind may be unknown: groups and people have the same ids.
    async fn deliver(
        &self,
        order: &Order<'_>,
        key: &str,
        outgoing: &Outgoing,
    ) -> Result<Option<String>, CallError> {
        let place = &order.target.place;
        let sent = self.deliver_to(place, order, key, outgoing).await;
        let is_elsewhere = |error: &CallError| error.is(Refusal::is_about_the_place);
        if !order.target.is_guess || !sent.as_ref().is_err_and(is_elsewhere) {
            return sent;
        }
        let group = Place::Group(order.chat.trim().to_owned());
        match self.deliver_to(&group, order, key, outgoing).await {
            Err(error) if is_elsewhere(&error) => sent,
            outcome => {
                self.chats
                    .update(|chats| outcome.is_ok() && chats.learn(order.chat.trim(), &group));
                outcome
            }
        }
    }

    /// Sends a message, as a reply as long as QQ takes one.
    async fn deliver_to(
        &self,
        place: &Place,
        order: &Order<'_>,
        key: &str,
        outgoing: &Outgoing,
    ) -> Result<Option<String>, CallError> {
        let number = reply_number(key);
        let slot = self.budget.take(&ReplyRequest {
            place,
            chat: order.chat,
            answered: order.answered,
            is_lossy: order.is_lossy,
            number,
        });
        let uncertain = || Err(CallError::Interrupted(UNKNOWN.to_owned()));
        let has_number = !matches!(place, Place::Guild(_));
        match slot {
            ReplySlot::Kept => return Err(CallError::Refused(Refusal::of_kept_reply())),
            ReplySlot::Reply(message) if has_number || !order.in_doubt => {
                let reply = Reply {
                    message: &message,
                    number,
                };
                match send_message(&self.api, place, outgoing, Some(reply)).await {
                    Err(error) if error.is(Refusal::is_duplicate) => return Ok(None),
                    Err(error) if error.is(Refusal::is_about_the_answered) => {
                        let channel = &self.base.name;
                        tracing::debug!(%channel, %error, "a message takes no further reply");
                        self.budget.exhaust(&message, number);
                        if order.is_lossy {
                            return Err(error);
                        }
                    }
                    outcome => return outcome.map_err(Refusal::into_reply_error),
                }
            }
            ReplySlot::Reply(_) | ReplySlot::Alone => {}
        }
        if order.in_doubt {
            return uncertain();
        }
        send_message(&self.api, place, outgoing, None).await
    }
}

fn with_labels(text: &str, labels: &str) -> String {
    let gap = if text.trim().is_empty() || labels.is_empty() {
        ""
    } else {
        "\n\n"
    };
    format!("{text}{gap}{labels}")
}

/// Returns the labels of a part's buttons: QQ's messages have none here, so a choice is made by its
/// words.
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
