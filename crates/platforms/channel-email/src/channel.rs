//! The channel and its contract.

use std::sync::Arc;

use lettre::message::Mailbox as Sender;
use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, Format, KeyDiscovery,
    Measure, Notes, OutboundPart, Probe, Sent, TextStyle, async_trait,
};
use nanobot_extract::Extract;

use crate::EmailConfig;
use crate::error::MailError;
use crate::imap::ImapMailbox;

use crate::markup::MailHtml;
use crate::memory::Memory;
use crate::servers::Servers;
use crate::smtp;

/// Maximum length of the visible text of a mail, in code points.
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
    pub(crate) sender: Sender,
}

impl EmailChannel {
    /// A channel by its configuration; `shared_proxy` is the proxy of all clients, `notes` keep
    /// rotated tokens before the channel runs, and `extractor` parses mails. Opens nothing.
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
            tracing::warn!(channel = %name, "verifyDkim and verifySpf are false: senders can be forged");
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

    /// `true` if a part answers a mail, unlike a message of a tool or a job: only an answer has the
    /// metadata of a mail.
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
        match Box::pin(self.receive(&context)).await {
            Err(error) if !context.cancel.is_cancelled() => Err(error),
            _ => {
                self.withdraw_attempts(&context).await;
                Ok(())
            }
        }
    }

    /// With `autoReplyEnabled` false, answers are not sent and count as sent.
    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        if !self.config().auto_reply_enabled && Self::is_automatic(part) {
            tracing::info!(channel = %self.name, "an answer is not sent: autoReplyEnabled is false");
            return Ok(Sent::default());
        }
        self.send_part(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        // A repeated mail has the same Message-ID, but mail programs may show it twice.
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

    fn key_discovery(&self) -> Option<&dyn KeyDiscovery> {
        Some(self)
    }
}

#[async_trait]
impl Probe for EmailChannel {
    /// Opens the mailbox without changing it, and logs in at the SMTP server.
    async fn probe(&self) -> Result<String, ChannelError> {
        let mailbox = ImapMailbox::open(&self.servers, true)
            .await
            .map_err(MailError::final_now)?;
        if let Err(error) = mailbox.close().await {
            tracing::debug!(channel = %self.name, %error, "the logout failed");
        }
        smtp::probe(&self.servers)
            .await
            .map_err(MailError::final_now)?;
        Ok(self.sender.email.to_string())
    }
}
