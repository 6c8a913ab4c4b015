//! The long connection: a task that owns the socket, and the events that come out of it.
//!
//! Decision: a task of its own, because it serves sends, too. It writes commands and heartbeats
//! whatever the receive loop is doing, and a frame is never cut off in the middle. While too many
//! events wait to be handled, nothing more is read, and no answer counts as missing. Because
//! WeCom repeats nothing, the end of a connection is reported after every callback that it brought.

use std::collections::VecDeque;
use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError, Value};
use nanobot_channel_kit::WebSocket;
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};
use nanobot_channel_kit::websocket::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::command::Command;
use crate::error::{CallError, ends_subscription, subscription_error};
use crate::exchange::Exchange;
use crate::frame::{Callback, Frame, command};
use crate::gateway::Gateway;
use crate::heartbeat::Heartbeat;
use crate::turn_stream::TurnStreams;

/// Events that wait for the receive loop.
const MAX_EVENTS: usize = 64;
/// Commands that wait for the connection.
const MAX_COMMANDS: usize = 64;
/// Callbacks before the answer to the subscription.
const MAX_EARLY: usize = 64;

type Event = Result<Pushed<Callback>, PushEnd>;

/// The receiving end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Connection {
    events: mpsc::Receiver<Event>,
}

impl Connection {
    /// Opens and subscribes a connection, and makes it the current one of the gateway.
    ///
    /// # Errors
    /// [`ChannelError::Auth`] if the subscription is refused, else the reason for another attempt.
    pub(crate) async fn open(
        gateway: &Arc<Gateway>,
        streams: &Arc<TurnStreams>,
        context: &ChannelContext,
    ) -> Result<Self, ChannelError> {
        let socket = gateway.handshake().await.map_err(CallError::repeatable)?;
        let (commands, queue) = mpsc::channel(MAX_COMMANDS);
        let (events, receiver) = mpsc::channel(MAX_EVENTS);
        let mut task = ConnectionTask {
            gateway: Arc::clone(gateway),
            streams: Arc::clone(streams),
            number: 0,
            socket,
            exchange: Exchange::default(),
            heartbeat: Heartbeat::new(Instant::now()),
            held: VecDeque::new(),
        };
        let subscribed = tokio::time::timeout(gateway.timeout(), task.subscribe()).await;
        let silent = || CallError::Interrupted("WeCom did not answer the subscription".to_owned());
        subscribed
            .unwrap_or_else(|_| Err(silent()))
            .map_err(|error| subscription_error(gateway.scrubbed(error)))?;
        task.number = gateway.connected(commands);
        // WeCom has answered, and may send nothing for long.
        show_activity(&events);
        let cancel = context.cancel.clone();
        context.tasks.spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = events.closed() => {}
                () = task.run(queue, events.clone()) => {}
            }
        });
        Ok(Self { events: receiver })
    }
}

impl PushConnection for Connection {
    type Event = Callback;
    type Receipt = ();

    async fn next(&mut self) -> Result<Pushed<Callback>, PushEnd> {
        let ended = || Err(PushEnd::Lost("it is over".to_owned()));
        self.events.recv().await.unwrap_or_else(ended)
    }

    /// Does nothing: WeCom knows no confirmations.
    async fn confirm(&mut self, _receipts: Vec<()>) -> Result<(), PushEnd> {
        Ok(())
    }
}

/// The task of a connection.
#[derive(Debug)]
struct ConnectionTask {
    gateway: Arc<Gateway>,
    streams: Arc<TurnStreams>,
    number: u64,
    socket: WebSocket,
    exchange: Exchange,
    heartbeat: Heartbeat,
    /// Callbacks for which there is no room.
    held: VecDeque<Callback>,
}

impl ConnectionTask {
    /// Subscribes. Callbacks that come before the answer are kept.
    async fn subscribe(&mut self) -> Result<(), CallError> {
        let cmd = "aibot_subscribe";
        let id = self.gateway.new_id(cmd);
        let frame = command(cmd, &id, &self.gateway.subscription());
        self.socket
            .send(frame)
            .await
            .map_err(CallError::Unreachable)?;
        loop {
            let text = match self.socket.next().await.map_err(CallError::Unreachable)? {
                Incoming::Text(text) => text,
                Incoming::Closed(_) => {
                    let why = "WeCom closed the connection before the subscription";
                    return Err(CallError::Unreachable(why.to_owned()));
                }
                Incoming::Binary(_) | Incoming::Control => continue,
            };
            match read(&text) {
                Frame::Answer { req_id, answer } if req_id == id => {
                    return answer.judged().map(drop);
                }
                Frame::Callback(callback) if self.held.len() < MAX_EARLY => {
                    self.held.push_back(callback);
                }
                _ => {}
            }
        }
    }

    /// Serves the connection until it ends, hands over the callbacks that are held, and reports the
    /// end.
    async fn run(mut self, queue: mpsc::Receiver<Command>, events: mpsc::Sender<Event>) {
        for callback in &self.held {
            self.streams.receive(&callback.req_id, self.number);
        }
        let Err(end) = self.serve(queue, &events).await;
        let held = std::mem::take(&mut self.held);
        // The callbacks may wait long for room; commands without an answer fail now.
        drop(self);
        let callbacks = held.into_iter().map(|callback| Ok(Pushed::Event(callback)));
        for event in callbacks.chain([Err(end)]) {
            if events.send(event).await.is_err() {
                tracing::trace!("no one waits for the end of a connection");
                return;
            }
        }
    }

    async fn serve(
        &mut self,
        mut queue: mpsc::Receiver<Command>,
        events: &mpsc::Sender<Event>,
    ) -> Result<std::convert::Infallible, PushEnd> {
        loop {
            let is_full = !self.held.is_empty();
            tokio::select! {
                permit = events.reserve(), if is_full => {
                    if let (Ok(permit), Some(callback)) = (permit, self.held.pop_front()) {
                        permit.send(Ok(Pushed::Event(callback)));
                    }
                }
                incoming = self.socket.next(), if !is_full => self.heard(incoming?, events).await?,
                Some(command) = queue.recv() => {
                    let frame = self.exchange.submit(command, Instant::now());
                    self.write(frame).await?;
                }
                () = sleep_until(self.heartbeat.next) => {
                    if is_full {
                        self.heartbeat.reset_count();
                    }
                    self.beat().await?;
                }
                () = at(self.exchange.deadline()) => {
                    let frames = self.exchange.expire(Instant::now());
                    self.write(frames).await?;
                }
            }
        }
    }

    async fn heard(
        &mut self,
        incoming: Incoming,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), PushEnd> {
        let text = match incoming {
            Incoming::Text(text) => text,
            Incoming::Control => {
                show_activity(events);
                return Ok(());
            }
            Incoming::Binary(_) => return Ok(()),
            Incoming::Closed(_) => return Err(PushEnd::Lost("WeCom closed it".to_owned())),
        };
        match read(&text) {
            Frame::Answer { req_id, answer } => {
                if answer.code.is_some_and(ends_subscription) {
                    self.exchange.answered(&req_id, answer, Instant::now());
                    let why = "WeCom does not know its subscription any more";
                    return Err(PushEnd::Lost(why.to_owned()));
                }
                if Heartbeat::is_one(&req_id) {
                    self.heartbeat.reset_count();
                    show_activity(events);
                    return Ok(());
                }
                let frame = self.exchange.answered(&req_id, answer, Instant::now());
                self.write(frame).await
            }
            Frame::Callback(callback) if callback.is_displaced() => {
                let why = "WeCom serves one connection of a bot, and a newer one took over";
                Err(PushEnd::Final(ChannelError::Conflict(why.to_owned())))
            }
            Frame::Callback(callback) => {
                self.streams.receive(&callback.req_id, self.number);
                self.held.push_back(callback);
                Ok(())
            }
            Frame::Other => Ok(()),
        }
    }

    /// Sends a heartbeat, and finishes streams that become too old.
    async fn beat(&mut self) -> Result<(), PushEnd> {
        let now = Instant::now();
        let Some(id) = self.heartbeat.beat(now) else {
            return Err(PushEnd::Lost("it does not answer any more".to_owned()));
        };
        self.write([command("ping", &id, &Value::Null)]).await?;
        for stream in self.streams.take_overdue(now) {
            let patience = self.gateway.reply_timeout();
            let (cmd, body) = stream.frame(true);
            let command = Command::unattended(cmd, stream.req_id, body, patience);
            let frame = self.exchange.submit(command, now);
            self.write(frame).await?;
        }
        Ok(())
    }

    async fn write(&mut self, frames: impl IntoIterator<Item = String>) -> Result<(), PushEnd> {
        for frame in frames {
            self.socket.send(frame).await?;
        }
        Ok(())
    }
}

/// Reports a sign of life, unless other events wait.
fn show_activity(events: &mpsc::Sender<Event>) {
    if events.try_send(Ok(Pushed::Activity)).is_err() {
        tracing::trace!("a sign of life was left out");
    }
}

fn read(text: &str) -> Frame {
    Frame::parse(text).unwrap_or_else(|error| {
        tracing::warn!(error, "a frame could not be read and was passed over");
        Frame::Other
    })
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

    use nanobot_channel_wecom_fake::{BOT_ID, Fault, Incoming, Person, SECRET, WeComFake};
    use nanobot_testkit::Assistant;
    use serde_json::json;

    use super::*;
    use crate::WeComConfig;

    async fn fake() -> (WeComFake, Person) {
        let (fake, ann) = (WeComFake::start().await.unwrap(), Person::new("ann"));
        fake.add_person(&ann);
        (fake, ann)
    }

    fn gateway(fake: &WeComFake) -> Arc<Gateway> {
        let section = json!({"botId": BOT_ID, "secret": SECRET, "wsUrl": fake.ws_url()});
        let config = WeComConfig::from_section(&section).unwrap();
        Arc::new(Gateway::new(&config, None, &[]).unwrap())
    }

    /// Sends messages, and returns the names of their callbacks.
    async fn push(fake: &WeComFake, person: &Person, count: usize) -> Vec<String> {
        let push = |number: usize| fake.push(Incoming::direct(person, &number.to_string()));
        let pushed: Vec<_> = (0..count).map(push).collect();
        let last = pushed.last().unwrap();
        fake.wait_for_deliveries(last, 1).await.unwrap();
        pushed.into_iter().map(|pushed| pushed.req_id).collect()
    }

    /// Returns the next callbacks, at most so many, and the reason if the connection ends before.
    async fn receive(connection: &mut Connection, count: usize) -> (Vec<String>, Option<String>) {
        let mut received = Vec::new();
        while received.len() < count {
            match connection.next().await {
                Ok(Pushed::Event(callback)) => received.push(callback.req_id),
                Ok(_) => {}
                Err(PushEnd::Lost(why)) => return (received, Some(why)),
                Err(PushEnd::Final(error)) => panic!("{error}"),
            }
        }
        (received, None)
    }

    /// Lets the time until the next heartbeat pass.
    async fn pass_interval() {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(30)).await;
        tokio::time::resume();
    }

    #[tokio::test]
    async fn connection_is_kept_while_callbacks_wait() {
        let (fake, ann) = fake().await;
        let (gateway, streams) = (gateway(&fake), Arc::default());
        let context = Arc::new(Assistant::new("-")).context();
        let opened = Connection::open(&gateway, &streams, &context).await;
        let mut connection = opened.unwrap();
        // More than there is room for: the answers to heartbeats are not read.
        let pushed = push(&fake, &ann, MAX_EVENTS + 10).await;
        for count in 1..=4 {
            pass_interval().await;
            fake.wait_for_calls("ping", count).await.unwrap();
        }
        let received = receive(&mut connection, pushed.len()).await;
        assert_eq!(received, (pushed, None));
        // A connection that does not answer while it is read is lost all the same.
        for count in 5..=7 {
            fake.fail_next("ping", Fault::Hang);
            pass_interval().await;
            if count < 7 {
                fake.wait_for_calls("ping", count).await.unwrap();
            }
        }
        let (received, end) = receive(&mut connection, 1).await;
        assert_eq!(
            (received.len(), end.as_deref()),
            (0, Some("it does not answer any more"))
        );
    }

    #[tokio::test]
    async fn held_callbacks_precede_the_end_of_a_connection() {
        let (fake, ann) = fake().await;
        let gateway = gateway(&fake);
        let context = Arc::new(Assistant::new("-")).context();
        // The callbacks come before the answer to the subscription.
        fake.fail_next("aibot_subscribe", Fault::Hold);
        let push = async {
            fake.wait_for_subscribed().await.unwrap();
            let pushed = push(&fake, &ann, MAX_EARLY).await;
            fake.release_answers();
            pushed
        };
        let streams = Arc::default();
        let opened = Connection::open(&gateway, &streams, &context);
        let (opened, pushed) = tokio::join!(opened, push);
        let mut connection = opened.unwrap();
        // With the sign of life, there is one event more than there is room for. Nothing is read
        // meanwhile: the connection is lost when a heartbeat cannot be written.
        fake.cut();
        let lost = async {
            while Arc::strong_count(&gateway) > 1 {
                pass_interval().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(10), lost)
            .await
            .unwrap();
        let (received, end) = receive(&mut connection, MAX_EARLY + 1).await;
        assert_eq!(received, pushed);
        assert!(end.unwrap().starts_with("it broke"));
    }
}
