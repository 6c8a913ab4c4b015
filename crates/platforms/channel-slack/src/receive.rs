//! Receives: one connection after the other, acknowledging nothing that is not stored.
//!
//! Slack wants an acknowledgement within three seconds and sends again what it does not get one for.
//! What is stored in time is acknowledged; what takes longer is left to come again, and is known then.
//! What cannot be stored now is kept and offered again here, so that it does not depend on how often
//! Slack tries.

use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Value, json};
use nanobot_channel_kit::catch_up::Lag;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Lanes, jittered_backoff};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::candidate::{Candidate, Identity, of_command, of_event, of_interaction};
use crate::catch_up::MARKED;
use crate::channel::SlackChannel;
use crate::error::{CallError, fundamental};
use crate::intake::Ended;
use crate::place::Place;
use crate::socket::{Heard, Socket};
use crate::wire::{Event, Frame, Origin};

/// After that Slack has given up waiting, or is about to.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_millis(2500);
/// How long the greeting of a new connection may take.
const GREETING: Duration = Duration::from_secs(20);
/// How many connections may fail in a row before the channel counts as down.
const PATIENCE: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted so long was a good one, whether or not it brought anything.
const GOOD: Duration = Duration::from_secs(30);
/// How much may be under way before no more is read. The conversations that are caught up with are among
/// it, and are not to keep others waiting.
const BUSY: usize = 256 + 2 * MARKED;

/// Events after which it has to be seen whether the tokens still work.
const LEAVING: &[&str] = &["app_uninstalled", "tokens_revoked"];

/// Why Slack wants a new connection in place of one that still works.
const REFRESHING: &[&str] = &["refresh_requested", "warning"];

type Work<'a> = Lanes<'a, String, Ended>;

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// The assistant is going down.
    Stop,
    /// It is over; it brought something, or lasted.
    Used(String),
    /// It is over and was of no use.
    Useless(String),
}

impl SlackChannel {
    /// Receives until the assistant goes down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        let mut work = Work::new(BUSY);
        let mut connection = 0;
        // Whether something may have been said that nobody will tell.
        let (mut is_behind, mut is_recovered) = (true, false);
        let (mut failures, mut useless) = (0, 0);
        loop {
            connection += 1;
            let end = match self.connect(&mut work).await {
                Ok((me, socket)) => {
                    failures = 0;
                    if !std::mem::replace(&mut is_recovered, true) {
                        self.recover_drafts(&me.user, context).await;
                    }
                    self.listen(&me, socket, connection, &mut is_behind, &mut work, context)
                        .await?
                }
                Err(CallError::RateLimited(pause)) => {
                    is_behind = true;
                    context
                        .progress
                        .degraded(&format!("Slack asks for a pause of {} s", pause.as_secs()));
                    self.meanwhile(&mut work, tokio::time::sleep(pause)).await;
                    continue;
                }
                Err(error) => match fundamental(error) {
                    ChannelError::Unavailable(why) if failures + 1 < PATIENCE => {
                        is_behind = true;
                        failures += 1;
                        End::Useless(why)
                    }
                    error => return Err(error),
                },
            };
            match end {
                End::Stop => return Ok(()),
                End::Used(why) => {
                    useless = 0;
                    tracing::debug!(channel = %self.name, why, "a new connection is opened");
                }
                End::Useless(why) => {
                    context.progress.degraded(&why);
                    self.meanwhile(
                        &mut work,
                        tokio::time::sleep(jittered_backoff(FIRST_PAUSE, useless)),
                    )
                    .await;
                    useless += 1;
                }
            }
        }
    }

    /// Finds out who the app is, every time anew because tokens can be revoked, and opens a
    /// connection.
    async fn connect(&self, work: &mut Work<'_>) -> Result<(Identity, Socket), CallError> {
        let opened = self.meanwhile(work, async {
            let me = self.identify().await?;
            Ok((me, Socket::open(&self.api).await?))
        });
        opened.await
    }

    /// Who Slack says the bot is.
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
        } = self.api.ask("auth.test", &[]).await?;
        self.bot_user.get_or_init(|| user_id.clone());
        Ok(Identity {
            user: user_id,
            name: user,
            team,
        })
    }

    /// Waits for something else while the work goes on.
    async fn meanwhile<R>(&self, work: &mut Work<'_>, other: impl Future<Output = R>) -> R {
        let mut other = std::pin::pin!(other);
        loop {
            tokio::select! {
                result = &mut other => return result,
                // Its connection is gone: Slack will send it again, and it is known then.
                _ = work.next() => {}
            }
        }
    }

    /// Takes what one connection brings.
    async fn listen<'a>(
        &'a self,
        me: &Identity,
        mut socket: Socket,
        connection: u64,
        is_behind: &mut bool,
        work: &mut Work<'a>,
        context: &'a ChannelContext,
    ) -> Result<End, ChannelError> {
        let began = Instant::now();
        let mut refused = self.refused.subscribe();
        let mut state = Listening {
            is_greeted: false,
            brought: false,
            makes_way: false,
            is_behind: *is_behind,
        };
        let why = loop {
            let is_free = work.len() < BUSY;
            tokio::select! {
                ended = work.next() => match ended.next {
                    Next::Stop => return Ok(End::Stop),
                    Next::Confirm => {
                        let in_time = ended.connection == connection && ended.received.elapsed() < ACKNOWLEDGE_WITHIN;
                        match ended.envelope {
                            Some(envelope) if in_time => {
                                if let Err(why) = socket.acknowledge(&envelope).await {
                                    break why;
                                }
                            }
                            Some(_) => tracing::debug!(channel = %self.name, "it is too late to acknowledge an envelope"),
                            None => {}
                        }
                    }
                },
                why = refusal(&mut refused) => return Err(ChannelError::Auth(why)),
                () = tokio::time::sleep_until(began + GREETING), if !state.is_greeted => {
                    break "Slack did not greet".to_owned();
                }
                heard = socket.next(), if is_free => match heard {
                    Err(why) => break why,
                    Ok(Heard::Life) => context.progress.alive(),
                    Ok(Heard::Frame(text)) => {
                        context.progress.alive();
                        if let Some(why) = self.take_frame(me, &text, connection, &mut state, work, context) {
                            break why;
                        }
                    }
                },
            }
        };
        *is_behind = state.is_behind || !state.makes_way;
        let why = format!("the connection to Slack ended: {why}");
        Ok(if state.brought || began.elapsed() >= GOOD {
            End::Used(why)
        } else {
            End::Useless(why)
        })
    }

    /// Deals with one frame. Returns why the connection is over, if it is.
    fn take_frame<'a>(
        &'a self,
        me: &Identity,
        text: &str,
        connection: u64,
        state: &mut Listening,
        work: &mut Work<'a>,
        context: &'a ChannelContext,
    ) -> Option<String> {
        let frame = match Frame::find(text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, "a frame could not be read and was passed over");
                return None;
            }
        };
        match frame.kind.as_str() {
            "hello" => {
                state.is_greeted = true;
                if std::mem::take(&mut state.is_behind) {
                    self.add_missed(me, connection, work, context);
                }
                tracing::info!(channel = %self.name, bot = me.name, team = me.team, "receiving from Slack");
                if connection == 1 && frame.num_connections.is_some_and(|count| count > 1) {
                    self.warn_of_others(context);
                }
                return None;
            }
            "disconnect" => {
                let reason = frame
                    .reason
                    .unwrap_or_else(|| "no reason was given".to_owned());
                // What comes meanwhile is told to the next connection.
                state.makes_way = REFRESHING.contains(&reason.as_str());
                return Some(reason);
            }
            _ => {}
        }
        let Some(envelope) = frame.envelope_id.clone() else {
            tracing::debug!(channel = %self.name, kind = frame.kind, "a frame without an envelope was passed over");
            return None;
        };
        let origin = Origin::find(frame.payload());
        if LEAVING.contains(&origin.kind.as_str()) {
            self.check_token();
        }
        state.brought = true;
        let (payload, received) = (Box::<str>::from(frame.payload()), Instant::now());
        let kind = frame.kind;
        let me = me.clone();
        let waiting = self.fetches.wait(&origin.chat);
        work.add(origin.chat.clone(), async move {
            drop(waiting);
            let next = self
                .take_envelope(&me, &kind, origin, &payload, context)
                .await;
            Ended {
                connection,
                envelope: Some(envelope),
                received,
                next,
            }
        });
        None
    }

    /// Deals with the content of an envelope, which is read after its try was noted. Slack tells of it
    /// again until it is acknowledged, and what is no longer told is in the history: both are the same
    /// to the tries.
    async fn take_envelope(
        &self,
        me: &Identity,
        kind: &str,
        origin: Origin,
        payload: &str,
        context: &ChannelContext,
    ) -> Next {
        let admitted = self
            .quarantine
            .admit(&origin.key, payload.as_bytes(), context.progress.as_ref())
            .await;
        let Some(handling) = admitted else {
            let Origin {
                chat, thread, ts, ..
            } = origin;
            if let Some(ts) = ts {
                self.marks.dealt_with(&Place { chat, thread }, &ts);
            }
            return Next::Confirm;
        };
        match self.open_envelope(me, kind, payload, context) {
            Some((event, candidate)) => self.take(&event, candidate, handling, context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Puts what was missed before what comes now, in every conversation that the assistant knows.
    fn add_missed<'a>(
        &'a self,
        me: &Identity,
        connection: u64,
        work: &mut Work<'a>,
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
                Ended {
                    connection,
                    envelope: None,
                    received,
                    next,
                }
            });
        }
    }

    /// Says that the messages are shared. Slack counts a connection of a moment ago too, so this is
    /// said at the first connection alone.
    fn warn_of_others(&self, context: &ChannelContext) {
        tracing::warn!(channel = %self.name, "another program is connected with the same appToken");
        context.progress.degraded(
            "another program is connected with this appToken, and Slack gives each only a part of the messages; stop \
             it, or give it an app of its own",
        );
    }

    /// The event's name and what it is about. `None` when there is nothing to do.
    fn open_envelope(
        &self,
        me: &Identity,
        kind: &str,
        payload: &str,
        context: &ChannelContext,
    ) -> Option<(String, Candidate)> {
        let payload: Value = match json::from_str(payload) {
            Ok(payload) => payload,
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, kind, "an envelope could not be read and was passed over");
                return None;
            }
        };
        let event_id = payload
            .get("event_id")
            .and_then(|id| id.as_str())
            .unwrap_or_default()
            .to_owned();
        let read = match kind {
            "events_api" => {
                let event = payload.get("event").cloned().unwrap_or_default();
                serde_json::from_value::<Event>(event)
                    .map(|event| of_event(&self.config, me, &event))
            }
            "interactive" => serde_json::from_value(payload).map(of_interaction),
            "slash_commands" => serde_json::from_value(payload)
                .map(|command| of_command(command, &context.commands)),
            _ => {
                tracing::debug!(channel = %self.name, kind, "an envelope of an unknown kind was passed over");
                return None;
            }
        };
        match read {
            Ok(candidate) => candidate.map(|candidate| (event_id, candidate)),
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, kind, "an envelope could not be read and was passed over");
                None
            }
        }
    }
}

/// What is known of a connection.
#[derive(Debug)]
struct Listening {
    is_greeted: bool,
    /// Whether it brought an envelope.
    brought: bool,
    /// Whether Slack wants another one in its place.
    makes_way: bool,
    /// Whether something may have been said before it that nobody will tell.
    is_behind: bool,
}

/// Waits until Slack does not accept the bot's token any more, and says why.
async fn refusal(refused: &mut watch::Receiver<Option<String>>) -> String {
    let why = refused
        .wait_for(Option::is_some)
        .await
        .map(|why| why.clone().unwrap_or_default());
    match why {
        Ok(why) => why,
        Err(_) => std::future::pending().await,
    }
}
