//! WeCom as a platform that pushes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::PushPlatform;
use nanobot_channel_kit::{Platform as _, Rejection};

use crate::candidate::message_candidate;
use crate::channel::WeCom;
use crate::connection::Connection;
use crate::frame::{Callback, EVENT};
use crate::wire::CallbackHead;

impl PushPlatform for WeCom {
    const NAME: &'static str = "WeCom";
    type Connection = Connection;

    async fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<Connection, ChannelError> {
        let opened = Connection::open(&self.gateway, &self.streams, context).await;
        if let Err(error) = &opened {
            self.gateway.observe(error);
        }
        let connection = opened?;
        // Orphans are finished through the connection, so there has to be one.
        let is_first = !self.is_recovered.swap(true, Ordering::Relaxed);
        if is_first && self.config.streaming {
            self.recover_drafts(&self.config.bot_id, context).await;
        }
        Ok(connection)
    }

    fn lane(&self, callback: &Callback) -> String {
        CallbackHead::read(&callback.body).lane()
    }

    async fn handle(&self, callback: Callback, context: &ChannelContext) -> ((), Next) {
        if callback.cmd == EVENT {
            self.handle_event(&callback, context).await;
            return ((), Next::Confirm);
        }
        ((), self.handle_message(&callback, context).await)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }

    fn repeats_unconfirmed(&self) -> bool {
        false
    }
}

impl WeCom {
    /// Handles a message, whose content is read after its attempt was noted.
    async fn handle_message(&self, callback: &Callback, context: &ChannelContext) -> Next {
        let (quarantine, progress) = (&self.base.quarantine, context.progress.as_ref());
        let payload = callback.body.to_string();
        let id = CallbackHead::read(&callback.body).msgid;
        let key = if id.is_empty() { &payload } else { &id };
        let admitted = quarantine.admit(key, payload.as_bytes(), progress).await;
        let Some(handling) = admitted else {
            return Next::Confirm;
        };
        let Some(candidate) = message_candidate(callback) else {
            let channel = &self.base.name;
            tracing::warn!(%channel, "a message could not be read and was passed over");
            handling.end().await;
            return Next::Confirm;
        };
        self.handle_candidate(candidate, handling, context).await
    }
}
