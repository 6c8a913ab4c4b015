//! One connection to the relay, from the token until it is closed.

use std::collections::HashMap;

use futures_util::{SinkExt as _, StreamExt as _};
use nanobot_channel::{
    AccessDecision, Arrival, ChannelContext, ChannelError, ChannelName, ChatId, InboundMessage,
    Sent,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{Framed, LinesCodec};

use crate::config::RelayConfig;
use crate::wire::{FromRelay, ToRelay};

/// Maximum length of a line from the relay, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// A part to send, and the channel for its result.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) to: ChatId,
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) done: oneshot::Sender<Result<Sent, ChannelError>>,
}

pub(crate) struct Link {
    channel: ChannelName,
    context: ChannelContext,
    wire: Framed<TcpStream, LinesCodec>,
    parcels: mpsc::Receiver<Parcel>,
    /// Parts that the relay has not answered yet, by key.
    waiting: HashMap<String, oneshot::Sender<Result<Sent, ChannelError>>>,
}

fn unreachable(error: impl std::fmt::Display) -> ChannelError {
    ChannelError::Unavailable(error.to_string())
}

impl Link {
    pub(crate) async fn open(
        channel: ChannelName,
        config: &RelayConfig,
        context: ChannelContext,
        parcels: mpsc::Receiver<Parcel>,
    ) -> Result<Self, ChannelError> {
        let stream = TcpStream::connect(&config.server)
            .await
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let wire = Framed::new(stream, LinesCodec::new_with_max_length(LONGEST_LINE));
        let mut link = Self {
            channel,
            context,
            wire,
            parcels,
            waiting: HashMap::new(),
        };
        link.write(&ToRelay::Hello {
            token: &config.token,
        })
        .await?;
        Ok(link)
    }

    /// Transfers lines in both directions until the connection is closed.
    pub(crate) async fn run(mut self) -> Result<(), ChannelError> {
        loop {
            tokio::select! {
                line = self.wire.next() => match line {
                    Some(Ok(line)) => self.take(&line).await?,
                    Some(Err(error)) => return Err(unreachable(error)),
                    None => return Err(unreachable("the relay closed the connection")),
                },
                Some(parcel) = self.parcels.recv() => {
                    let Parcel { to, key, text, done } = parcel;
                    self.write(&ToRelay::Part { to: to.as_str(), key: &key, text: &text }).await?;
                    self.waiting.insert(key, done);
                }
            }
        }
    }

    async fn take(&mut self, line: &str) -> Result<(), ChannelError> {
        let Ok(said) = serde_json::from_str(line) else {
            self.context
                .progress
                .degraded("the relay sent a line that is not of its protocol");
            return Ok(());
        };
        // Every line from the relay is a sign of life.
        self.context.progress.alive();
        match said {
            FromRelay::Message { id, sender, text } => self.receive(&id, &sender, text).await,
            FromRelay::Taken { taken } => {
                self.settle(
                    &taken,
                    Ok(Sent {
                        message_id: Some(taken.as_str().into()),
                    }),
                );
                Ok(())
            }
            FromRelay::Refused { refused, why } => {
                self.settle(&refused, Err(ChannelError::Refused(why)));
                Ok(())
            }
            FromRelay::Ping { .. } => Ok(()),
            FromRelay::Denied { denied } => {
                Err(ChannelError::Auth(format!("{denied}; check the token")))
            }
        }
    }

    /// Every chat of the relay belongs to one user, so the sender identifies the chat.
    async fn receive(&mut self, id: &str, sender: &str, text: String) -> Result<(), ChannelError> {
        let message = InboundMessage {
            id: Some(id.into()),
            ..InboundMessage::text(self.channel.clone(), sender, sender, text)
        };
        let arrival = Arrival::direct();
        // Access is checked first: a sender without access must not notice anything.
        match self
            .context
            .access
            .check(&message.sender_id, &message.chat_id, &arrival)
            .await
        {
            AccessDecision::Allowed => {
                let admission = self.context.intake.deliver(message, &arrival).await;
                // Without an acknowledgement the relay sends the message again.
                if admission.acknowledges() {
                    self.write(&ToRelay::Ack { ack: id }).await
                } else {
                    Ok(())
                }
            }
            AccessDecision::Denied => self.write(&ToRelay::Ack { ack: id }).await,
            AccessDecision::Ask(question) => {
                let key = format!("access/{id}");
                self.write(&ToRelay::Part {
                    to: sender,
                    key: &key,
                    text: &question,
                })
                .await?;
                self.write(&ToRelay::Ack { ack: id }).await
            }
        }
    }

    fn settle(&mut self, key: &str, outcome: Result<Sent, ChannelError>) {
        let Some(done) = self.waiting.remove(key) else {
            return;
        };
        if done.send(outcome).is_err() {
            self.context
                .progress
                .degraded("the relay answered a part that is no longer pending");
        }
    }

    async fn write(&mut self, line: &ToRelay<'_>) -> Result<(), ChannelError> {
        let text = serde_json::to_string(line).map_err(unreachable)?;
        self.wire.send(text).await.map_err(unreachable)
    }
}
