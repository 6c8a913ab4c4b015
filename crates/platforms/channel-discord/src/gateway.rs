//! One connection to the gateway, from its opening to its end.

use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::call::LONGEST_PAUSE;
use nanobot_channel_kit::websocket::{Incoming, WebSocket};
use nanobot_channel_kit::{chance, wrong};
use reqwest::Url;
use serde::Deserialize;
use serenity::model::application::Interaction;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::api::Body;
use crate::channel::DiscordChannel;
use crate::error::CallError;
use crate::frame::{self, Frame, Hello, RawMessage, Ready, op};
use crate::route::Route;

/// The time that connecting may take.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// A close code that keeps the session, unlike 1000.
const TO_RESUME: u16 = 4000;
const UNEXPECTED: &str = "the gateway does not speak as expected";
/// How long the gateway may take for its first word.
const HELLO_TIME: Duration = Duration::from_secs(15);
/// The longest pause between heartbeats that is believed: clocks cannot add just any number.
const LONGEST_INTERVAL: Duration = Duration::from_hours(1);

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It broke or was ended by Discord; the session goes on where there is one.
    Lost(String),
    /// The session is over.
    SessionOver(String),
    /// There is no use in trying again soon.
    Down(ChannelError),
}

/// Something to be dealt with.
#[derive(Debug)]
pub(crate) enum Work {
    /// A session began that knows nothing of what was said before.
    Beginning,
    /// It is read when its turn comes, after its try was noted.
    Message(RawMessage),
    Interaction(Box<Interaction>),
}

/// An event in its place.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    /// `None` when there is nothing to do.
    pub(crate) work: Option<Work>,
}

/// A connection that was greeted.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    channel: &'a DiscordChannel,
    context: &'a ChannelContext,
    socket: WebSocket,
    /// Where it leads.
    url: String,
    interval: Duration,
    next_beat: Instant,
    is_answered: bool,
    /// How much came that is no part of a beginning: what people did, and answers to heartbeats.
    pub(crate) progress: u64,
}

impl<'a> Connection<'a> {
    /// Connects, and asks for the session to go on or for a new one.
    pub(crate) async fn open(
        channel: &'a DiscordChannel,
        context: &'a ChannelContext,
    ) -> Result<Self, End> {
        let (session, dealt_with) =
            channel.with_cursor(|cursor| (cursor.session().cloned(), cursor.dealt_with()));
        let url = match &session {
            Some(session) => session.url.clone(),
            None => gateway_address(channel).await?,
        };
        let opened = WebSocket::open(&channel.api.rest, &with_version(&url), HANDSHAKE).await;
        let mut socket = opened.map_err(|error: CallError| End::Lost(error.to_string()))?;
        let interval = match tokio::time::timeout(HELLO_TIME, socket.next()).await {
            Ok(Ok(Incoming::Text(text))) => greeting(&text)?,
            Ok(Ok(Incoming::Closed(reason))) => return Err(closed(channel, reason)),
            Ok(Ok(Incoming::Binary(_) | Incoming::Life)) => {
                return Err(End::Lost(UNEXPECTED.to_owned()));
            }
            Ok(Err(why)) => return Err(End::Lost(channel.api.rest.scrub(&why))),
            Err(_) => return Err(End::Lost("the gateway says nothing".to_owned())),
        };
        let request = match &session {
            Some(session) => frame::resume(&channel.config, session, dealt_with),
            None => frame::identify(&channel.config),
        };
        socket.send(request.to_string()).await.map_err(End::Lost)?;
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

    /// Reads until the end, at the pace at which the queue is emptied.
    pub(crate) async fn read(&mut self, queue: &mpsc::Sender<Job>) -> End {
        loop {
            let permit = tokio::select! {
                permit = queue.reserve() => permit,
                () = tokio::time::sleep_until(self.next_beat) => {
                    // Nothing was read meanwhile, so an answer may well be there.
                    if let Err(end) = self.beat().await {
                        return end;
                    }
                    continue;
                }
            };
            let Ok(permit) = permit else {
                return End::Lost("nobody takes events".to_owned());
            };
            let incoming = tokio::select! {
                biased;
                incoming = self.socket.next() => incoming,
                () = tokio::time::sleep_until(self.next_beat) => {
                    if !self.is_answered {
                        return End::Lost("the gateway does not answer heartbeats".to_owned());
                    }
                    if let Err(end) = self.beat().await {
                        return end;
                    }
                    continue;
                }
            };
            match self.take(incoming).await {
                Ok(Some(job)) => permit.send(job),
                Ok(None) => {}
                Err(end) => return end,
            }
        }
    }

    /// Leaves, so that the session can go on.
    pub(crate) async fn leave(self) {
        self.socket.close(TO_RESUME).await;
    }

    async fn beat(&mut self) -> Result<(), End> {
        let dealt_with = self.channel.with_cursor(|cursor| cursor.dealt_with());
        self.socket
            .send(frame::heartbeat(dealt_with).to_string())
            .await
            .map_err(End::Lost)?;
        self.next_beat = Instant::now() + self.interval;
        self.is_answered = false;
        Ok(())
    }

    async fn take(&mut self, incoming: Result<Incoming, String>) -> Result<Option<Job>, End> {
        let text = match incoming {
            Ok(Incoming::Text(text)) => text,
            Ok(Incoming::Binary(_) | Incoming::Life) => return Ok(None),
            Ok(Incoming::Closed(reason)) => return Err(closed(self.channel, reason)),
            Err(why) => return Err(End::Lost(self.channel.api.rest.scrub(&why))),
        };
        let frame = match Frame::read(&text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(channel = %self.channel.name, %error, "a frame of the gateway could not be read");
                return Ok(None);
            }
        };
        match frame.op {
            op::DISPATCH => Ok(self.event(&frame)),
            op::HEARTBEAT => self.beat().await.map(|()| None),
            op::HEARTBEAT_ACK => {
                self.is_answered = true;
                self.progress += 1;
                self.context.progress.alive();
                Ok(None)
            }
            op::RECONNECT => Err(End::Lost("Discord asks for a new connection".to_owned())),
            op::INVALID_SESSION if frame.content::<bool>().unwrap_or_default() => Err(End::Lost(
                "the session is not ready to be resumed".to_owned(),
            )),
            op::INVALID_SESSION => Err(End::SessionOver("the session is over".to_owned())),
            _ => Ok(None),
        }
    }

    /// Notes an event and finds out what there is to do.
    fn event(&mut self, frame: &Frame<'_>) -> Option<Job> {
        let name = frame.t.as_deref().unwrap_or_default();
        // Whoever believed an absurd number would take everything after it for old.
        let number = frame.s.filter(|number| {
            self.channel
                .with_cursor(|cursor| cursor.is_plausible(*number))
        })?;
        self.context.progress.alive();
        if name == "READY" {
            self.begin(frame);
        }
        let (is_new, epoch) = self
            .channel
            .with_cursor(|cursor| (cursor.receive(number), cursor.epoch()));
        if !is_new {
            return None;
        }
        let unreadable = |error: serde_json::Error| {
            tracing::warn!(channel = %self.channel.name, %error, event = name, "an event could not be read and was skipped");
        };
        let work = match name {
            // It is not to come again when what was missed takes long: it would begin another session.
            "READY" => {
                self.channel
                    .with_cursor(|cursor| cursor.deal_with(epoch, number));
                return Some(Job {
                    epoch,
                    number,
                    work: Some(Work::Beginning),
                });
            }
            "MESSAGE_CREATE" => frame.message().map_err(unreadable).ok().map(Work::Message),
            // Nothing brings one a second time, so it cannot end one process after the other.
            "INTERACTION_CREATE" => {
                let interaction = frame.content::<Interaction>().map_err(unreadable).ok();
                interaction
                    .inspect(|interaction| self.channel.acknowledge(interaction, self.context))
                    .map(|interaction| Work::Interaction(Box::new(interaction)))
            }
            "RESUMED" => {
                tracing::info!(channel = %self.channel.name, "the session with Discord goes on");
                None
            }
            _ => None,
        };
        self.progress += u64::from(work.is_some());
        Some(Job {
            epoch,
            number,
            work,
        })
    }

    fn begin(&self, frame: &Frame<'_>) {
        match frame.content::<Ready>() {
            Ok(ready) => {
                tracing::info!(channel = %self.channel.name, bot = ready.username(), "receiving from Discord");
                let (bot, session) = (ready.bot(), ready.into_session(&self.url));
                self.channel.offer_commands(bot.application, self.context);
                self.channel.marks.open_gap(&Some(bot.id));
                self.channel
                    .with_cursor(|cursor| cursor.begin(session, bot));
            }
            Err(error) => {
                tracing::error!(channel = %self.channel.name, %error, "the beginning of a session could not be read");
            }
        }
    }
}

fn greeting(text: &str) -> Result<Duration, End> {
    let frame = Frame::read(text).ok().filter(|frame| frame.op == op::HELLO);
    let hello = frame.and_then(|frame| frame.content::<Hello>().ok());
    let hello = hello.ok_or_else(|| End::Lost(UNEXPECTED.to_owned()))?;
    Ok(Duration::from_millis(hello.heartbeat_interval.max(1)).min(LONGEST_INTERVAL))
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

/// Where the gateway is.
async fn gateway_address(channel: &DiscordChannel) -> Result<String, End> {
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
    let asked = channel
        .api
        .call::<Gateway>(&Route::gateway(), Body::Empty)
        .await;
    let gateway = asked.map_err(|error| match error {
        CallError::RateLimited(pause) => {
            End::Down(ChannelError::RateLimited { retry_after: pause })
        }
        error => match error.repeatable() {
            ChannelError::Unavailable(why) => End::Lost(why),
            error => End::Down(error),
        },
    })?;
    if let Some(limit) = gateway
        .session_start_limit
        .filter(|limit| limit.remaining == 0)
    {
        tracing::warn!(channel = %channel.name, reset_after = limit.reset_after, "the sessions of the day are used up");
        let retry_after = Duration::from_millis(limit.reset_after).min(LONGEST_PAUSE);
        return Err(End::Down(ChannelError::RateLimited { retry_after }));
    }
    if let Some(shards) = gateway.shards.filter(|shards| *shards > 1) {
        tracing::warn!(
            channel = %channel.name, shards,
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

/// What a closing means, by its code.
fn closed(channel: &DiscordChannel, reason: Option<(u16, String)>) -> End {
    let Some((code, reason)) = reason else {
        return End::Lost("the gateway hung up".to_owned());
    };
    let why = channel.api.rest.scrub(&format!(
        "the gateway closed the connection: {reason} (code {code})"
    ));
    match code {
        4004 => End::Down(ChannelError::Auth(why)),
        4010 | 4011 => End::Down(wrong(
            "token",
            &format!(
                "is of a bot on more servers than one connection serves (2,500), and this program has no shards: take \
                 the bot out of some, or use a bot of your own; {why}"
            ),
        )),
        4012 => End::Down(wrong(
            "gatewayUrl",
            &format!("leads to a gateway that does not speak version 10; leave the key out; {why}"),
        )),
        4013 => End::Down(wrong(
            "intents",
            &format!("are none that Discord knows; leave the key out; {why}"),
        )),
        4014 => End::Down(wrong(
            "intents",
            &format!(
                "ask for more than the bot may have: switch on {} on the bot's page at \
                 discord.com/developers/applications; {why}",
                privileges(channel.config.intents)
            ),
        )),
        // A wrong number and a session that has timed out cannot be resumed.
        4007 | 4009 => End::SessionOver(why),
        _ => End::Lost(why),
    }
}

/// What the portal calls those of these intents that have to be switched on there.
fn privileges(intents: u64) -> String {
    let names = [
        (1 << 8, "Presence Intent"),
        (1 << 1, "Server Members Intent"),
        (1 << 15, "Message Content Intent"),
    ];
    let asked = names
        .iter()
        .filter(|(bit, _)| intents & bit != 0)
        .map(|(_, name)| format!("\"{name}\""));
    asked.collect::<Vec<_>>().join(" and ")
}
