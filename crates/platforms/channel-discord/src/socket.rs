//! One connection to the gateway, from its opening to its end.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::call::MAX_RETRY_AFTER;
use nanobot_channel_kit::websocket::{Incoming, WebSocket};
use nanobot_channel_kit::{chance, wrong};
use reqwest::Url;
use serde::Deserialize;
use serenity::model::application::Interaction;
use serenity::model::id::ChannelId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::api::Body;
use crate::channel::Discord;
use crate::error::CallError;
use crate::interaction::channel_of;
use crate::route::Route;
use crate::wire::{self, Hello, RawMessage, Ready, SocketFrame, op};

/// The time that connecting may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// A close code that keeps the session, unlike 1000.
const RESUMABLE_CLOSE: u16 = 4000;
const UNEXPECTED: &str = "the gateway does not speak as expected";
/// Timeout of the gateway's first frame.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest pause between heartbeats that is believed: clocks cannot add just any number.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_hours(1);

/// The reason why a connection ended.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// It broke or was closed by Discord; a session can be resumed.
    Lost(String),
    /// The session is over.
    SessionOver(String),
    /// Another attempt would not help soon.
    Down(ChannelError),
}

/// What the gateway brought, in its order.
#[derive(Debug)]
pub(crate) enum Received {
    /// A session began without earlier events.
    SessionStart,
    Event(GatewayEvent),
}

/// An event that has to be handled, with its number.
#[derive(Debug)]
pub(crate) struct GatewayEvent {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) content: EventContent,
}

/// Content of an event.
#[derive(Debug)]
pub(crate) enum EventContent {
    /// It is parsed when it is handled, after its attempt was noted.
    Message(RawMessage),
    Interaction(Box<Interaction>),
}

impl EventContent {
    /// Returns the channel of the event, if it names one.
    pub(crate) fn channel(&self) -> Option<ChannelId> {
        match self {
            Self::Message(message) => message.channel,
            Self::Interaction(interaction) => channel_of(interaction),
        }
    }
}

/// A connection that was greeted.
#[derive(Debug)]
pub(crate) struct Socket<'a> {
    channel: &'a Arc<Discord>,
    context: &'a ChannelContext,
    socket: WebSocket,
    /// The address of the gateway.
    url: String,
    interval: Duration,
    next_beat: Instant,
    is_answered: bool,
    /// Number of events and heartbeat acknowledgements, without those of the handshake.
    pub(crate) progress: u64,
}

impl<'a> Socket<'a> {
    /// Connects, and resumes the session or begins a new one.
    pub(crate) async fn open(
        channel: &'a Arc<Discord>,
        context: &'a ChannelContext,
    ) -> Result<Self, ConnectionEnd> {
        let (session, last_handled) =
            channel.with_cursor(|cursor| (cursor.session().cloned(), cursor.last_handled()));
        let url = match &session {
            Some(session) => session.url.clone(),
            None => gateway_address(channel).await?,
        };
        let opened =
            WebSocket::open(&channel.api.rest, &with_version(&url), HANDSHAKE_TIMEOUT).await;
        let mut socket =
            opened.map_err(|error: CallError| ConnectionEnd::Lost(error.to_string()))?;
        let interval = match tokio::time::timeout(HELLO_TIMEOUT, socket.next()).await {
            Ok(Ok(Incoming::Text(text))) => parse_hello(&text)?,
            Ok(Ok(Incoming::Closed(reason))) => return Err(end_from_close(channel, reason)),
            Ok(Ok(Incoming::Binary(_) | Incoming::Control)) => {
                return Err(ConnectionEnd::Lost(UNEXPECTED.to_owned()));
            }
            Ok(Err(why)) => return Err(ConnectionEnd::Lost(channel.api.rest.scrub(&why))),
            Err(_) => return Err(ConnectionEnd::Lost("the gateway says nothing".to_owned())),
        };
        let request = match &session {
            Some(session) => wire::resume(&channel.config, session, last_handled),
            None => wire::identify(&channel.config),
        };
        socket
            .send(request.to_string())
            .await
            .map_err(ConnectionEnd::Lost)?;
        let next_beat = Instant::now() + interval.mul_f64(chance());
        Ok(Self {
            channel,
            context,
            socket,
            url,
            interval,
            next_beat,
            is_answered: true,
            progress: 0,
        })
    }

    /// Reads until the connection ends; a full queue pauses it.
    pub(crate) async fn read(&mut self, queue: &mpsc::Sender<Received>) -> ConnectionEnd {
        loop {
            let permit = tokio::select! {
                permit = queue.reserve() => permit,
                () = tokio::time::sleep_until(self.next_beat) => {
                    // Nothing was read meanwhile, so an acknowledgement may be waiting.
                    if let Err(end) = self.send_heartbeat().await {
                        return end;
                    }
                    continue;
                }
            };
            let Ok(permit) = permit else {
                return ConnectionEnd::Lost("nobody takes events".to_owned());
            };
            let incoming = tokio::select! {
                biased;
                incoming = self.socket.next() => incoming,
                () = tokio::time::sleep_until(self.next_beat) => {
                    if !self.is_answered {
                        return ConnectionEnd::Lost("the gateway does not answer heartbeats".to_owned());
                    }
                    if let Err(end) = self.send_heartbeat().await {
                        return end;
                    }
                    continue;
                }
            };
            match self.handle_incoming(incoming).await {
                Ok(Some(event)) => permit.send(event),
                Ok(None) => {}
                Err(end) => return end,
            }
        }
    }

    /// Closes the connection, so that the session can be resumed.
    pub(crate) async fn close(self) {
        self.socket.close(RESUMABLE_CLOSE).await;
    }

    async fn send_heartbeat(&mut self) -> Result<(), ConnectionEnd> {
        let last_handled = self.channel.with_cursor(|cursor| cursor.last_handled());
        self.socket
            .send(wire::heartbeat(last_handled).to_string())
            .await
            .map_err(ConnectionEnd::Lost)?;
        self.next_beat = Instant::now() + self.interval;
        self.is_answered = false;
        Ok(())
    }

    async fn handle_incoming(
        &mut self,
        incoming: Result<Incoming, String>,
    ) -> Result<Option<Received>, ConnectionEnd> {
        let text = match incoming {
            Ok(Incoming::Text(text)) => text,
            Ok(Incoming::Binary(_) | Incoming::Control) => return Ok(None),
            Ok(Incoming::Closed(reason)) => return Err(end_from_close(self.channel, reason)),
            Err(why) => return Err(ConnectionEnd::Lost(self.channel.api.rest.scrub(&why))),
        };
        let frame = match SocketFrame::parse(&text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(channel = %self.channel.base.name, %error, "a frame of the gateway could not be read");
                return Ok(None);
            }
        };
        match frame.op {
            op::DISPATCH => Ok(self.handle_dispatch(&frame)),
            op::HEARTBEAT => self.send_heartbeat().await.map(|()| None),
            op::HEARTBEAT_ACK => {
                self.is_answered = true;
                self.progress += 1;
                self.context.progress.alive();
                Ok(None)
            }
            op::RECONNECT => Err(ConnectionEnd::Lost(
                "Discord asks for a new connection".to_owned(),
            )),
            op::INVALID_SESSION if frame.content::<bool>().unwrap_or_default() => Err(
                ConnectionEnd::Lost("the session is not ready to be resumed".to_owned()),
            ),
            op::INVALID_SESSION => {
                Err(ConnectionEnd::SessionOver("the session is over".to_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Records an event and reads its content. `None` if there is nothing to do.
    fn handle_dispatch(&mut self, frame: &SocketFrame<'_>) -> Option<Received> {
        let name = frame.t.as_deref().unwrap_or_default();
        // An absurd number would make all later events look old.
        let number = frame.s.filter(|number| {
            self.channel
                .with_cursor(|cursor| cursor.is_plausible(*number))
        })?;
        self.context.progress.alive();
        if name == "READY" {
            self.begin_session(frame);
        }
        let (is_new, epoch) = self
            .channel
            .with_cursor(|cursor| (cursor.receive(number), cursor.epoch()));
        if !is_new {
            return None;
        }
        let content = match name {
            "READY" => None,
            _ => self.read_content(name, frame),
        };
        let Some(content) = content else {
            // For READY, too: its repetition during a long catch-up would begin another session.
            self.channel
                .with_cursor(|cursor| cursor.mark_handled(epoch, number));
            return Some(Received::SessionStart).filter(|_| name == "READY");
        };
        self.progress += 1;
        Some(Received::Event(GatewayEvent {
            epoch,
            number,
            content,
        }))
    }

    /// Reads the content of an event. `None` if there is nothing to do.
    fn read_content(&self, name: &str, frame: &SocketFrame<'_>) -> Option<EventContent> {
        let unreadable = |error: serde_json::Error| {
            tracing::warn!(channel = %self.channel.base.name, %error, event = name, "an event could not be read and was skipped");
        };
        match name {
            "MESSAGE_CREATE" => frame
                .message()
                .map_err(unreadable)
                .ok()
                .map(EventContent::Message),
            // It is never repeated, so it cannot end several processes.
            "INTERACTION_CREATE" => {
                let interaction = frame.content::<Interaction>().map_err(unreadable).ok();
                interaction
                    .inspect(|interaction| self.channel.acknowledge(interaction, self.context))
                    .map(|interaction| EventContent::Interaction(Box::new(interaction)))
            }
            "RESUMED" => {
                tracing::info!(channel = %self.channel.base.name, "the session with Discord goes on");
                None
            }
            _ => None,
        }
    }

    fn begin_session(&self, frame: &SocketFrame<'_>) {
        match frame.content::<Ready>() {
            Ok(ready) => {
                tracing::info!(channel = %self.channel.base.name, bot = ready.username(), "receiving from Discord");
                let (bot, session) = (ready.bot(), ready.into_session(&self.url));
                self.channel
                    .register_commands(bot.application, self.context);
                self.channel.marks.open_gap(&Some(bot.id));
                self.channel
                    .with_cursor(|cursor| cursor.begin(session, bot));
            }
            Err(error) => {
                tracing::error!(channel = %self.channel.base.name, %error, "the beginning of a session could not be read");
            }
        }
    }
}

fn parse_hello(text: &str) -> Result<Duration, ConnectionEnd> {
    let frame = SocketFrame::parse(text)
        .ok()
        .filter(|frame| frame.op == op::HELLO);
    let hello = frame.and_then(|frame| frame.content::<Hello>().ok());
    let hello = hello.ok_or_else(|| ConnectionEnd::Lost(UNEXPECTED.to_owned()))?;
    Ok(Duration::from_millis(hello.heartbeat_interval.max(1)).min(MAX_HEARTBEAT_INTERVAL))
}

/// Returns the address of a gateway with the protocol's version.
fn with_version(address: &str) -> String {
    let url = Url::parse(address.trim()).ok();
    let Some(mut url) = url.filter(|url| url.query().is_none()) else {
        return address.to_owned();
    };
    url.set_query(Some("v=10&encoding=json"));
    url.into()
}

/// Returns the address of the gateway.
async fn gateway_address(channel: &Discord) -> Result<String, ConnectionEnd> {
    #[derive(Deserialize)]
    struct Gateway {
        url: String,
        shards: Option<u64>,
        session_start_limit: Option<StartLimit>,
    }
    #[derive(Deserialize)]
    struct StartLimit {
        remaining: u64,
        reset_after: u64,
    }
    let fetched = channel
        .api
        .call::<Gateway>(&Route::gateway(), Body::Empty)
        .await;
    let gateway = fetched.map_err(|error| match error {
        CallError::RateLimited(pause) => {
            ConnectionEnd::Down(ChannelError::RateLimited { retry_after: pause })
        }
        error => match error.repeatable() {
            ChannelError::Unavailable(why) => ConnectionEnd::Lost(why),
            error => ConnectionEnd::Down(error),
        },
    })?;
    if let Some(limit) = gateway
        .session_start_limit
        .filter(|limit| limit.remaining == 0)
    {
        tracing::warn!(channel = %channel.base.name, reset_after = limit.reset_after, "the sessions of the day are used up");
        let retry_after = Duration::from_millis(limit.reset_after).min(MAX_RETRY_AFTER);
        return Err(ConnectionEnd::Down(ChannelError::RateLimited {
            retry_after,
        }));
    }
    if let Some(shards) = gateway.shards.filter(|shards| *shards > 1) {
        tracing::warn!(
            channel = %channel.base.name, shards,
            "Discord wants this bot's servers divided among several connections, which is not supported: it is \
             connected once, and Discord refuses that from 2,500 servers on"
        );
    }
    Ok(channel
        .config
        .gateway_url
        .clone()
        .filter(|url| !url.trim().is_empty())
        .unwrap_or(gateway.url))
}

/// Returns the meaning of a close code.
fn end_from_close(channel: &Discord, reason: Option<(u16, String)>) -> ConnectionEnd {
    let Some((code, reason)) = reason else {
        return ConnectionEnd::Lost("the gateway hung up".to_owned());
    };
    let why = channel.api.rest.scrub(&format!(
        "the gateway closed the connection: {reason} (code {code})"
    ));
    match code {
        4004 => ConnectionEnd::Down(ChannelError::Auth(why)),
        4010 | 4011 => ConnectionEnd::Down(wrong(
            "token",
            &format!(
                "is of a bot on more servers than one connection serves (2,500), and this program has no shards: take \
                 the bot out of some, or use a bot of your own; {why}"
            ),
        )),
        4012 => ConnectionEnd::Down(wrong(
            "gatewayUrl",
            &format!("leads to a gateway that does not speak version 10; leave the key out; {why}"),
        )),
        4013 => ConnectionEnd::Down(wrong(
            "intents",
            &format!("are none that Discord knows; leave the key out; {why}"),
        )),
        4014 => ConnectionEnd::Down(wrong(
            "intents",
            &format!(
                "ask for more than the bot may have: switch on {} on the bot's page at \
                 discord.com/developers/applications; {why}",
                privileged_intents(channel.config.intents)
            ),
        )),
        // A wrong number and a session that has timed out cannot be resumed.
        4007 | 4009 => ConnectionEnd::SessionOver(why),
        _ => ConnectionEnd::Lost(why),
    }
}

/// Returns the portal's names of the privileged ones of these intents.
fn privileged_intents(intents: u64) -> String {
    let names = [
        (1 << 8, "Presence Intent"),
        (1 << 1, "Server Members Intent"),
        (1 << 15, "Message Content Intent"),
    ];
    let requested = names
        .iter()
        .filter(|(bit, _)| intents & bit != 0)
        .map(|(_, name)| format!("\"{name}\""));
    requested.collect::<Vec<_>>().join(" and ")
}
