//! The events of a room: decrypted, read, and offered to the assistant.
//!
//! Events of verifications are not for the assistant. The encryption program takes them when it
//! decrypts them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::{self, Next};
use nanobot_channel_kit::jittered_backoff;
use nanobot_matrix_crypto::CryptoError;
use reqwest::Method;
use tokio::time::Instant;

use crate::api::Path;
use crate::candidate::{Place, Reader};
use crate::channel::Matrix;
use crate::encryption::EncryptionError;
use crate::error::Refusal;
use crate::held::HeldEvent;
use crate::receive::RoomDone;
use crate::wire::{Event, JoinedRoom, member};

/// First pause before the people of a room are counted again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The outcome of an event.
enum EventEnd {
    Done(Next),
    /// Its key is not known yet.
    Held,
}

impl Matrix {
    /// Handles the events of a room since the last sync, in order.
    pub(crate) async fn handle_room(
        self: &Arc<Self>,
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

    /// Tries an event again whose key was not known.
    pub(crate) async fn handle_held(
        self: &Arc<Self>,
        held: HeldEvent,
        context: &ChannelContext,
    ) -> RoomDone {
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

    async fn handle_event(
        self: &Arc<Self>,
        room: &str,
        event: &Event,
        context: &ChannelContext,
    ) -> EventEnd {
        let names = self.names();
        let (Some(id), Some(sender)) = (event.id(), event.sender()) else {
            return EventEnd::Done(Next::Confirm);
        };
        let is_redacted = member(&event.0, "unsigned")
            .get("redacted_because")
            .is_some();
        let name = id.to_owned();
        if !event.is_message()
            || is_redacted
            || sender == names.user_id
            || self.recent().contains(&name)
        {
            return EventEnd::Done(Next::Confirm);
        }
        let known = self.rooms.get(room).unwrap_or_default();
        let is_direct = self.is_direct(room, known.joined).await;
        let quarantine = &self.base.quarantine;
        // Only what is set aside is written out.
        let bytes = match quarantine.is_exceeded(&name) {
            true => event.0.to_string(),
            false => String::new(),
        };
        let progress = context.progress.as_ref();
        let admitted = quarantine.admit(&name, bytes.as_bytes(), progress).await;
        let Some(handling) = admitted else {
            return EventEnd::Done(Next::Confirm);
        };
        let is_encrypted = event.kind() == "m.room.encrypted";
        let clear = if is_encrypted {
            match self.decrypted(room, event).await {
                Ok(Some(clear)) => Cow::Owned(clear),
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
            Cow::Borrowed(event)
        };
        if clear.is_of_verification() {
            handling.end().await;
            if is_encrypted {
                self.after_keys(context);
            }
            return EventEnd::Done(Next::Confirm);
        }
        let place = Place {
            room,
            name: &known.name,
            is_direct,
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
        let next = intake::accept(&**self, &candidate, Some(handling), context).await;
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

    /// Waits until the homeserver says how many people are in a room: a message of a direct chat
    /// that was taken for one of a group would be passed over. `None` if it refuses to say it.
    async fn count_people(&self, room: &str) -> Option<u64> {
        let path = ["_matrix", "client", "v3", "rooms", room, "joined_members"];
        for tries in 0.. {
            let answer = self.api.call(Method::GET, Path::new(&path), None).await;
            let error = match answer {
                Ok(answer) => {
                    let people = member(&answer, "joined").as_object()?.len();
                    let count = u64::try_from(people).ok()?;
                    self.rooms.set_joined(room, count);
                    return Some(count);
                }
                Err(error) if error.is(Refusal::is_about_the_room) => return None,
                Err(error) => error,
            };
            if tries == 0 {
                tracing::warn!(channel = %self.base.name, room, %error, "messages wait until the people of their room are known");
            }
            tokio::time::sleep(jittered_backoff(FIRST_PAUSE, tries)).await;
        }
        None
    }
}
