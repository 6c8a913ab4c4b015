//! The WebSocket of the long connection.
//!
//! Feishu expects an acknowledgement within three seconds, and repeats an event without one.
//! Feishu sets the interval of the pings, with the address and with every pong. A pong or an event
//! is a sign of life, an open socket is not.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::json;
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{Rest, WebSocket};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use crate::api::Api;
use crate::candidate::Identity;
use crate::error::{CallError, from_code};
use crate::fragment::{Collected, Fragments};
use crate::frame::Frame;
use crate::wire::EventOrigin;

/// Time limit of an acknowledgement, before Feishu's timeout.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(2500);
/// The time that the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(45);
/// The interval of pings that is used at most; Feishu usually asks for two minutes, after which a
/// dead connection would be noticed late.
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The time that a pong may take.
const PONG_TIMEOUT: Duration = Duration::from_secs(30);
/// The status of a handshake whose ticket was not accepted.
const AUTH_FAILED: i64 = 514;

/// An event to handle.
#[derive(Debug)]
pub struct ReceivedEvent {
    /// The bot that received it.
    pub(crate) me: Arc<Identity>,
    pub(crate) origin: EventOrigin,
    pub(crate) payload: Vec<u8>,
    pub(crate) receipt: FrameReceipt,
}

/// The frame to acknowledge an event with.
#[derive(Debug)]
pub struct FrameReceipt {
    frame: Frame,
    received: Instant,
}

/// The answer to the request for a connection.
#[derive(Debug, Deserialize)]
struct Ticket {
    /// Holds a ticket: it is not to be shown.
    #[serde(rename = "URL")]
    url: String,
    #[serde(rename = "ClientConfig", default)]
    settings: Option<ClientSettings>,
}

/// Feishu's settings of a client. Its pace of reconnecting is not used: messages would arrive up to
/// half a minute late after every change of the connection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientSettings {
    #[serde(rename = "PingInterval")]
    ping_interval: Option<u64>,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub struct Socket {
    pub(crate) me: Arc<Identity>,
    socket: WebSocket,
    service: i32,
    interval: Duration,
    next_ping: Instant,
    heard: Instant,
    fragments: Fragments,
}

impl Socket {
    /// Opens a new connection.
    pub(crate) async fn open(api: &Api, me: Identity) -> Result<Self, CallError> {
        let ticket: Ticket = api.connection().await?;
        let refusal = |headers: &HeaderMap| refused_handshake(headers, &api.rest);
        let socket = WebSocket::open_or(&api.rest, &ticket.url, HANDSHAKE_TIMEOUT, refusal).await?;
        let now = Instant::now();
        let mut socket = Self {
            me: Arc::new(me),
            socket,
            service: service_of(&ticket.url),
            interval: LONGEST_INTERVAL,
            next_ping: now,
            heard: now,
            fragments: Fragments::default(),
        };
        socket.apply(&ticket.settings.unwrap_or_default());
        Ok(socket)
    }

    fn read(&mut self, bytes: &[u8]) -> Pushed<ReceivedEvent> {
        let mut frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(error, "a frame could not be read and was passed over");
                return Pushed::Nothing;
            }
        };
        let payload = frame.take_payload();
        if frame.is_control() {
            if frame.header("type") != "pong" {
                return Pushed::Nothing;
            }
            self.heard = Instant::now();
            if let Ok(settings) = json::from_slice::<ClientSettings>(&payload) {
                self.apply(&settings);
            }
            return Pushed::Activity;
        }
        if !frame.is_data() {
            return Pushed::Nothing;
        }
        self.heard = Instant::now();
        let sum = frame.number("sum").unwrap_or(1);
        let seq = frame.number("seq").unwrap_or(0);
        match self
            .fragments
            .add(frame.header("message_id"), sum, seq, payload)
        {
            Collected::Whole(payload) => Pushed::Event(ReceivedEvent {
                me: Arc::clone(&self.me),
                origin: EventOrigin::peek(&payload),
                payload,
                receipt: FrameReceipt {
                    frame,
                    received: self.heard,
                },
            }),
            Collected::Partial => Pushed::Activity,
            Collected::Dropped(why) => {
                tracing::warn!(why, sum, seq, "a part of an event was dropped");
                Pushed::Activity
            }
        }
    }

    /// Uses the interval that Feishu asks for, within bounds.
    fn apply(&mut self, settings: &ClientSettings) {
        if let Some(seconds) = settings.ping_interval {
            let interval = Duration::from_secs(seconds);
            self.interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
            self.next_ping = self.next_ping.min(Instant::now() + self.interval);
        }
    }
}

impl PushConnection for Socket {
    type Event = ReceivedEvent;
    type Receipt = FrameReceipt;

    /// Waits for what comes next, and pings in between.
    async fn next(&mut self) -> Result<Pushed<ReceivedEvent>, PushEnd> {
        loop {
            let silent = self.heard + self.interval + PONG_TIMEOUT;
            let incoming = tokio::select! {
                biased;
                incoming = self.socket.next() => incoming?,
                () = tokio::time::sleep_until(silent) => {
                    return Err(PushEnd::Lost("it fell silent".to_owned()));
                }
                () = tokio::time::sleep_until(self.next_ping) => {
                    self.next_ping = Instant::now() + self.interval;
                    let ping = Frame::ping(self.service).encode();
                    self.socket.send_binary(ping).await?;
                    continue;
                }
            };
            return match incoming {
                Incoming::Binary(bytes) => Ok(self.read(&bytes)),
                Incoming::Text(_) | Incoming::Control => Ok(Pushed::Nothing),
                Incoming::Closed(_) => Err(PushEnd::Lost("Feishu closed it".to_owned())),
            };
        }
    }

    async fn confirm(&mut self, receipts: Vec<FrameReceipt>) -> Result<(), PushEnd> {
        let frames = receipts.into_iter().filter_map(|receipt| {
            let took = receipt.received.elapsed();
            if took >= ACKNOWLEDGE_TIMEOUT {
                tracing::debug!("it is too late to acknowledge an event");
                return None;
            }
            Some(receipt.frame.acknowledgement(took.as_millis()).encode())
        });
        Ok(self.socket.send_all(frames).await?)
    }
}

/// Returns the failure of a handshake that was refused: that of the status, or that of its more
/// exact code.
fn refused_handshake(headers: &HeaderMap, rest: &Rest) -> Option<CallError> {
    let text = |key: &str| headers.get(key).and_then(|value| value.to_str().ok());
    let number = |key: &str| text(key)?.trim().parse::<i64>().ok();
    let status = number("handshake-status")?;
    let reason = rest.scrub(text("handshake-msg").unwrap_or_default());
    let code = number("handshake-autherrcode").unwrap_or(status);
    Some(match from_code(code, &reason) {
        // A ticket may be refused because it is too old.
        CallError::Refused(refusal) if code == AUTH_FAILED => {
            CallError::Unreachable(format!("the socket was refused: {refusal}"))
        }
        error => error,
    })
}

/// Returns the service in the query of a connection's address.
fn service_of(address: &str) -> i32 {
    let service = Url::parse(address).ok().and_then(|address| {
        let mut pairs = address.query_pairs();
        let (_, id) = pairs.find(|(key, _)| key == "service_id")?;
        id.parse().ok()
    });
    service.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_read_from_the_address() {
        let table = [
            (
                "wss://x.test/ws?device_id=1&service_id=33554678&ticket=x",
                33_554_678,
            ),
            ("wss://x.test/ws?service_id=x", 0),
            ("wss://x.test/ws", 0),
            ("", 0),
        ];
        for (address, service) in table {
            assert_eq!(service_of(address), service, "{address}");
        }
    }
}
