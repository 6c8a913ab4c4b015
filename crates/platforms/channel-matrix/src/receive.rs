//! Receives by syncs; the position moves on after the messages before it are stored.
//!
//! Rooms are handled concurrently, the events of one room in order. The next sync waits for the
//! rooms of the one before, for some seconds: then it goes on without a room that is slow, and only
//! the position on disk stays.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Liveness};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Lanes, Platform as _, Reconnect, Trouble};
use tokio::time::Instant;

use crate::channel::Matrix;
use crate::error::required_call_error;
use crate::held::{HeldEvent, HeldEvents};
use crate::position::SyncWindow;
use crate::sync::{Polled, Poller};
use crate::wire::{Event, JoinedRoom, SyncResponse};

/// Failed syncs in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Time that a sync waits for the rooms of the one before.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rooms that are handled at a time.
const MAX_LANES: usize = 128;
/// Rooms with events under way or waiting, above which no sync begins.
const MAX_WAITING: usize = 512;

/// The outcome of the events of a room.
#[derive(Debug)]
pub(crate) struct RoomDone {
    pub(crate) sync: u64,
    pub(crate) held: Vec<HeldEvent>,
    pub(crate) next: Next,
}

/// A run of receiving.
struct Receiver<'a> {
    platform: &'a Arc<Matrix>,
    context: &'a ChannelContext,
    lanes: Lanes<'a, String, RoomDone>,
    window: SyncWindow,
    held: HeldEvents,
    trouble: Arc<Trouble>,
    /// `true` until the first sync was taken.
    is_first_sync: bool,
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
            is_first_sync: true,
        };
        receiver.run().await
    }
}

impl Receiver<'_> {
    async fn run(mut self) -> Result<(), ChannelError> {
        let liveness = self.trouble.wrap(&self.context.progress);
        let mut reconnect = Reconnect::new("the homeserver", FIRST_PAUSE, MAX_FAILURES);
        let mut poller = Poller::new();
        let (mut has_succeeded, mut is_receiving) = (false, false);
        loop {
            if self.until_idle().await == Next::Stop {
                return Ok(());
            }
            let since = self.window.since().map(str::to_owned);
            let api = Arc::clone(&self.platform.api);
            let asked_at = Instant::now();
            let poll = poller.poll(&api, since.as_deref());
            let Some(polled) = self.run_until(poll).await else {
                return Ok(());
            };
            match polled {
                Ok(Polled::Changes(changes)) => {
                    reconnect.succeeded();
                    has_succeeded = true;
                    let is_unchanged = since.as_ref() == Some(&changes.next_batch);
                    self.take(*changes, since, liveness.as_ref()).await;
                    // A homeserver that does not wait must not make the loop hot.
                    if is_unchanged && asked_at.elapsed() < FIRST_PAUSE {
                        let pause = tokio::time::sleep(FIRST_PAUSE);
                        if self.run_until(pause).await.is_none() {
                            return Ok(());
                        }
                    }
                    if !std::mem::replace(&mut is_receiving, true) {
                        let channel = &self.platform.base.name;
                        tracing::info!(%channel, "receiving from the homeserver");
                    }
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
        let is_first = std::mem::take(&mut self.is_first_sync);
        let keys = platform.take_keys(encryption, is_first, &self.trouble, self.context, liveness);
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
        self.timeline.iter().any(Event::is_message)
    }
}
