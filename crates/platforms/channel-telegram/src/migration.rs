//! Groups that became supergroups, with another id.
//!
//! Decision: to people it is the same group, so its conversation continues: messages from the new
//! id belong to the session of the old one, messages to the old id are sent to the new one, and
//! rules for the old id apply. The move is noted before any message from the new id is handled.
//! Topics get new ids, and so new sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_channel::{Arrival, ChatId, ChatKind, NoteError, Notes};
use teloxide::types::{ChatMigration, Message};

use crate::target::SendTarget;

/// The name of the note.
const NOTE: &str = "moved-groups";
/// Most groups that are remembered; their note has to be short.
const MAX_MIGRATIONS: usize = 1000;

/// Groups that moved. In memory only before [`Self::open`].
#[derive(Debug, Default)]
pub(crate) struct Migrations {
    log: Mutex<MigrationLog>,
    /// Locked while the note is written.
    write_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct MigrationLog {
    /// Old and new ids.
    migrations: VecDeque<(i64, i64)>,
    is_noted: bool,
    notes: Option<Arc<dyn Notes>>,
}

/// Returns the old and the new id if a message reports a move of its group.
pub(crate) fn migration_of(message: &Message) -> Option<(i64, i64)> {
    match message.chat_migration()? {
        ChatMigration::To { chat_id } => Some((message.chat.id.0, chat_id.0)),
        ChatMigration::From { chat_id } => Some((chat_id.0, message.chat.id.0)),
    }
}

impl Migrations {
    /// Reads the note, and keeps it from now on.
    pub(crate) async fn open(&self, notes: &Arc<dyn Notes>) {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "it cannot be read which groups have moved");
            None
        });
        let noted: VecDeque<(i64, i64)> = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let mut log = self.lock();
        if log.notes.replace(Arc::clone(notes)).is_none() {
            log.is_noted = log.migrations.is_empty();
            for earlier in noted.into_iter().rev() {
                if !log.migrations.contains(&earlier) {
                    log.migrations.push_front(earlier);
                }
            }
        }
    }

    /// Records a move. It applies at once, and is noted when this returns `Ok`.
    ///
    /// # Errors
    /// The move could not be noted; recording it again is another attempt.
    pub(crate) async fn record(&self, old: i64, new: i64) -> Result<(), NoteError> {
        {
            let mut log = self.lock();
            if !log.migrations.contains(&(old, new)) {
                log.migrations.retain(|(earlier, _)| *earlier != old);
                log.migrations.push_back((old, new));
                if log.migrations.len() > MAX_MIGRATIONS {
                    log.migrations.pop_front();
                }
                log.is_noted = false;
            }
        }
        let _write_lock = self.write_lock.lock().await;
        let (text, notes) = {
            let log = self.lock();
            let Some(notes) = log.notes.clone().filter(|_| !log.is_noted) else {
                return Ok(());
            };
            (
                serde_json::to_string(&log.migrations).map_err(std::io::Error::from)?,
                notes,
            )
        };
        notes.write(NOTE, &text).await?;
        let mut log = self.lock();
        log.is_noted = serde_json::to_string(&log.migrations).is_ok_and(|now| now == text);
        Ok(())
    }

    /// Returns the target in the group's present chat. Its messages and topics are not those of the
    /// former one.
    pub(crate) fn follow(&self, target: &SendTarget) -> SendTarget {
        let new = self
            .lock()
            .migrations
            .iter()
            .find(|(old, _)| *old == target.chat_id())
            .map(|(_, new)| *new);
        new.map_or_else(|| target.clone(), SendTarget::chat)
    }

    /// Returns the former id of a group.
    pub(crate) fn former_id(&self, chat: i64) -> Option<i64> {
        self.lock()
            .migrations
            .iter()
            .find(|(_, new)| *new == chat)
            .map(|(old, _)| *old)
    }

    /// Returns the arrival of a message in a chat.
    pub(crate) fn arrival(&self, chat: i64, kind: ChatKind, is_addressed: bool) -> Arrival {
        let mut arrival = match kind {
            ChatKind::Direct => Arrival::direct(),
            ChatKind::Group => Arrival::group(is_addressed),
        };
        arrival.parents.extend(
            self.former_id(chat)
                .map(|old| ChatId::from(old.to_string())),
        );
        arrival
    }

    fn lock(&self) -> MutexGuard<'_, MigrationLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
