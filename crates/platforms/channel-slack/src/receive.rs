//! Receives: keeps a connection, and acknowledges envelopes after they are stored.
//!
//! Slack repeats an envelope without an acknowledgement within three seconds. An envelope that is
//! stored in time is acknowledged; a later one is repeated, and recognised then. A message that
//! cannot be stored now is kept and offered again here, so that it does not depend on the number of
//! Slack's attempts.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::catch_up::Lag;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Lanes, Platform as _, Reconnect, jittered_backoff};
use serde::Deserialize;
use tokio::time::Instant;

use crate::candidate::{CandidateMessage, Identity, command_candidate, message_candidate};
use crate::catch_up::MAX_MARKS;
use crate::channel::Slack;
use crate::error::{CallError, required_call_error};
use crate::interaction::interaction_candidate;
use crate::socket::{Socket, SocketEvent};
use crate::target::SendTarget;
use crate::wire::{PayloadOrigin, SlackEventPayload, SocketFrame};

/// Time limit of an acknowledgement, before Slack's timeout.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(2500);
/// Timeout of the greeting of a new connection.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Failed connections in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted this long counts as good, even without an envelope.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Jobs after which reading pauses. The conversations of a catch-up are included, and should not
/// delay others.
const MAX_JOBS: usize = 256 + 2 * MAX_MARKS;

/// Events after which the token is checked.
const TOKEN_EVENTS: &[&str] = &["app_uninstalled", "tokens_revoked"];

/// Reasons of Slack to replace a working connection.
const REFRESH_REASONS: &[&str] = &["refresh_requested", "warning"];

type EnvelopeLanes<'a> = Lanes<'a, String, HandledEnvelope>;

/// The outcome of an envelope or of a catch-up.
#[derive(Debug)]
struct HandledEnvelope {
    /// The connection it came through.
    connection: u64,
    /// The envelope to acknowledge, if it came in one.
    envelope: Option<String>,
    received: Instant,
    next: Next,
}

/// The end of a connection.
#[derive(Debug)]
enum ConnectionEnd {
    /// The run ends.
    Stop,
    /// It brought an envelope, or lasted.
    Used(String),
    /// It was of no use.
    Useless(String),
}

impl Slack {
    /// Receives until the run ends.
    pub(crate) async fn receive_envelopes(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut work = EnvelopeLanes::new(MAX_JOBS);
        let mut connection = 0;
        // `true` if messages may have been missed.
        let (mut is_behind, mut is_recovered) = (true, false);
        let mut reconnect = Reconnect::new("Slack", FIRST_PAUSE, MAX_FAILURES);
        let mut useless = 0;
        loop {
            connection += 1;
            if connection > 1 {
                // What ended the last connection may have ended these, too.
                self.api.rest.renew();
            }
            let end = match self.connect(&mut work).await {
                Ok((me, socket)) => {
                    reconnect.succeeded();
                    if !std::mem::replace(&mut is_recovered, true) {
                        self.recover_drafts(&me.user, context).await;
                    }
                    self.listen(&me, socket, connection, &mut is_behind, &mut work, context)
                        .await?
                }
                Err(error) => {
                    let pause =
                        reconnect.failed(required_call_error(error), context.progress.as_ref())?;
                    // Useless connections before it count, too.
                    let pause = pause.max(jittered_backoff(FIRST_PAUSE, useless));
                    (is_behind, useless) = (true, useless + 1);
                    self.run_until(&mut work, tokio::time::sleep(pause)).await;
                    continue;
                }
            };
            match end {
                ConnectionEnd::Stop => return Ok(()),
                ConnectionEnd::Used(why) => {
                    useless = 0;
                    tracing::debug!(channel = %self.base.name, why, "a new connection is opened");
                }
                ConnectionEnd::Useless(why) => {
                    context.progress.degraded(&why);
                    let pause = jittered_backoff(FIRST_PAUSE, useless);
                    self.run_until(&mut work, tokio::time::sleep(pause)).await;
                    useless += 1;
                }
            }
        }
    }

    /// Asks for the app's identity, each time because tokens can be revoked, and opens a
    /// connection.
    async fn connect(&self, work: &mut EnvelopeLanes<'_>) -> Result<(Identity, Socket), CallError> {
        let opened = self.run_until(work, async {
            let me = self.identify().await?;
            Ok((me, Socket::open(&self.api).await?))
        });
        opened.await
    }

    /// Asks Slack for the bot's identity.
    pub(crate) async fn identify(&self) -> Result<Identity, CallError> {
        #[derive(Deserialize)]
        struct Me {
            user_id: String,
            #[serde(default)]
            user: String,
            #[serde(default)]
            team: String,
        }
        let Me {
            user_id,
            user,
            team,
        } = self.api.query("auth.test", &[]).await?;
        self.bot_user.get_or_init(|| user_id.clone());
        Ok(Identity {
            user: user_id,
            name: user,
            team,
        })
    }

    /// Waits for `other` while work continues.
    async fn run_until<R>(
        &self,
        work: &mut EnvelopeLanes<'_>,
        other: impl Future<Output = R>,
    ) -> R {
        let mut other = std::pin::pin!(other);
        loop {
            tokio::select! {
                result = &mut other => return result,
                // Its connection is closed: Slack repeats it, and it is recognised then.
                _ = work.next() => {}
            }
        }
    }

    /// Handles the frames of one connection.
    async fn listen<'a>(
        &'a self,
        me: &Identity,
        mut socket: Socket,
        connection: u64,
        is_behind: &mut bool,
        work: &mut EnvelopeLanes<'a>,
        context: &'a ChannelContext,
    ) -> Result<ConnectionEnd, ChannelError> {
        let began = Instant::now();
        let mut state = ConnectionState {
            is_greeted: false,
            has_envelope: false,
            is_replaced: false,
            is_behind: *is_behind,
        };
        let why = loop {
            let is_free = work.len() < MAX_JOBS;
            tokio::select! {
                ended = work.next_all() => {
                    let is_last = ended.iter().any(|work| work.next == Next::Stop);
                    let ended = ended.into_iter();
                    let envelopes = ended.filter_map(|work| self.envelope_in_time(work, connection));
                    let envelopes: Vec<_> = envelopes.collect();
                    if !envelopes.is_empty()
                        && let Err(why) = socket.acknowledge(&envelopes).await
                    {
                        break why;
                    }
                    if is_last {
                        return Ok(ConnectionEnd::Stop);
                    }
                },
                rejected = self.rejection.wait() => return Err(rejected),
                () = tokio::time::sleep_until(began + HELLO_TIMEOUT), if !state.is_greeted => {
                    break "Slack did not greet".to_owned();
                }
                event = socket.next(), if is_free => match event {
                    Err(why) => break why,
                    Ok(SocketEvent::Activity) => context.progress.alive(),
                    Ok(SocketEvent::Frame(text)) => {
                        context.progress.alive();
                        if let Some(why) = self.handle_frame(me, &text, connection, &mut state, work, context) {
                            break why;
                        }
                    }
                },
            }
        };
        *is_behind = state.is_behind || !state.is_replaced;
        let why = format!("the connection to Slack ended: {why}");
        Ok(if state.has_envelope || began.elapsed() >= STABLE_AFTER {
            ConnectionEnd::Used(why)
        } else {
            ConnectionEnd::Useless(why)
        })
    }

    /// Returns the envelope to acknowledge, if there is one and it is not too late.
    fn envelope_in_time(&self, ended: HandledEnvelope, connection: u64) -> Option<String> {
        let envelope = ended.envelope.filter(|_| ended.next == Next::Confirm)?;
        if ended.connection == connection && ended.received.elapsed() < ACKNOWLEDGE_TIMEOUT {
            return Some(envelope);
        }
        tracing::debug!(channel = %self.base.name, "it is too late to acknowledge an envelope");
        None
    }

    /// Handles one frame. Returns the reason if the connection is over.
    fn handle_frame<'a>(
        &'a self,
        me: &Identity,
        text: &str,
        connection: u64,
        state: &mut ConnectionState,
        work: &mut EnvelopeLanes<'a>,
        context: &'a ChannelContext,
    ) -> Option<String> {
        let frame = match SocketFrame::parse(text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "a frame could not be read and was passed over");
                return None;
            }
        };
        match frame.kind.as_str() {
            "hello" => {
                state.is_greeted = true;
                if std::mem::take(&mut state.is_behind) {
                    self.schedule_catch_up(me, connection, work, context);
                }
                tracing::info!(channel = %self.base.name, bot = me.name, team = me.team, "receiving from Slack");
                if connection == 1 && frame.num_connections.is_some_and(|count| count > 1) {
                    self.warn_about_shared_token(context);
                }
                return None;
            }
            "disconnect" => {
                let reason = frame
                    .reason
                    .unwrap_or_else(|| "no reason was given".to_owned());
                // Later events are sent to the next connection.
                state.is_replaced = REFRESH_REASONS.contains(&reason.as_str());
                return Some(reason);
            }
            _ => {}
        }
        let Some(envelope) = frame.envelope_id.clone() else {
            tracing::debug!(channel = %self.base.name, kind = frame.kind, "a frame without an envelope was passed over");
            return None;
        };
        let origin = PayloadOrigin::peek(frame.payload());
        if TOKEN_EVENTS.contains(&origin.kind.as_str()) {
            self.check_token();
        }
        state.has_envelope = true;
        let (payload, received) = (Box::<str>::from(frame.payload()), Instant::now());
        let kind = frame.kind;
        let me = me.clone();
        let waiting = self.fetches.add_waiting_event(&origin.chat);
        work.add(origin.chat.clone(), async move {
            drop(waiting);
            // While it waits in its lane, it takes the room of the envelope alone.
            let handling = self.handle_envelope(&me, &kind, origin, &payload, context);
            let next = Box::pin(handling).await;
            HandledEnvelope {
                connection,
                envelope: Some(envelope),
                received,
                next,
            }
        });
        None
    }

    /// Handles the content of an envelope, which is parsed after its attempt was noted. Slack
    /// repeats it until it is acknowledged, and older messages are in the history: both have the
    /// same key in the quarantine.
    async fn handle_envelope(
        &self,
        me: &Identity,
        kind: &str,
        origin: PayloadOrigin,
        payload: &str,
        context: &ChannelContext,
    ) -> Next {
        let admitted = self
            .base
            .quarantine
            .admit(&origin.key, payload.as_bytes(), context.progress.as_ref())
            .await;
        let Some(handling) = admitted else {
            let PayloadOrigin {
                chat, thread, ts, ..
            } = origin;
            if let Some(ts) = ts {
                self.marks.mark_handled(&SendTarget { chat, thread }, &ts);
            }
            return Next::Confirm;
        };
        match self.parse_envelope(me, kind, payload, context) {
            Some((event, candidate)) => {
                self.handle_candidate(&event, candidate, handling, context)
                    .await
            }
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Adds a catch-up to the lane of every known conversation, before later events.
    fn schedule_catch_up<'a>(
        &'a self,
        me: &Identity,
        connection: u64,
        work: &mut EnvelopeLanes<'a>,
        context: &'a ChannelContext,
    ) {
        self.marks.open_gap(&me.user);
        for Lag { place, .. } in self.marks.lags() {
            let chat = place.chat;
            if !self.fetches.schedule(&chat) {
                continue;
            }
            let (me, received) = (me.clone(), Instant::now());
            work.add(chat.clone(), async move {
                let next = self.catch_up(&me, &chat, context).await;
                HandledEnvelope {
                    connection,
                    envelope: None,
                    received,
                    next,
                }
            });
        }
    }

    /// Reports that another program shares the messages. Slack counts recent connections, too, so
    /// this is reported at the first connection only.
    fn warn_about_shared_token(&self, context: &ChannelContext) {
        tracing::warn!(channel = %self.base.name, "another program is connected with the same appToken");
        context.progress.degraded(
            "another program is connected with this appToken, and Slack gives each only a part of the messages; stop \
             it, or give it an app of its own",
        );
    }

    /// Returns the event's name and its candidate. `None` if there is nothing to do.
    fn parse_envelope(
        &self,
        me: &Identity,
        kind: &str,
        payload: &str,
        context: &ChannelContext,
    ) -> Option<(String, CandidateMessage)> {
        let unnamed = |candidate| (String::new(), candidate);
        let read = match kind {
            "events_api" => json::from_str(payload).map(|payload| {
                let SlackEventPayload { event_id, event } = payload;
                let event_id = event_id.as_str().unwrap_or_default().to_owned();
                let candidate = message_candidate(&self.config, me, &event);
                candidate.map(|candidate| (event_id, candidate))
            }),
            "interactive" => json::from_str(payload)
                .map(|interaction| interaction_candidate(interaction).map(unnamed)),
            "slash_commands" => json::from_str(payload)
                .map(|command| command_candidate(command, &context.commands).map(unnamed)),
            _ => {
                tracing::debug!(channel = %self.base.name, kind, "an envelope of an unknown kind was passed over");
                return None;
            }
        };
        match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, kind, "an envelope could not be read and was passed over");
                None
            }
        }
    }
}

/// State of a connection.
#[derive(Debug)]
struct ConnectionState {
    is_greeted: bool,
    /// `true` if it brought an envelope.
    has_envelope: bool,
    /// `true` if Slack replaces it.
    is_replaced: bool,
    /// `true` if messages before it may have been missed.
    is_behind: bool,
}
