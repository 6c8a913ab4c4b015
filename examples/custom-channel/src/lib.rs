//! A chat platform of a third party, written against `nanobot-channel` alone.
//!
//! The platform is made up, but the channel is complete. The relay is a server that speaks one JSON
//! object per line. The channel first sends `{"token": …}`. The relay then sends a user's messages,
//! `{"id": …, "sender": …, "text": …}`, and repeats each until it receives `{"ack": id}`. The
//! channel sends `{"to": …, "key": …, "text": …}`. The relay answers with `{"taken": key}` or
//! `{"refused": key, "why": …}` and shows the text once per key, however often it is sent. From
//! time to time the relay sends `{"ping": number}`. If it does not accept the token, it sends
//! `{"denied": why}`. Texts have a markup of their own: `*bold*` and `_italic_` ([`RelayMarkup`]).
//!
//! Decision: one task owns the connection. [`Channel::send`] hands it a line and waits for the
//! relay's answer. No lock is needed around the socket, and a broken connection completes all
//! pending sends.

mod config;
mod link;
mod markup;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelFactory, ChannelName, DeliveryGuarantee, Format,
    Measure, OutboundPart, RawConfig, Sent, TextStyle, Value, async_trait,
};
use tokio::sync::{mpsc, oneshot};

use config::RelayConfig;
use link::{Link, Parcel};

pub use markup::RelayMarkup;

/// Capacity of the queue of parts to write. The assistant sends one at a time, so a few are enough.
const WAITING_PARTS: usize = 4;

/// A connection to one relay.
#[derive(Debug)]
pub struct RelayChannel {
    name: ChannelName,
    config: RelayConfig,
    /// Sender of parts to the connection, while there is one.
    outgoing: Mutex<Option<mpsc::Sender<Parcel>>>,
}

impl RelayChannel {
    fn connect_outgoing(&self, sender: Option<mpsc::Sender<Parcel>>) {
        *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }

    fn outgoing(&self) -> Option<mpsc::Sender<Parcel>> {
        self.outgoing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl Channel for RelayChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        let cancel = context.cancel.clone();
        let (sender, parcels) = mpsc::channel(WAITING_PARTS);
        let working = async {
            let link = Link::open(self.name.clone(), &self.config, context, parcels).await?;
            self.connect_outgoing(Some(sender));
            link.run().await
        };
        // `None` means that the channel was asked to stop, which is not an error.
        let ended = cancel.run_until_cancelled(working).await;
        self.connect_outgoing(None);
        ended.unwrap_or(Ok(()))
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let not_connected = || ChannelError::Unavailable("not connected to the relay".to_owned());
        let outgoing = self.outgoing().ok_or_else(not_connected)?;
        let (done, answer) = oneshot::channel();
        let parcel = Parcel {
            to: part.message.chat_id.clone(),
            key: part.idempotency_key(),
            text: part.text.clone(),
            done,
        };
        outgoing
            .send(parcel)
            .await
            .map_err(|_parcel| not_connected())?;
        // If the connection broke after the part was sent, the part may have arrived.
        let lost = || ChannelError::Ambiguous("the connection to the relay broke".to_owned());
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::Idempotent { window: None }
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&RelayMarkup),
            measure: Measure::CodePoints,
            limit: 2000,
        }
    }
}

/// Creates relay channels.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayFactory;

impl ChannelFactory for RelayFactory {
    fn kind(&self) -> &'static str {
        "relay"
    }

    fn default_config(&self) -> Value {
        RelayConfig::template()
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let config = RelayConfig::parse(&config.section)?;
        Ok(Arc::new(RelayChannel {
            name,
            config,
            outgoing: Mutex::new(None),
        }))
    }
}
