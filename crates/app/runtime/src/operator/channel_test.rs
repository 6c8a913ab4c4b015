//! Test of a channel: asks its platform, then sends a message.

use std::sync::Arc;

use nanobot_bus::LedgerEntry;
use nanobot_channel::{Channel, ChannelError, ChannelName, ChatId, OutboundPart};
use nanobot_control::ControlClient;
use nanobot_text::{RenderedPart, render};
use nanobot_types::{ChatAddress, OutboundKey, OutboundKind, OutboundMessage, OutboundSlot};

use super::channel_status::probe_account;
use crate::assembly::channels::{ConfiguredChannel, configured_channels};
use crate::operator::remote;
use crate::{Runtime, RuntimeError};

/// Text of the test message.
const TEXT: &str = "This is a **test message** of nanobot. It arrived.";

/// Outcome of a test message.
#[derive(Clone, Debug, PartialEq)]
pub enum TestOutcome {
    /// The platform accepted it.
    Sent,
    /// The gateway sent it; this is the entry in its ledger.
    ByGateway(Box<LedgerEntry>),
    /// The platform refused it, for this reason.
    Refused(String),
    /// No gateway runs the channel, and without one the platform could not be reached, for this
    /// reason.
    Unavailable(String),
}

/// A channel to test.
#[derive(Debug)]
pub struct ChannelTest {
    configured: ConfiguredChannel,
    channel: Arc<dyn Channel>,
    gateway: Option<ControlClient>,
}

impl ChannelTest {
    /// Returns the test of a configured channel, enabled or not.
    ///
    /// # Errors
    /// Returns [`RuntimeError::NoChannel`] if there is no such channel, [`RuntimeError::Channels`]
    /// if it cannot be made, [`RuntimeError::Silent`] if the gateway does not answer.
    pub async fn new(runtime: &Runtime, name: &str) -> Result<Self, RuntimeError> {
        let configured = find(runtime, name)?;
        let channel = configured.channel()?;
        let gateway = remote::connect(runtime.config()).await?;
        Ok(Self {
            configured,
            channel,
            gateway,
        })
    }

    /// Asks the platform for the channel's account; `None` if the platform cannot be asked.
    ///
    /// # Errors
    /// Returns the reason if the platform cannot be used.
    pub async fn probe(&self) -> Result<Option<String>, ChannelError> {
        probe_account(Arc::clone(&self.channel)).await
    }

    /// Sends a test message to a chat: through the gateway if it runs the channel, else directly.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Control`] if the gateway cannot list its channels,
    /// [`RuntimeError::Ledger`] if it cannot send the message.
    pub async fn send(&self, chat: &str) -> Result<TestOutcome, RuntimeError> {
        let (name, chat) = (&self.configured.name, ChatId::from(chat));
        if let Some(gateway) = &self.gateway
            && gateway
                .channels()
                .await?
                .iter()
                .any(|state| state.name == *name)
        {
            let entry = gateway.test_channel(name, &chat, TEXT.to_owned()).await?;
            return Ok(TestOutcome::ByGateway(Box::new(entry)));
        }
        Ok(match send(&*self.channel, &chat).await {
            Ok(()) => TestOutcome::Sent,
            Err(error @ ChannelError::Unavailable(_)) => {
                TestOutcome::Unavailable(error.to_string())
            }
            Err(error) => TestOutcome::Refused(error.to_string()),
        })
    }
}

/// Finds a configured channel by its name.
pub(super) fn find(runtime: &Runtime, name: &str) -> Result<ConfiguredChannel, RuntimeError> {
    let all = configured_channels(runtime)?;
    let known = all
        .iter()
        .map(|configured| configured.name.to_string())
        .collect::<Vec<_>>();
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let missing = || RuntimeError::NoChannel {
        name: ChannelName::from(name),
        known,
    };
    all.into_iter()
        .find(|configured| configured.name.as_str() == name)
        .ok_or_else(missing)
}

async fn send(channel: &dyn Channel, chat: &ChatId) -> Result<(), ChannelError> {
    let address = ChatAddress::new(channel.name().clone(), chat.clone());
    let key = OutboundKey::new(
        format!("test {}", uuid::Uuid::new_v4()),
        OutboundSlot::Reply,
    );
    let message = Arc::new(OutboundMessage::to(
        address,
        key,
        OutboundKind::Notice,
        TEXT.to_owned(),
    ));
    let rendered = render(TEXT, channel.text_style());
    let count = u32::try_from(rendered.len()).unwrap_or(u32::MAX);
    for (index, part) in (0..count).zip(rendered) {
        let message = Arc::clone(&message);
        let RenderedPart {
            text,
            plain,
            blocks,
        } = part;
        channel
            .send(&OutboundPart {
                message,
                index,
                count,
                text,
                plain,
                blocks,
                in_doubt: false,
            })
            .await?;
    }
    Ok(())
}
