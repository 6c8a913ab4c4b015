//! Groups that became supergroups, with another id.
//!
//! Decision: to people it is the same group, so its conversation continues: messages from the new
//! id belong to the session of the old one, messages to the old id are sent to the new one, and
//! rules for the old id apply. The move is noted before any message from the new id is taken in.
//! Topics get new ids, and so new sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_channel::{Arrival, ChatId, ChatKind, NoteError, Notes};
use teloxide::types::{ChatMigration, Message};

use crate::target::SendTarget;

/// The name of the note.
const NOTE: &str = "moved-groups";
/// Most groups that are remembered; their note has to be short.
const MOST: usize = 1000;

/// Groups that moved. In memory only before [`Self::open`].
#[derive(Debug, Default)]
pub(crate) struct Moves {
    known: Mutex<MoveLog>,
    /// Locked while the note is written.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct MoveLog {
    /// Old and new ids.
    moves: VecDeque<(i64, i64)>,
    is_noted: bool,
    notes: Option<Arc<dyn Notes>>,
}

/// Returns the old and the new id if a message reports a move of its group.
pub(crate) fn moved(message: &Message) -> Option<(i64, i64)> {
    match message.chat_migration()? {
        ChatMigration::To { chat_id } => Some((message.chat.id.0, chat_id.0)),
        ChatMigration::From { chat_id } => Some((chat_id.0, message.chat.id.0)),
    }
}

impl Moves {
    /// Reads the note, and keeps it from now on.
    pub(crate) async fn open(&self, notes: &Arc<dyn Notes>) {
        let text = notes.read(NOTE).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "it cannot be read which groups have moved");
            None
        });
        let noted: VecDeque<(i64, i64)> = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let mut known = self.lock();
        if known.notes.replace(Arc::clone(notes)).is_none() {
            known.is_noted = known.moves.is_empty();
            for earlier in noted.into_iter().rev() {
                if !known.moves.contains(&earlier) {
                    known.moves.push_front(earlier);
                }
            }
        }
    }

    /// Records a move. It applies at once, and is noted when this returns `Ok`.
    ///
    /// # Errors
    /// The move could not be noted; recording it again is another attempt.
    pub(crate) async fn learn(&self, old: i64, new: i64) -> Result<(), NoteError> {
        {
            let mut known = self.lock();
            if !known.moves.contains(&(old, new)) {
                known.moves.retain(|(earlier, _)| *earlier != old);
                known.moves.push_back((old, new));
                if known.moves.len() > MOST {
                    known.moves.pop_front();
                }
                known.is_noted = false;
            }
        }
        let _turn = self.turn.lock().await;
        let (text, notes) = {
            let known = self.lock();
            let Some(notes) = known.notes.clone().filter(|_| !known.is_noted) else {
                return Ok(());
            };
            (
                serde_json::to_string(&known.moves).map_err(std::io::Error::from)?,
                notes,
            )
        };
        notes.write(NOTE, &text).await?;
        let mut known = self.lock();
        known.is_noted = serde_json::to_string(&known.moves).is_ok_and(|now| now == text);
        Ok(())
    }

    /// Returns the target in the group's present chat. Its messages and topics are not those of the
    /// former one.
    pub(crate) fn follow(&self, target: &SendTarget) -> SendTarget {
        let new = self
            .lock()
            .moves
            .iter()
            .find(|(old, _)| *old == target.chat_id())
            .map(|(_, new)| *new);
        new.map_or_else(|| target.clone(), SendTarget::chat)
    }

    /// Returns the former id of a group.
    pub(crate) fn former(&self, chat: i64) -> Option<i64> {
        self.lock()
            .moves
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
        arrival
            .parents
            .extend(self.former(chat).map(|old| ChatId::from(old.to_string())));
        arrival
    }

    fn lock(&self) -> MutexGuard<'_, MoveLog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
