//! One connection to the gateway, from its opening to its end.
//!
//! A heartbeat that is not answered before the next one ends the connection: an open socket is no
//! sign of life.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Notes};
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{WebSocket, chance};
use tokio::time::Instant;

use crate::Secret;
use crate::api::bare_token;
use crate::channel::Qq;
use crate::close_code::CloseMeaning;
use crate::cursor::{EventCursor, EventNumber};
use crate::error::{CallError, required_call_error};
use crate::frame::{self, Frame, Hello, Ready, op};
use crate::wire::{EventKind, MessageOrigin};

/// The time that the handshake may take, and then the first frame.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest pause between heartbeats that is believed: clocks cannot add just any number.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_hours(1);
/// Refused tokens in a row after which the bot counts as refused.
const MAX_REFUSED_TOKENS: u32 = 2;

/// A message to handle.
#[derive(Debug)]
pub struct ReceivedMessage {
    pub(crate) number: EventNumber,
    pub(crate) kind: EventKind,
    pub(crate) origin: MessageOrigin,
    /// It is parsed when it is handled, after its attempt was noted.
    pub(crate) payload: String,
}

/// An open connection. Dropping it closes it, and keeps the session.
#[derive(Debug)]
pub struct QqConnection {
    platform: Arc<Qq>,
    notes: Arc<dyn Notes>,
    socket: WebSocket,
    token: Secret,
    /// `true` until the session that is resumed goes on.
    is_resuming: bool,
    interval: Duration,
    next_beat: Instant,
    is_answered: bool,
}

impl QqConnection {
    /// Connects, and resumes the session or begins a new one.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub(crate) async fn open(
        platform: &Arc<Qq>,
        context: &ChannelContext,
    ) -> Result<Self, ChannelError> {
        let (address, token) = gateway(platform).await?;
        let api = &platform.api;
        let opened = WebSocket::open(&api.rest, &address, HANDSHAKE_TIMEOUT).await;
        let socket = opened.map_err(required_call_error)?;
        let mut session = None;
        platform.cursor.update(|cursor| {
            session = cursor.resume();
            false
        });
        let mut connection = Self {
            platform: Arc::clone(platform),
            notes: Arc::clone(&context.notes),
            socket,
            token,
            is_resuming: session.is_some(),
            interval: MAX_HEARTBEAT_INTERVAL,
            next_beat: Instant::now(),
            is_answered: true,
        };
        let greeted = connection.greet(session).await;
        greeted.map_err(|end| match end {
            PushEnd::Lost(why) => ChannelError::Unavailable(why),
            PushEnd::Final(error) => error,
        })?;
        Ok(connection)
    }

    /// Waits for the first frame, and asks for a session.
    async fn greet(&mut self, session: Option<(Secret, u64)>) -> Result<(), PushEnd> {
        let incoming = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.socket.next()).await;
        let text = match incoming {
            Ok(Ok(Incoming::Text(text))) => text,
            Ok(Ok(Incoming::Closed(reason))) => return Err(self.closed(reason).await),
            Ok(Ok(Incoming::Binary(_) | Incoming::Control)) => String::new(),
            Ok(Err(why)) => return Err(self.lost(&why)),
            Err(_) => return Err(self.lost("the gateway says nothing")),
        };
        let hello = Frame::parse(&text).ok();
        let hello = hello.filter(|frame| frame.op == op::HELLO);
        let Some(hello) = hello.and_then(|frame| frame.content::<Hello>()) else {
            return Err(self.lost("the gateway does not speak as expected"));
        };
        let interval = Duration::from_millis(hello.heartbeat_interval.max(1));
        self.interval = interval.min(MAX_HEARTBEAT_INTERVAL);
        self.next_beat = Instant::now() + self.interval.mul_f64(chance());
        let request = match session {
            Some((session, number)) => frame::resume(&self.token, session.expose_exact(), number),
            None => frame::identify(&self.token),
        };
        self.send(request).await
    }

    async fn send(&mut self, frame: String) -> Result<(), PushEnd> {
        let sent = self.socket.send(frame).await;
        sent.map_err(|why| self.lost(&why))
    }

    async fn send_heartbeat(&mut self) -> Result<(), PushEnd> {
        self.next_beat = Instant::now() + self.interval;
        self.is_answered = false;
        let number = self.platform.cursor.with(EventCursor::stored);
        self.send(frame::heartbeat(number)).await
    }

    async fn read(&mut self, text: &str) -> Result<Pushed<ReceivedMessage>, PushEnd> {
        let frame = match Frame::parse(text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(error, "a frame could not be read and was passed over");
                return Ok(Pushed::Nothing);
            }
        };
        match frame.op {
            op::DISPATCH => Ok(self.dispatched(&frame)),
            op::HEARTBEAT => self.send_heartbeat().await.map(|()| Pushed::Nothing),
            op::HEARTBEAT_ACK => {
                self.is_answered = true;
                Ok(Pushed::Activity)
            }
            op::RECONNECT => Err(self.lost("QQ asked for a new connection")),
            op::INVALID_SESSION if frame.content::<bool>().unwrap_or_default() => {
                self.refuse_resume();
                Err(self.lost("the session cannot be resumed yet"))
            }
            op::INVALID_SESSION => {
                self.forget_session();
                Err(self.lost("the session is over"))
            }
            _ => Ok(Pushed::Nothing),
        }
    }

    /// Records an event.
    fn dispatched(&mut self, frame: &Frame<'_>) -> Pushed<ReceivedMessage> {
        match frame.event() {
            "READY" => {
                self.begin_session(frame);
                return Pushed::Activity;
            }
            "RESUMED" => {
                tracing::info!(channel = %self.platform.base.name, "the session with QQ goes on");
                self.is_resuming = false;
                self.platform.accept_token();
            }
            _ => {}
        }
        let (cursor, is_resuming) = (&self.platform.cursor, self.is_resuming);
        let kind = EventKind::new(frame.event());
        let mut number = None;
        cursor.update(|cursor| {
            if !is_resuming {
                cursor.resumed();
            }
            let received = cursor.receive(frame.number());
            number = Some(received);
            // What needs no work is as good as stored.
            kind.is_none() && cursor.store(received)
        });
        match (kind, number) {
            (Some(kind), Some(number)) => Pushed::Event(ReceivedMessage {
                number,
                kind,
                origin: MessageOrigin::peek(frame.payload()),
                payload: frame.payload().to_owned(),
            }),
            _ => Pushed::Activity,
        }
    }

    fn begin_session(&mut self, frame: &Frame<'_>) {
        let Some(ready) = frame.content::<Ready>() else {
            let channel = &self.platform.base.name;
            tracing::error!(%channel, "the beginning of a session could not be read");
            return;
        };
        if self.is_resuming {
            self.warn_of_loss("QQ began a new session");
        }
        tracing::info!(channel = %self.platform.base.name, "a session with QQ begins");
        self.is_resuming = false;
        self.platform.accept_token();
        let session = Secret::new(ready.session_id);
        self.platform.cursor.update(|cursor| {
            cursor.begin(session, frame.number());
            true
        });
        // At once, so that a killed process continues it.
        let (platform, notes) = (Arc::clone(&self.platform), Arc::clone(&self.notes));
        let write = async move { platform.cursor.write(notes.as_ref()).await };
        self.platform.base.background.spawn(write);
    }

    fn forget_session(&self) {
        let had_session = self.platform.cursor.update(|cursor| {
            let has_session = cursor.has_session();
            cursor.forget();
            has_session
        });
        if had_session {
            self.warn_of_loss("the session is over");
        }
    }

    fn refuse_resume(&self) {
        if self.is_resuming && self.platform.cursor.update(EventCursor::refuse_resume) {
            self.warn_of_loss("the session cannot be resumed");
        }
    }

    fn warn_of_loss(&self, why: &str) {
        let channel = &self.platform.base.name;
        tracing::warn!(%channel, why, "messages that came in between may be lost");
    }

    fn lost(&self, why: &str) -> PushEnd {
        PushEnd::Lost(self.scrub(why))
    }

    fn scrub(&self, why: &str) -> String {
        let why = self.platform.api.rest.scrub(why);
        self.token.scrub_with(&why, bare_token)
    }

    /// Returns the meaning of a closed connection.
    async fn closed(&mut self, reason: Option<(u16, String)>) -> PushEnd {
        let Some((code, reason)) = reason else {
            return self.lost("QQ closed it");
        };
        let why = self.scrub(&format!("QQ closed it: {reason} (code {code})"));
        match CloseMeaning::of(code) {
            CloseMeaning::TokenRefused => {
                self.platform.api.drop_token(&self.token).await;
                if self.platform.refuse_token() >= MAX_REFUSED_TOKENS {
                    return PushEnd::Final(ChannelError::Auth(format!(
                        "{why}; check appId and secret"
                    )));
                }
            }
            CloseMeaning::SessionOver => self.forget_session(),
            CloseMeaning::Final(error) => return PushEnd::Final(error(&why)),
            CloseMeaning::Interrupted => self.refuse_resume(),
        }
        self.lost(&why)
    }
}

impl PushConnection for QqConnection {
    type Event = ReceivedMessage;
    type Receipt = ();

    async fn next(&mut self) -> Result<Pushed<ReceivedMessage>, PushEnd> {
        let incoming = tokio::select! {
            biased;
            incoming = self.socket.next() => incoming,
            () = tokio::time::sleep_until(self.next_beat) => {
                if !self.is_answered {
                    return Err(self.lost("QQ does not answer heartbeats"));
                }
                self.send_heartbeat().await?;
                return Ok(Pushed::Nothing);
            }
        };
        match incoming {
            Ok(Incoming::Text(text)) => self.read(&text).await,
            Ok(Incoming::Binary(_) | Incoming::Control) => Ok(Pushed::Nothing),
            Ok(Incoming::Closed(reason)) => Err(self.closed(reason).await),
            Err(why) => Err(self.lost(&why)),
        }
    }

    /// An event is recorded when it is stored, also one of an earlier connection.
    async fn confirm(&mut self, _receipts: Vec<()>) -> Result<(), PushEnd> {
        Ok(())
    }
}

/// Asks for the address of the gateway, and for a token.
async fn gateway(platform: &Qq) -> Result<(String, Secret), ChannelError> {
    let gateway = platform.api.gateway().await.map_err(required_call_error)?;
    let has_session = platform.cursor.with(EventCursor::has_session);
    if let Some(retry_after) = gateway.pause().filter(|_| !has_session) {
        tracing::warn!(
            channel = %platform.base.name, seconds = retry_after.as_secs(),
            "the sessions that QQ allows are used up"
        );
        return Err(ChannelError::RateLimited { retry_after });
    }
    if gateway.shards > 1 {
        tracing::warn!(
            channel = %platform.base.name, shards = gateway.shards,
            "QQ suggests several connections for this bot; it is connected once"
        );
    }
    let token = platform.api.token().await;
    let token = token.map_err(CallError::repeatable);
    Ok((gateway.url, token?))
}
