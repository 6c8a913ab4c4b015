//! The connection to the bridge: a task that owns the socket, and the events that come out of it.
//!
//! Decision: a task of its own, because it serves sends and files, too. It writes requests whatever
//! the receive loop is doing. While too many messages wait to be handled, nothing more is read. The
//! bridge that nanobot started belongs to the task, so the two end together.

use std::collections::VecDeque;
use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, Value};
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{Trouble, WebSocket};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::client::Client;
use crate::exchange::Exchange;
use crate::frame::{Frame, Version};
use crate::handshake::{OpenBridge, closing_reason};
use crate::own_bridge::{OwnBridge, StartedBridge, ended};
use crate::request::Request;
use crate::state::State;
use crate::wire::number;

/// Events that wait for the receive loop.
const MAX_EVENTS: usize = 64;
/// Requests that wait for the connection.
const MAX_REQUESTS: usize = 64;
/// The reason for a bridge of version 1 without a device.
const SHOWS_CODE: &str = "no device is linked: scan the code that the bridge shows";

/// A message from the bridge.
#[derive(Debug)]
pub struct MessageEvent {
    pub(crate) body: Value,
    pub(crate) version: Version,
}

impl MessageEvent {
    /// Returns the number by which the bridge repeats the message until it is confirmed.
    pub(crate) fn seq(&self) -> Option<u64> {
        number(&self.body, "seq").filter(|_| self.version == Version::Two)
    }
}

type Event = Result<Pushed<MessageEvent>, PushEnd>;

/// The receiving end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct BridgeConnection {
    events: mpsc::Receiver<Event>,
    requests: mpsc::Sender<Request>,
}

impl BridgeConnection {
    /// Makes an open connection the current one of the client, and begins to serve it.
    ///
    /// # Errors
    /// The reason why the device cannot be used.
    pub(crate) async fn begin(
        services: Services,
        open: OpenBridge,
        bridge: Option<StartedBridge>,
        context: &ChannelContext,
    ) -> Result<Self, ChannelError> {
        let OpenBridge {
            socket,
            version,
            first,
        } = open;
        let (requests, queue) = mpsc::channel(MAX_REQUESTS);
        let (events, receiver) = mpsc::channel(MAX_EVENTS);
        services.client.connected(requests.clone(), version);
        let mut task = ConnectionTask {
            exchange: Exchange::new(version, services.client.timeout()),
            services,
            version,
            socket,
            held: VecDeque::new(),
            bridge,
        };
        let begun = match first {
            Some(frame) => task.handle(frame).await,
            None => Ok(()),
        };
        if let Err(end) = begun {
            task.stop().await;
            return Err(match end {
                PushEnd::Lost(why) => ChannelError::Unavailable(why),
                PushEnd::Final(error) => error,
            });
        }
        let cancel = context.cancel.clone();
        context.tasks.spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = events.closed() => {}
                () = task.run(queue, &events) => {}
            }
            drop(events);
            task.stop().await;
        });
        Ok(Self {
            events: receiver,
            requests,
        })
    }
}

impl PushConnection for BridgeConnection {
    type Event = MessageEvent;
    type Receipt = Option<u64>;

    async fn next(&mut self) -> Result<Pushed<MessageEvent>, PushEnd> {
        let ended = || Err(PushEnd::Lost("it is over".to_owned()));
        self.events.recv().await.unwrap_or_else(ended)
    }

    /// Tells the bridge that messages are stored. Version 1 repeats nothing.
    async fn confirm(&mut self, numbers: Vec<Option<u64>>) -> Result<(), PushEnd> {
        let numbers: Vec<u64> = numbers.into_iter().flatten().collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let ack = Request::unanswered(json!({"type": "ack", "seq": numbers}));
        let sent = self.requests.send(ack).await;
        sent.map_err(|_closed| PushEnd::Lost("it is over".to_owned()))
    }
}

/// The parts of the channel that a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) client: Arc<Client>,
    pub(crate) trouble: Arc<Trouble>,
    /// The place of the bridge that nanobot starts.
    pub(crate) own: Option<OwnBridge>,
}

/// The task of a connection.
#[derive(Debug)]
struct ConnectionTask {
    services: Services,
    version: Version,
    socket: WebSocket,
    exchange: Exchange,
    /// Messages for which there is no room.
    held: VecDeque<MessageEvent>,
    bridge: Option<StartedBridge>,
}

impl ConnectionTask {
    /// Serves the connection until it ends, and reports the end.
    async fn run(&mut self, queue: mpsc::Receiver<Request>, events: &mpsc::Sender<Event>) {
        let Err(end) = self.serve(queue, events).await;
        if events.send(Err(end)).await.is_err() {
            tracing::trace!("no one waits for the end of a connection");
        }
    }

    async fn stop(self) {
        drop(self.socket);
        if let Some(bridge) = self.bridge {
            bridge.stop().await;
        }
    }

    async fn serve(
        &mut self,
        mut queue: mpsc::Receiver<Request>,
        events: &mpsc::Sender<Event>,
    ) -> Result<std::convert::Infallible, PushEnd> {
        loop {
            let is_full = !self.held.is_empty();
            tokio::select! {
                permit = events.reserve(), if is_full => {
                    if let (Ok(permit), Some(event)) = (permit, self.held.pop_front()) {
                        permit.send(Ok(Pushed::Event(event)));
                    }
                }
                incoming = self.socket.next(), if !is_full => self.heard(incoming?, events).await?,
                Some(request) = queue.recv() => {
                    let waiting = std::iter::from_fn(|| queue.try_recv().ok()).take(MAX_REQUESTS);
                    let requests = std::iter::once(request).chain(waiting);
                    let submit = |request| self.exchange.submit(request, Instant::now());
                    let frames: Vec<_> = requests.filter_map(submit).collect();
                    self.socket.send_all(frames).await?;
                }
                () = at(self.exchange.deadline()) => {
                    let why = "the bridge did not answer in time";
                    return Err(PushEnd::Lost(why.to_owned()));
                }
                why = ended(self.bridge.as_mut()) => return Err(PushEnd::Lost(why)),
            }
        }
    }

    async fn heard(
        &mut self,
        incoming: Incoming,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), PushEnd> {
        match incoming {
            Incoming::Text(text) => {
                let frame = Frame::parse(&text)?;
                let is_report = matches!(frame, Frame::Ready(_) | Frame::Status(_));
                self.handle(frame).await?;
                if is_report {
                    show_activity(events);
                }
                Ok(())
            }
            Incoming::Control => {
                show_activity(events);
                Ok(())
            }
            Incoming::Binary(_) => Err(PushEnd::Lost("the bridge sent a binary frame".to_owned())),
            Incoming::Closed(close) => {
                let reason = close.and_then(|(code, _)| closing_reason(code));
                let closed = || PushEnd::Lost("the bridge closed it".to_owned());
                Err(reason.map_or_else(closed, |reason| PushEnd::Final(reason.into())))
            }
        }
    }

    async fn handle(&mut self, frame: Frame) -> Result<(), PushEnd> {
        match frame {
            // A bridge that took too long to be recognised as one of version 2.
            Frame::Ready(_) if self.version == Version::One => {
                Err(PushEnd::Lost("the bridge was ready too late".to_owned()))
            }
            Frame::Ready(state) | Frame::Status(state) => self.report(&state).await,
            Frame::Code(_) if self.version == Version::One => {
                self.services.trouble.set(Some(SHOWS_CODE.to_owned()));
                Ok(())
            }
            Frame::Message(body) => {
                if let Some(lost) = number(&body, "lost").filter(|lost| *lost > 0) {
                    tracing::error!(lost, "the bridge dropped messages that were not confirmed");
                }
                let version = self.version;
                self.held.push_back(MessageEvent { body, version });
                Ok(())
            }
            Frame::Answer(answer) => {
                if answer.is_error && answer.request_id.is_none() {
                    tracing::warn!("the bridge reported an error of no request");
                }
                let frame = self.exchange.answered(answer, Instant::now());
                self.write(frame).await
            }
            Frame::Code(_) | Frame::Other => Ok(()),
        }
    }

    async fn report(&mut self, state: &State) -> Result<(), PushEnd> {
        let Services {
            client,
            trouble,
            own,
        } = &self.services;
        client.update(state);
        if let Some(own) = own.as_ref().filter(|_| self.bridge.is_some()) {
            own.note(state).await;
        }
        let why = state.link.trouble().map_err(PushEnd::Final)?;
        trouble.set(why);
        Ok(())
    }

    async fn write(&mut self, frame: Option<String>) -> Result<(), PushEnd> {
        match frame {
            Some(frame) => Ok(self.socket.send(frame).await?),
            None => Ok(()),
        }
    }
}

/// Reports a sign of life, unless other events wait.
fn show_activity(events: &mpsc::Sender<Event>) {
    if events.try_send(Ok(Pushed::Activity)).is_err() {
        tracing::trace!("a sign of life was left out");
    }
}

/// Waits until this time; for ever for `None`.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
