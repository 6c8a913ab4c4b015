//! The connection to the bridge: a task that owns the socket, and the events that come out of it.
//!
//! Decision: a task of its own, because it serves sends and files, too. It writes requests whatever
//! the receive loop is doing. While too many messages wait to be handled, nothing more is read, and
//! no answer counts as missing. Because version 1 repeats nothing, the end of a connection is
//! reported after every message that it brought. The bridge that nanobot started belongs to the
//! task, so the two end together.

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
            let end = tokio::select! {
                () = cancel.cancelled() => None,
                () = events.closed() => None,
                end = task.serve(queue, &events) => end.err(),
            };
            let held = std::mem::take(&mut task.held);
            task.stop().await;
            if let Some(end) = end {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = report(held, end, &events) => {}
                }
            }
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
    async fn stop(self) {
        drop((self.socket, self.exchange));
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
                // In this order, so that what is at hand is read before an answer counts as missing.
                biased;
                permit = events.reserve(), if is_full => {
                    let permit = permit.map_err(|_closed| "no one reads it".to_owned())?;
                    if let Some(event) = self.held.pop_front() {
                        permit.send(Ok(Pushed::Event(event)));
                    }
                }
                Some(request) = queue.recv() => {
                    let waiting = std::iter::from_fn(|| queue.try_recv().ok()).take(MAX_REQUESTS);
                    let requests = std::iter::once(request).chain(waiting);
                    let submit = |request| self.exchange.submit(request, Instant::now());
                    let frames: Vec<_> = requests.filter_map(submit).collect();
                    self.socket.send_all(frames).await?;
                }
                incoming = self.socket.next(), if !is_full => self.heard(incoming?, events).await?,
                () = at(self.exchange.deadline()), if !is_full => {
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

/// Hands over the messages that a connection still held, and then its end.
async fn report(held: VecDeque<MessageEvent>, end: PushEnd, events: &mpsc::Sender<Event>) {
    let messages = held.into_iter().map(|message| Ok(Pushed::Event(message)));
    for event in messages.chain([Err(end)]) {
        if events.send(event).await.is_err() {
            tracing::trace!("no one waits for the end of a connection");
            return;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nanobot_channel_whatsapp_fake::{Incoming, Person, TOKEN, WhatsAppFake};
    use nanobot_testkit::Assistant;

    use super::*;
    use crate::handshake::{self, BridgeAddress};
    use crate::{Secret, WhatsAppConfig};

    /// A bridge of version 1 and a connection to it, which nothing reads but the test.
    struct Bench {
        fake: WhatsAppFake,
        client: Arc<Client>,
        connection: BridgeConnection,
    }

    fn ann() -> Person {
        Person::new("4915111111111", "Ann")
    }

    impl Bench {
        /// Connects. The first message comes before the bridge is known to speak version 1.
        async fn new() -> Self {
            let fake = WhatsAppFake::start_version_1().await.unwrap();
            fake.add_person(&ann());
            let section = json!({"bridgeUrl": fake.url(), "bridgeToken": TOKEN});
            let config = WhatsAppConfig::from_section(&section).unwrap();
            let client = Arc::new(Client::new(&config).unwrap());
            let address = BridgeAddress {
                url: fake.url(),
                token: Secret::new(TOKEN),
                is_own: false,
            };
            let push = async {
                fake.wait_for_admitted(1).await.unwrap();
                fake.push(Incoming::direct(&ann(), "early"));
            };
            let opening = handshake::open(&client.rest, &address, client.timeout());
            let (open, ()) = tokio::join!(opening, push);
            let services = Services {
                client: Arc::clone(&client),
                trouble: Arc::default(),
                own: None,
            };
            let context = Arc::new(Assistant::new("-")).context();
            let begun = BridgeConnection::begin(services, open.unwrap(), None, &context);
            let connection = begun.await.unwrap();
            Self {
                fake,
                client,
                connection,
            }
        }

        /// Pushes messages, and waits until there is no more room for any.
        async fn fill(&self, count: usize) {
            for number in 0..count {
                let text = number.to_string();
                self.fake.push(Incoming::direct(&ann(), &text));
            }
            while self.connection.events.len() < MAX_EVENTS {
                assert!(!self.connection.events.is_closed(), "it is over");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        /// Returns the texts of the next messages, at most so many, and the reason if the
        /// connection ends before.
        async fn receive(&mut self, count: usize) -> (Vec<String>, Option<String>) {
            let mut received = Vec::new();
            while received.len() < count {
                match self.connection.next().await {
                    Ok(Pushed::Event(event)) => {
                        received.push(crate::wire::text(&event.body, "content").to_owned());
                    }
                    Ok(_) => {}
                    Err(PushEnd::Lost(why)) => return (received, Some(why)),
                    Err(PushEnd::Final(error)) => panic!("{error}"),
                }
            }
            (received, None)
        }
    }

    fn texts(first: Option<&str>, count: usize) -> Vec<String> {
        let first = first.map(str::to_owned).into_iter();
        first
            .chain((0..count).map(|number| number.to_string()))
            .collect()
    }

    async fn pass(time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
        // The connection notices it.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    #[tokio::test]
    async fn connection_is_kept_while_messages_wait() {
        let mut bench = Bench::new().await;
        // One message more than there is room for, and nothing after it.
        bench.fill(MAX_EVENTS).await;
        pass(Duration::from_mins(10)).await;
        let received = bench.receive(MAX_EVENTS + 1).await;
        assert_eq!(received, (texts(Some("early"), MAX_EVENTS), None));
        // An answer comes after messages that are not read yet.
        let count = MAX_EVENTS + 10;
        bench.fill(count).await;
        let send = json!({"type": "send", "to": ann().direct(), "text": "hello"});
        let late = async {
            bench.fake.wait_for_sent(1).await.unwrap();
            pass(bench.client.timeout() * 2).await;
        };
        let (sent, ()) = tokio::join!(bench.client.call(send), late);
        assert!(sent.unwrap_err().is_ambiguous());
        assert_eq!(bench.receive(count).await, (texts(None, count), None));
        bench.fake.push(Incoming::direct(&ann(), "last"));
        assert_eq!(bench.receive(1).await, (vec!["last".to_owned()], None));
    }

    #[tokio::test]
    async fn held_messages_precede_the_end_of_a_connection() {
        let mut bench = Bench::new().await;
        bench.fill(MAX_EVENTS).await;
        // Nothing is read: the connection is lost when a frame cannot be written.
        bench.fake.cut();
        let frame = || Request::unanswered(json!({"type": "x"}));
        while bench.connection.requests.send(frame()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (received, end) = bench.receive(MAX_EVENTS + 2).await;
        assert_eq!(received, texts(Some("early"), MAX_EVENTS));
        assert!(end.unwrap().starts_with("it broke"));
    }
}
