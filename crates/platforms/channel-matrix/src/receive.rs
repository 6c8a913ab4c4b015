//! Receives by syncs; the position moves on after the messages before it are stored.
//!
//! Rooms are handled concurrently, the events of one room in order. The next sync waits for the
//! rooms of the one before, for some seconds: then it goes on without a room that is slow, and only
//! the position on disk stays.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Liveness};
use nanobot_channel_kit::intake::{self, Next};
use nanobot_channel_kit::{Lanes, Platform as _, Reconnect, Trouble};
use tokio::time::Instant;

use crate::candidate::{Place, Reader};
use crate::channel::Matrix;
use crate::encryption::EncryptionError;
use crate::error::required_call_error;
use crate::held::{HeldEvent, HeldEvents};
use crate::position::SyncWindow;
use crate::sync::{Polled, Poller};
use crate::wire::{Event, JoinedRoom, SyncResponse, member};
use nanobot_matrix_crypto::CryptoError;

/// Failed syncs in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Time that a sync waits for the rooms of the one before.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rooms that are handled at a time.
const MAX_LANES: usize = 32;
/// Rooms with events under way or waiting, above which no sync begins.
const MAX_WAITING: usize = 512;

/// The outcome of the events of a room.
#[derive(Debug)]
struct RoomDone {
    sync: u64,
    held: Vec<HeldEvent>,
    next: Next,
}

/// A run of receiving.
struct Receiver<'a> {
    platform: &'a Arc<Matrix>,
    context: &'a ChannelContext,
    lanes: Lanes<'a, String, RoomDone>,
    window: SyncWindow,
    held: HeldEvents,
    trouble: Arc<Trouble>,
}

impl Matrix {
    /// Receives until the run ends.
    pub(crate) async fn receive_syncs(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut reconnect = Reconnect::new("the homeserver", FIRST_PAUSE, MAX_FAILURES);
        let names = loop {
            match self.learn_names().await {
                Ok(names) => break names,
                Err(error) => {
                    let error = required_call_error(error);
                    let pause = reconnect.failed(error, context.progress.as_ref())?;
                    tokio::time::sleep(pause).await;
                }
            }
        };
        let account = self.api.account_key(&names.user_id);
        self.recover_drafts(&account, context).await;
        let window = SyncWindow::open(account, context.notes.as_ref()).await;
        let receiver = Receiver {
            platform: self,
            context,
            lanes: Lanes::new(MAX_LANES),
            window,
            held: HeldEvents::default(),
            trouble: Arc::default(),
        };
        receiver.run().await
    }
}

impl Receiver<'_> {
    async fn run(mut self) -> Result<(), ChannelError> {
        let liveness = self.trouble.wrap(&self.context.progress);
        let mut reconnect = Reconnect::new("the homeserver", FIRST_PAUSE, MAX_FAILURES);
        let mut poller = Poller::new();
        let mut has_succeeded = false;
        loop {
            if self.until_idle().await == Next::Stop {
                return Ok(());
            }
            let since = self.window.since().map(str::to_owned);
            let api = Arc::clone(&self.platform.api);
            let poll = poller.poll(&api, since.as_deref());
            let Some(polled) = self.run_until(poll).await else {
                return Ok(());
            };
            match polled {
                Ok(Polled::Changes(changes)) => {
                    reconnect.succeeded();
                    has_succeeded = true;
                    self.take(*changes, since, liveness.as_ref()).await;
                    liveness.alive();
                }
                Ok(Polled::Again) => {}
                Ok(Polled::PositionLost) => self.window.reset(),
                // An answer that was interrupted is asked for again at once, the first time.
                Err(ChannelError::Unavailable(why)) if std::mem::take(&mut has_succeeded) => {
                    tracing::debug!(why, "a sync was interrupted");
                }
                Err(error) => {
                    let pause = reconnect.failed(error, liveness.as_ref())?;
                    if self.run_until(tokio::time::sleep(pause)).await.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits for the rooms of the last sync, for some seconds.
    async fn until_idle(&mut self) -> Next {
        let deadline = Instant::now() + PATIENCE;
        while !self.lanes.is_empty() {
            let is_full = self.lanes.len() > MAX_WAITING;
            let done = if is_full {
                self.lanes.next().await
            } else {
                match tokio::time::timeout_at(deadline, self.lanes.next()).await {
                    Ok(done) => done,
                    Err(_) => break,
                }
            };
            if self.settle(done).await == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Confirm
    }

    /// Waits for `other` while rooms are handled. `None` if the run ends.
    async fn run_until<R>(&mut self, other: impl Future<Output = R>) -> Option<R> {
        let mut other = std::pin::pin!(other);
        loop {
            let done = tokio::select! {
                result = &mut other => return Some(result),
                done = self.lanes.next() => done,
            };
            if self.settle(done).await == Next::Stop {
                return None;
            }
        }
    }

    async fn settle(&mut self, done: RoomDone) -> Next {
        if done.next == Next::Stop {
            return Next::Stop;
        }
        self.window.done(done.sync, done.held.len());
        for event in done.held {
            if event.is_expired() {
                self.give_up(&event);
            } else if let Some(oldest) = self.held.add(event) {
                self.give_up(&oldest);
            }
        }
        self.window.write(self.context.notes.as_ref()).await;
        Next::Confirm
    }

    fn give_up(&mut self, event: &HeldEvent) {
        let (channel, room) = (&self.platform.base.name, &event.room);
        tracing::warn!(%channel, room, "a message could not be decrypted: its key did not come");
        self.window.done(event.sync, 0);
    }

    /// Takes the answer to a sync. Without a position before it, its messages are history.
    async fn take(
        &mut self,
        changes: SyncResponse,
        since: Option<String>,
        liveness: &dyn Liveness,
    ) {
        let platform = self.platform;
        let SyncResponse {
            next_batch,
            joined,
            invited,
            left,
            account_data,
            encryption,
        } = changes;
        for event in &account_data {
            if event.kind() == "m.direct" {
                platform.rooms.set_direct(event.content());
            }
        }
        let mut has_new_encrypted = false;
        for room in &joined {
            has_new_encrypted |= platform.rooms.update(room);
        }
        if has_new_encrypted {
            platform.outgoing.write_encrypted().await;
        }
        for room in &left {
            platform.rooms.forget(room);
        }
        let keys = platform.take_keys(encryption, &self.trouble, self.context, liveness);
        let rooms_with_keys = keys.await;
        let joined: Vec<JoinedRoom> = joined
            .into_iter()
            .filter(|room| since.is_some() && (room.is_limited || room.has_messages()))
            .collect();
        let number = self.window.add(next_batch, joined.len() + invited.len());
        let context = self.context;
        for room in joined {
            let since = since.clone().unwrap_or_default();
            self.lanes.add(room.id.clone(), async move {
                platform.handle_room(room, since, number, context).await
            });
        }
        for (room, state) in invited {
            self.lanes.add(room.clone(), async move {
                platform.handle_invite(&room, &state, context).await;
                RoomDone {
                    sync: number,
                    held: Vec::new(),
                    next: Next::Confirm,
                }
            });
        }
        for held in self.held.take_due(&rooms_with_keys) {
            self.lanes.add(held.room.clone(), async move {
                platform.handle_held(held, context).await
            });
        }
        self.window.write(self.context.notes.as_ref()).await;
    }
}

impl JoinedRoom {
    fn has_messages(&self) -> bool {
        self.timeline.iter().any(is_message)
    }
}

/// `true` for events that may be a message of a person.
fn is_message(event: &Event) -> bool {
    matches!(
        event.kind(),
        "m.room.message" | "m.room.encrypted" | "m.sticker"
    )
}

/// The outcome of an event.
enum EventEnd {
    Done(Next),
    /// Its key is not known yet.
    Held,
}

impl Matrix {
    async fn handle_room(
        &self,
        room: JoinedRoom,
        since: String,
        sync: u64,
        context: &ChannelContext,
    ) -> RoomDone {
        let id = room.id.clone();
        let mut held = Vec::new();
        for event in self.events_since(room, &since).await {
            match self.handle_event(&id, &event, context).await {
                EventEnd::Done(Next::Confirm) => {}
                EventEnd::Done(next) => return RoomDone { sync, held, next },
                EventEnd::Held => held.push(HeldEvent {
                    room: id.clone(),
                    event,
                    sync,
                    held_at: Instant::now(),
                    tried_at: Instant::now(),
                }),
            }
        }
        RoomDone {
            sync,
            held,
            next: Next::Confirm,
        }
    }

    async fn handle_held(&self, held: HeldEvent, context: &ChannelContext) -> RoomDone {
        let end = self.handle_event(&held.room, &held.event, context).await;
        let (next, again) = match end {
            EventEnd::Done(next) => (next, None),
            EventEnd::Held => (
                Next::Confirm,
                Some(HeldEvent {
                    tried_at: Instant::now(),
                    ..held.clone()
                }),
            ),
        };
        RoomDone {
            sync: held.sync,
            held: again.into_iter().collect(),
            next,
        }
    }

    async fn handle_event(&self, room: &str, event: &Event, context: &ChannelContext) -> EventEnd {
        let names = self.names();
        let (Some(id), Some(sender)) = (event.id(), event.sender()) else {
            return EventEnd::Done(Next::Confirm);
        };
        let is_redacted = member(&event.0, "unsigned")
            .get("redacted_because")
            .is_some();
        let name = id.to_owned();
        if !is_message(event)
            || is_redacted
            || sender == names.user_id
            || self.recent().contains(&name)
        {
            return EventEnd::Done(Next::Confirm);
        }
        let bytes = event.0.to_string();
        let progress = context.progress.as_ref();
        let admitted = self
            .base
            .quarantine
            .admit(&name, bytes.as_bytes(), progress)
            .await;
        let Some(handling) = admitted else {
            return EventEnd::Done(Next::Confirm);
        };
        let is_encrypted = event.kind() == "m.room.encrypted";
        let clear = if is_encrypted {
            match self.decrypted(room, event).await {
                Ok(Some(clear)) => clear,
                Ok(None) => {
                    handling.end().await;
                    return EventEnd::Done(Next::Confirm);
                }
                Err(()) => {
                    handling.end().await;
                    return EventEnd::Held;
                }
            }
        } else {
            event.clone()
        };
        let known = self.rooms.get(room).unwrap_or_default();
        let place = Place {
            room,
            name: &known.name,
            is_direct: self.is_direct(room, known.joined).await,
            is_encrypted,
        };
        let reader = Reader {
            names: &names,
            allows_room_mentions: self.config.allow_room_mentions,
        };
        let candidate = reader.candidate(&place, &clear, |event| self.is_own_message(event));
        let Some(candidate) = candidate else {
            handling.end().await;
            return EventEnd::Done(Next::Confirm);
        };
        let next = intake::accept(self, &candidate, Some(handling), context).await;
        if next == Next::Confirm {
            self.recent().insert(name);
        }
        EventEnd::Done(next)
    }

    /// Decrypts an event. `None` if it cannot be decrypted.
    ///
    /// # Errors
    /// If its key may still come.
    async fn decrypted(&self, room: &str, event: &Event) -> Result<Option<Event>, ()> {
        let error = match self.encryption.decrypt(room, &event.0).await {
            Ok(clear) => {
                self.outgoing.keep_encrypted(room).await;
                return Ok(Some(event.decrypted(&clear.event)));
            }
            Err(error) => error,
        };
        match error {
            EncryptionError::Program(CryptoError::MissingKey | CryptoError::Program(_))
            | EncryptionError::Call(_) => Err(()),
            EncryptionError::Program(error) => {
                tracing::warn!(channel = %self.base.name, room, %error, "a message cannot be decrypted");
                Ok(None)
            }
            error @ EncryptionError::Unusable(_) => {
                self.encryption.report(&error);
                Ok(None)
            }
        }
    }

    /// `true` if a room has at most two people, or is listed as direct.
    async fn is_direct(&self, room: &str, joined: Option<u64>) -> bool {
        if self.rooms.is_listed_as_direct(room) {
            return true;
        }
        let joined = match joined {
            Some(joined) => Some(joined),
            None => self.count_people(room).await,
        };
        joined.is_some_and(|joined| joined <= 2)
    }

    async fn count_people(&self, room: &str) -> Option<u64> {
        let path = ["_matrix", "client", "v3", "rooms", room, "joined_members"];
        let path = crate::api::Path::new(&path);
        let answer = self.api.call(reqwest::Method::GET, path, None).await;
        let answer = answer.ok()?;
        let count = u64::try_from(member(&answer, "joined").as_object()?.len()).ok()?;
        self.rooms.set_joined(room, count);
        Some(count)
    }
}
