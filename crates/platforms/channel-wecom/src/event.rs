//! Events: people who open the chat.
//!
//! Other events are ignored: cards and requests for feedback are never sent, and the takeover by
//! another connection ends this one.

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::has_access;
use serde_json::json;

use crate::candidate::Place;
use crate::channel::WeCom;
use crate::frame::{Callback, event_type};
use crate::wire::CallbackHead;

impl WeCom {
    /// Handles an event. WeCom takes the answer within five seconds.
    pub(crate) async fn handle_event(&self, callback: &Callback, context: &ChannelContext) {
        let welcome = &self.config.welcome_message;
        if event_type(&callback.body) != Some("enter_chat") || welcome.is_empty() {
            return;
        }
        let Some(place) = Place::of(&CallbackHead::read(&callback.body)) else {
            return;
        };
        let Place {
            sender,
            chat,
            arrival,
        } = &place;
        let greet = |text| self.welcome(&callback.req_id, text);
        if has_access(context, sender, chat, arrival, greet).await {
            self.welcome(&callback.req_id, welcome.clone()).await;
        }
    }

    async fn welcome(&self, req_id: &str, text: String) {
        let body = json!({"msgtype": "text", "text": {"content": text}});
        let cmd = "aibot_respond_welcome_msg";
        if let Err(error) = self.gateway.reply(cmd, req_id, body).await {
            tracing::warn!(channel = %self.base.name, %error, "a welcome could not be sent");
        }
    }
}
