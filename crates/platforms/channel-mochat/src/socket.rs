//! The Socket.IO connection: its handshake, subscriptions and their answers, events.
//!
//! Written by hand on the WebSocket of the kit, because the client libraries have no MessagePack.
//! A packet that cannot be read is passed over. Every subscription has to be answered within
//! [`ACK_TIMEOUT`], otherwise the connection counts as broken. Later answers are passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use nanobot_channel::Value;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::MochatConfig;
use crate::api::Api;
use crate::engine::{Engine, EngineEvent};
use crate::error::{CallError, from_connect_error};
use crate::msgpack;
use crate::packet::{ClientPacket, Packet, Serializer};
use crate::target::Target;
use crate::wire::text_at;

/// The time that the answer to a subscription may take.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

const SUBSCRIBE_SESSIONS: &str = "com.claw.im.subscribeSessions";
const SUBSCRIBE_PANELS: &str = "com.claw.im.subscribePanels";

/// Something that the connection brought.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SocketEvent {
    /// An event, and its first argument.
    Event(String, Value),
    /// The answer to a subscription: its targets, and the news of its sessions.
    Subscribed(Vec<Target>, Value),
    /// The subscription to these was refused, for this reason.
    Refused(Vec<Target>, String),
    /// A sign of life.
    Activity,
    /// Nothing of use here.
    Nothing,
}

impl SocketEvent {
    /// Returns an estimate of the memory that its content takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Event(_, value) | Self::Subscribed(_, value) => msgpack::memory(value),
            Self::Refused(..) | Self::Activity | Self::Nothing => 0,
        }
    }
}

/// A subscription without an answer.
#[derive(Debug)]
struct PendingAck {
    targets: Vec<Target>,
    due: Instant,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct SocketIo {
    engine: Engine,
    serializer: Serializer,
    last_id: u64,
    pending: BTreeMap<u64, PendingAck>,
    watch_limit: usize,
}

impl SocketIo {
    /// Opens a connection. The token is refused with a refusal, all else is repeatable.
    pub(crate) async fn open(api: &Api, config: &MochatConfig) -> Result<Self, CallError> {
        let patience = config.connect_timeout();
        let address = config
            .socket_address()
            .map_err(|error| CallError::Setup(error.to_string()))?;
        let mut socket = Self {
            engine: Engine::open(&api.rest, &address, patience).await?,
            serializer: if config.socket_disable_msgpack {
                Serializer::Json
            } else {
                Serializer::MsgPack
            },
            last_id: 0,
            pending: BTreeMap::new(),
            watch_limit: config.watch_limit,
        };
        let auth = json!({"token": config.claw_token.expose_exact()});
        let connected = timeout(patience, socket.connect(auth)).await;
        match connected {
            Ok(connected) => connected?,
            Err(_) => {
                let why = "the socket did not answer in time".to_owned();
                return Err(CallError::Unreachable(why));
            }
        }
        Ok(socket)
    }

    /// Asks for a connection to the default namespace.
    async fn connect(&mut self, auth: Value) -> Result<(), CallError> {
        let sent = self.send(&ClientPacket::Connect(auth)).await;
        sent.map_err(CallError::Unreachable)?;
        loop {
            match self.read().await.map_err(CallError::Unreachable)? {
                Read::Packet(Packet::Connect) => return Ok(()),
                Read::Packet(Packet::ConnectError(data)) => return Err(from_connect_error(&data)),
                Read::Packet(_) | Read::Ping | Read::Nothing => {}
            }
        }
    }

    /// Subscribes to targets, so many at once; to sessions from their positions.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn subscribe(
        &mut self,
        targets: &[(Target, Option<u64>)],
        at_once: usize,
    ) -> Result<(), String> {
        let (sessions, panels): (Vec<_>, Vec<_>) = targets
            .iter()
            .partition(|(target, _)| matches!(target, Target::Session(_)));
        for sessions in sessions.chunks(at_once.max(1)) {
            let cursors: BTreeMap<&str, u64> = sessions
                .iter()
                .filter_map(|(target, cursor)| Some((target.id(), (*cursor)?)))
                .collect();
            let argument = json!({
                "sessionIds": ids(sessions), "cursors": cursors, "limit": self.watch_limit,
            });
            self.call(SUBSCRIBE_SESSIONS, argument, sessions).await?;
        }
        for panels in panels.chunks(at_once.max(1)) {
            let argument = json!({"panelIds": ids(panels)});
            self.call(SUBSCRIBE_PANELS, argument, panels).await?;
        }
        Ok(())
    }

    /// `true` if every subscription was answered.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.pending.is_empty()
    }

    /// Waits for the next event. Cancel safe, except for an answer to the server.
    ///
    /// # Errors
    /// The reason why the connection is over.
    pub(crate) async fn next(&mut self) -> Result<SocketEvent, String> {
        let due = self.pending.values().map(|pending| pending.due).min();
        let read = match due {
            Some(due) => tokio::select! {
                biased;
                read = self.read() => read?,
                () = tokio::time::sleep_until(due) => {
                    return Err("a subscription was not answered in time".to_owned());
                }
            },
            None => self.read().await?,
        };
        match read {
            Read::Ping => Ok(SocketEvent::Activity),
            Read::Nothing | Read::Packet(Packet::Connect | Packet::ConnectError(_)) => {
                Ok(SocketEvent::Nothing)
            }
            Read::Packet(Packet::Disconnect) => Err("the server ended it".to_owned()),
            Read::Packet(Packet::Event { name, args }) => {
                let argument = args.into_iter().next().unwrap_or_default();
                Ok(SocketEvent::Event(name, argument))
            }
            Read::Packet(Packet::Ack { id, args }) => Ok(self.acknowledged(id, args)),
        }
    }

    fn acknowledged(&mut self, id: u64, args: Vec<Value>) -> SocketEvent {
        let Some(PendingAck { targets, .. }) = self.pending.remove(&id) else {
            tracing::debug!(id, "an answer came too late and was passed over");
            return SocketEvent::Nothing;
        };
        let mut answer = args.into_iter().next().unwrap_or_default();
        if answer.get("result") != Some(&Value::Bool(true)) {
            return SocketEvent::Refused(targets, text_at(&answer, &["message"]));
        }
        let data = answer.get_mut("data").map(Value::take);
        SocketEvent::Subscribed(targets, data.unwrap_or_default())
    }

    async fn call(
        &mut self,
        name: &'static str,
        argument: Value,
        targets: &[&(Target, Option<u64>)],
    ) -> Result<(), String> {
        self.last_id += 1;
        let id = self.last_id;
        let pending = PendingAck {
            targets: targets.iter().map(|(target, _)| target.clone()).collect(),
            due: Instant::now() + ACK_TIMEOUT,
        };
        self.pending.insert(id, pending);
        self.send(&ClientPacket::Event { id, name, argument }).await
    }

    async fn send(&mut self, packet: &ClientPacket) -> Result<(), String> {
        self.engine.send(self.serializer.write(packet)?).await
    }

    async fn read(&mut self) -> Result<Read, String> {
        Ok(match self.engine.next().await? {
            EngineEvent::Ping => Read::Ping,
            EngineEvent::Nothing => Read::Nothing,
            EngineEvent::Message(message) => match self.serializer.read(&message) {
                Ok(packet) => Read::Packet(packet),
                Err(error) => {
                    tracing::warn!(error, "a packet could not be read and was passed over");
                    Read::Nothing
                }
            },
        })
    }
}

fn ids<'a>(targets: &[&'a (Target, Option<u64>)]) -> Vec<&'a str> {
    targets.iter().map(|(target, _)| target.id()).collect()
}

/// The content of a frame.
enum Read {
    Packet(Packet),
    Ping,
    Nothing,
}
