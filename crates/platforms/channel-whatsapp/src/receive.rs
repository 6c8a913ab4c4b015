//! WhatsApp as a platform that pushes.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::Rejection;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::PushPlatform;

use crate::candidate::message_candidate;
use crate::channel::WhatsApp;
use crate::connection::{BridgeConnection, MessageEvent};
use crate::handshake::{self, HandshakeError};
use crate::own_bridge::start_error;
use crate::wire::text;

/// The advice if there is neither an installed bridge nor another one.
const NOT_INSTALLED: &str = "no bridge is installed, and none is running at bridgeUrl: `nanobot \
                             channels login whatsapp` installs one";

impl PushPlatform for WhatsApp {
    const NAME: &'static str = "the WhatsApp bridge";
    type Connection = BridgeConnection;

    async fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<BridgeConnection, ChannelError> {
        self.update_bridge().await.map_err(start_error)?;
        let bridge = self.start_bridge().await.map_err(start_error)?;
        let address = self.address(bridge.as_ref());
        let opened = handshake::open(&self.client.rest, &address, self.client.timeout()).await;
        match opened {
            Ok(open) => {
                Box::pin(BridgeConnection::begin(
                    self.services(),
                    open,
                    bridge,
                    context,
                ))
                .await
            }
            Err(error) => {
                let is_missing = self.own.is_some() && bridge.is_none();
                if let Some(bridge) = bridge {
                    bridge.stop().await;
                }
                Err(connection_error(error, is_missing))
            }
        }
    }

    fn lane(&self, event: &MessageEvent) -> String {
        text(&event.body, "sender").to_owned()
    }

    async fn handle(&self, event: MessageEvent, context: &ChannelContext) -> (Option<u64>, Next) {
        let next = self.handle_message(&event, context).await;
        (event.seq(), next)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }

    /// A bridge of version 1 knows no confirmations.
    fn repeats_unconfirmed(&self) -> bool {
        !self.client.is_version_1()
    }
}

/// Returns the failure of a connection. `is_missing` is `true` if nanobot would start a bridge, and
/// none is installed.
pub(crate) fn connection_error(error: HandshakeError, is_missing: bool) -> ChannelError {
    match error {
        HandshakeError::Unreachable(_) if is_missing => {
            ChannelError::Unavailable(NOT_INSTALLED.to_owned())
        }
        error => error.into(),
    }
}

impl WhatsApp {
    /// Handles a message, whose content is read after its attempt was noted.
    async fn handle_message(&self, event: &MessageEvent, context: &ChannelContext) -> Next {
        let (quarantine, progress) = (&self.base.quarantine, context.progress.as_ref());
        let payload = event.body.to_string();
        let id = text(&event.body, "id");
        let key = if id.is_empty() { &payload } else { id };
        let admitted = quarantine.admit(key, payload.as_bytes(), progress).await;
        let Some(handling) = admitted else {
            return Next::Confirm;
        };
        let account = self.client.account();
        let Some(candidate) = message_candidate(&event.body, event.version, &account) else {
            let channel = &self.base.name;
            tracing::warn!(%channel, "a message could not be read and was passed over");
            handling.end().await;
            return Next::Confirm;
        };
        self.handle_candidate(candidate, handling, context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_bridge_is_named_with_its_remedy() {
        let refused = || HandshakeError::Unreachable("connection refused".to_owned());
        let missing = connection_error(refused(), true).to_string();
        assert!(
            missing.contains("`nanobot channels login whatsapp` installs one"),
            "{missing}"
        );
        let stopped = connection_error(refused(), false).to_string();
        assert!(stopped.contains("connection refused"), "{stopped}");
    }
}
