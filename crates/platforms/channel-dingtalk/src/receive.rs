//! Receives: keeps a connection, and acknowledges messages after they are stored.
//!
//! DingTalk sends a message again that is not acknowledged, over the same connection or another
//! one. It is recognised by its id. A message that cannot be stored at the moment is kept and
//! offered again here, so that it does not depend on the number of DingTalk's attempts.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::Rejection;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::PushPlatform;

use crate::candidate::message_candidate;
use crate::channel::DingTalk;
use crate::error::required_call_error;
use crate::socket::{ReceivedMessage, Socket};
use crate::wire::BotMessage;

impl PushPlatform for DingTalk {
    const NAME: &'static str = "DingTalk";
    type Connection = Socket;

    async fn connect(self: &Arc<Self>, _context: &ChannelContext) -> Result<Socket, ChannelError> {
        Socket::open(&self.api).await.map_err(required_call_error)
    }

    fn renew(&self) {
        self.api.renew();
    }

    fn lane(&self, message: &ReceivedMessage) -> String {
        message.origin.chat.clone()
    }

    async fn handle(&self, message: ReceivedMessage, context: &ChannelContext) -> (String, Next) {
        let next = self.handle_message(&message, context).await;
        (message.id, next)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }
}

impl DingTalk {
    /// Handles a message, which is parsed after its attempt was noted.
    async fn handle_message(&self, message: &ReceivedMessage, context: &ChannelContext) -> Next {
        let quarantine = &self.base.quarantine;
        let progress = context.progress.as_ref();
        let (key, payload) = (&message.origin.key, &message.payload);
        let admitted = quarantine.admit(key, payload.as_bytes(), progress).await;
        let Some(handling) = admitted else {
            return Next::Confirm;
        };
        let message: Result<BotMessage, _> = json::from_str(payload);
        let candidate = match &message {
            Ok(message) => message_candidate(self.base.name.as_str(), &self.config, message),
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "a message could not be read and was passed over");
                None
            }
        };
        match candidate {
            Some(candidate) => self.handle_candidate(candidate, handling, context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }
}
