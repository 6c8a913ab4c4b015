//! The channel: what it is made of, and the contract.

use std::sync::Arc;

use lettre::message::Mailbox as Sender;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, ChatAddress, ChatId, DeliveryGuarantee,
    Format, KeyDiscovery, Measure, MessageId, Notes, OutboundKey, OutboundKind, OutboundMessage,
    OutboundPart, OutboundSlot, Probe, Sent, TextStyle, async_trait,
};
use nanobot_extract::Extract;

use crate::EmailConfig;
use crate::compose::{Frame, compose};
use crate::envelope::Envelope;
use crate::error::MailError;
use crate::mailbox::Mailbox;
use crate::markup::MailHtml;
use crate::receive::Memory;
use crate::servers::Servers;
use crate::smtp;
use crate::thread::{Placement, fingerprint, own_id};

/// How much visible text a mail gets, in code points. Mails may be longer; readers may not.
const TEXT_LIMIT: usize = 100_000;

/// A mailbox.
///
/// Made by [`crate::EmailFactory`], or by hand for programs that have no configuration file.
#[derive(Debug)]
pub struct EmailChannel {
    pub(crate) name: ChannelName,
    pub(crate) servers: Servers,
    pub(crate) memory: Memory,
    pub(crate) extractor: Arc<dyn Extract>,
    sender: Sender,
}

impl EmailChannel {
    /// A channel by its configuration; `shared_proxy` is the proxy of all clients, and `notes` are those
    /// that it gets when it runs, where it has to know them before. `extractor` reads mails. Opens nothing.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn new(
        name: ChannelName,
        config: EmailConfig,
        shared_proxy: Option<&str>,
        notes: Option<Arc<dyn Notes>>,
        extractor: Arc<dyn Extract>,
    ) -> Result<Self, ChannelError> {
        let sender = config.sender()?;
        if !config.verify_dkim && !config.verify_spf {
            tracing::warn!(channel = %name, "verifyDkim and verifySpf are false: anybody can write in anybody's name");
        }
        Ok(Self {
            name,
            servers: Servers::new(config, shared_proxy, notes)?,
            memory: Memory::default(),
            extractor,
            sender,
        })
    }

    pub(crate) fn config(&self) -> &EmailConfig {
        &self.servers.config
    }

    /// Says something on the channel's own behalf, as an answer to a mail.
    pub(crate) async fn tell(&self, envelope: &Envelope, text: &str) {
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
        let html = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('\n', "<br>\n");
        let (message, plain) = (Arc::new(message), text.to_owned());
        let part = OutboundPart {
            message,
            index: 0,
            count: 1,
            text: html,
            plain,
            blocks: Vec::new(),
            in_doubt: false,
        };
        if let Err(error) = self.send_part(&part).await {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }

    async fn send_part(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let to = address(&part.message.chat_id)?;
        let id = own_id(part, self.sender.email.domain());
        let placement = Placement::of(part, &self.config().subject_prefix);
        let frame = Frame {
            from: self.sender.clone(),
            to: to.clone(),
            id: id.clone(),
            placement,
        };
        let mail = compose(part, &frame).await?;
        let envelope = lettre::address::Envelope::new(Some(self.sender.email.clone()), vec![to]);
        let envelope = envelope.map_err(|error| ChannelError::NotFound(error.to_string()))?;
        smtp::send(&self.servers, &envelope, &mail).await?;
        Ok(Sent {
            message_id: Some(MessageId::from(id)),
        })
    }

    /// Whether a part answers a mail by itself, rather than because a tool or a job said so:
    /// only then does it carry what the mail was known by.
    fn is_automatic(part: &OutboundPart) -> bool {
        let metadata = &part.message.metadata;
        let is_forced = metadata
            .get("force_send")
            .and_then(nanobot_channel::Value::as_bool)
            .unwrap_or(false);
        metadata.contains_key("uid") && !is_forced
    }
}

#[async_trait]
impl Channel for EmailChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let outcome = context
            .cancel
            .run_until_cancelled(Box::pin(self.receive(&context)))
            .await;
        match outcome {
            Some(Err(error)) if !context.cancel.is_cancelled() => Err(error),
            _ => {
                self.take_back_try(&context).await;
                Ok(())
            }
        }
    }

    /// With `autoReplyEnabled` false, answers are not sent and count as done, as their owner wants.
    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        if !self.config().auto_reply_enabled && Self::is_automatic(part) {
            tracing::info!(channel = %self.name, "an answer is not sent: autoReplyEnabled is false");
            return Ok(Sent::default());
        }
        self.send_part(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        // Repeated mails have one Message-ID, but it is up to their readers to notice.
        DeliveryGuarantee::BestEffort
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Whole(&MailHtml),
            measure: Measure::CodePoints,
            limit: TEXT_LIMIT,
        }
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }

    fn lesson(&self) -> Option<&dyn KeyDiscovery> {
        Some(self)
    }
}

#[async_trait]
impl Probe for EmailChannel {
    /// Looks at the mailbox without changing it, and logs in at the server for sending.
    async fn probe(&self) -> Result<String, ChannelError> {
        let mailbox = Mailbox::open(&self.servers, true)
            .await
            .map_err(MailError::final_now)?;
        if let Err(error) = mailbox.close().await {
            tracing::debug!(channel = %self.name, %error, "the mailbox was left without a good-bye");
        }
        smtp::look(&self.servers)
            .await
            .map_err(MailError::final_now)?;
        Ok(self.sender.email.to_string())
    }
}

fn address(chat: &ChatId) -> Result<lettre::Address, ChannelError> {
    chat.as_str()
        .parse()
        .map_err(|_error| ChannelError::NotFound(format!("`{chat}` is no address of a mailbox")))
}
