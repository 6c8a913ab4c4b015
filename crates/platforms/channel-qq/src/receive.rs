//! Receives: what is done with the messages of the gateway.
//!
//! A message counts as stored when it is, whatever became of its connection. A message that cannot
//! be stored at the moment is kept and offered again here; the session does not advance past it.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::Rejection;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::PushPlatform;

use crate::candidate::message_candidate;
use crate::channel::Qq;
use crate::socket::{QqConnection, ReceivedMessage};
use crate::wire::Message;

impl PushPlatform for Qq {
    const NAME: &'static str = "QQ";
    type Connection = QqConnection;

    async fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<QqConnection, ChannelError> {
        QqConnection::open(self, context).await
    }

    fn renew(&self) {
        self.api.renew();
    }

    fn lane(&self, message: &ReceivedMessage) -> String {
        message.origin.chat.clone()
    }

    async fn handle(&self, message: ReceivedMessage, context: &ChannelContext) -> ((), Next) {
        let next = self.handle_message(&message, context).await;
        if next == Next::Confirm {
            self.cursor.update(|cursor| cursor.store(message.number));
        }
        ((), next)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }
}

impl Qq {
    /// Handles a message, which is parsed after its attempt was noted.
    async fn handle_message(&self, message: &ReceivedMessage, context: &ChannelContext) -> Next {
        let ReceivedMessage {
            kind,
            origin,
            payload,
            ..
        } = message;
        let quarantine = &self.base.quarantine;
        let progress = context.progress.as_ref();
        let admitted = quarantine
            .admit(&origin.key, payload.as_bytes(), progress)
            .await;
        let Some(handling) = admitted else {
            return Next::Confirm;
        };
        let message: Result<Message, _> = json::from_str(payload);
        let candidate = match &message {
            Ok(message) => message_candidate(*kind, message),
            Err(error) => {
                let channel = &self.base.name;
                tracing::warn!(%channel, %error, "a message could not be read and was passed over");
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
