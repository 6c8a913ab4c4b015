//! Beacon as a [`Platform`].

use std::sync::Arc;

use nanobot_channel::{
    ChannelContext, ChannelError, DeliveryGuarantee, Format, Measure, MessageId, OutboundPart,
    PlainText, Sent, TextStyle,
};
use nanobot_channel_kit::upload::file_name;
use nanobot_channel_kit::{ChannelBase, NoDraft, Platform, PlatformChannel, PlatformFactory};
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::config::BeaconConfig;
use crate::error::CallError;

/// An account on Beacon, created by [`BeaconFactory`].
pub type BeaconChannel = PlatformChannel<Beacon>;

/// Creates [`BeaconChannel`]s.
pub type BeaconFactory = PlatformFactory<Beacon>;

/// The platform of a [`BeaconChannel`].
#[derive(Debug)]
pub struct Beacon {
    pub(crate) base: ChannelBase<()>,
    pub(crate) api: Api,
}

impl Platform for Beacon {
    type Config = BeaconConfig;
    type Draft = NoDraft;
    const KIND: &'static str = "beacon";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&PlainText),
        measure: Measure::CodePoints,
        limit: 2000,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Idempotent { window: None };

    fn new(
        base: ChannelBase<()>,
        config: BeaconConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Api::new(&config, shared_proxy)?;
        Ok(Self { base, api })
    }

    fn base(&self) -> &ChannelBase<()> {
        &self.base
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        self.receive_messages(context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let (room, key) = (part.message.chat_id.as_str(), part.idempotency_key());
        let mut message_id = None;
        if part.index == 0 {
            // Beacon takes no files from bots; people at least learn their names.
            for (index, file) in part.message.media.iter().enumerate() {
                let text = format!("[attachment: {} - not supported]", file_name(file));
                let key = format!("{key}/file/{index}");
                message_id = Some(self.post(room, &key, &text).await?);
            }
        }
        // A message may consist of files alone.
        if !part.text.trim().is_empty() {
            message_id = Some(self.post(room, &key, &part.text).await?);
        }
        Ok(Sent { message_id })
    }

    async fn account(&self) -> Result<String, ChannelError> {
        #[derive(Deserialize)]
        struct Account {
            name: String,
        }
        let account = self.api.call("v1/me", &json!({})).await;
        let account: Account = account.map_err(CallError::repeatable)?;
        Ok(account.name)
    }
}

impl Beacon {
    /// Sends a text. Beacon drops a second one with the same key.
    pub(crate) async fn post(
        &self,
        room: &str,
        key: &str,
        text: &str,
    ) -> Result<MessageId, CallError> {
        #[derive(Deserialize)]
        struct Posted {
            id: String,
        }
        let body = json!({"room": room, "key": key, "text": text});
        let posted: Posted = self.api.call("v1/send", &body).await?;
        Ok(posted.id.into())
    }
}
