//! Receives: keeps a connection, and acknowledges events after they are stored.
//!
//! Feishu sends an event without an acknowledgement again, after seconds at first and after hours
//! at last. It is recognised then. A message that cannot be stored now is kept and offered again
//! here, so that it does not depend on the number of Feishu's attempts.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::PushPlatform;
use nanobot_channel_kit::{Platform as _, Rejection};
use reqwest::Method;
use serde::Deserialize;

use crate::api::{Body, Endpoint};
use crate::candidate::{CandidateMessage, Identity, message_candidate};
use crate::channel::Feishu;
use crate::error::{CallError, required_call_error};
use crate::socket::{FrameReceipt, ReceivedEvent, Socket};
use crate::wire::{CARD_EVENT, Event, MESSAGE_EVENT};

impl PushPlatform for Feishu {
    const NAME: &'static str = "Feishu";
    type Connection = Socket;

    /// Asks for the bot's identity, each time because secrets can be reset, and opens a connection.
    async fn connect(self: &Arc<Self>, _context: &ChannelContext) -> Result<Socket, ChannelError> {
        let opened = async {
            let me = self.identify().await?;
            Socket::open(&self.api, me).await
        };
        opened.await.map_err(required_call_error)
    }

    fn renew(&self) {
        self.api.rest.renew();
    }

    async fn connected(
        self: &Arc<Self>,
        socket: &mut Socket,
        is_first: bool,
        context: &ChannelContext,
    ) {
        if is_first {
            self.recover_drafts(&socket.me.bot, context).await;
        }
    }

    fn lane(&self, event: &ReceivedEvent) -> String {
        event.origin.chat.clone()
    }

    async fn handle(&self, event: ReceivedEvent, context: &ChannelContext) -> (FrameReceipt, Next) {
        let next = self.handle_event(&event, context).await;
        (event.receipt, next)
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }
}

impl Feishu {
    /// Asks Feishu for the bot's identity.
    pub(crate) async fn identify(&self) -> Result<Identity, CallError> {
        #[derive(Deserialize)]
        struct Answer {
            bot: Bot,
        }
        #[derive(Deserialize)]
        struct Bot {
            open_id: String,
            #[serde(default)]
            app_name: String,
        }
        let endpoint = Endpoint::new(Method::GET, ["bot", "v3", "info"]);
        let Answer { bot } = self.api.whole(&endpoint, Body::Empty).await?;
        Ok(Identity {
            bot: bot.open_id,
            name: bot.app_name,
        })
    }

    /// Handles an event, which is parsed after its attempt was noted.
    async fn handle_event(&self, event: &ReceivedEvent, context: &ChannelContext) -> Next {
        let ReceivedEvent {
            me,
            origin,
            payload,
            ..
        } = event;
        if ![MESSAGE_EVENT, CARD_EVENT].contains(&origin.kind.as_str()) {
            tracing::debug!(channel = %self.base.name, kind = origin.kind, "an event was passed over");
            return Next::Confirm;
        }
        let progress = context.progress.as_ref();
        let quarantine = &self.base.quarantine;
        let Some(handling) = quarantine.admit(&origin.key, payload, progress).await else {
            return Next::Confirm;
        };
        match self.parse_event(me, &origin.kind, payload) {
            Ok(Some(candidate)) => self.handle_candidate(candidate, handling, context).await,
            Ok(None) => {
                handling.end().await;
                Next::Confirm
            }
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, kind = origin.kind, "an event could not be read and was passed over");
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Returns the candidate of an event. `None` if there is nothing to do.
    fn parse_event(
        &self,
        me: &Identity,
        kind: &str,
        payload: &[u8],
    ) -> Result<Option<CandidateMessage>, serde_json::Error> {
        let name = self.base.name.as_str();
        if kind == CARD_EVENT {
            let Event { header, event } = json::from_slice(payload)?;
            return Ok(crate::interaction::press_candidate(
                name,
                &self.config,
                header.event_id,
                event,
            ));
        }
        let Event { event, .. } = json::from_slice(payload)?;
        Ok(message_candidate(name, &self.config, me, event))
    }
}
