//! Session logs: append-only, read from the end, replayed into a valid transcript.
//!
//! Decision: a session is a log of [`Entry`]s that is only ever appended to, with an optimistic
//! check of the head. No entry is updated or removed: consolidation and reset move a cursor,
//! repair appends the missing results, and a rewind appends an entry that undoes messages. A
//! [`Seq`] counts message lines only, so it is the same number that the Python program calls
//! `last_consolidated`.
//!
//! ```
//! use nanobot_session::{Entry, InMemoryStore, MessageEntry, ReadFrom, Seq, SessionStore};
//! use nanobot_types::ChatMessage;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (store, key) = (InMemoryStore::new(), "cli:direct".into());
//! let hello = Entry::Message(MessageEntry::new(ChatMessage::user("hello")));
//! let head = store.append(&key, Seq(0), vec![hello]).await?;
//! assert_eq!(head, Seq(1));
//! assert_eq!(store.read(&key, ReadFrom::Cursor).await?.records.len(), 1);
//! // The head has moved on: a second writer is refused and changes nothing.
//! assert!(store.append(&key, Seq(0), vec![]).await.is_err());
//! # Ok(())
//! # }
//! ```

mod catalog;
mod display;
mod durability;
mod entry;
mod error;
mod exchange;
mod files;
mod fork;
#[doc(hidden)]
pub mod fuzz;
mod in_memory;
mod jsonl;
mod line;
mod listing;
mod metadata;
mod paths;
mod preview;
mod replay;
mod rewind;
mod salvage;
mod scan;
mod search;
mod slots;
mod state;
mod store;
mod tail;
mod timestamp;
mod title;
mod trash;

pub use catalog::{DeletedSession, SessionCatalog, SessionPreview};
pub use display::visible_text;
pub use entry::{Entry, MessageEntry, Record, Seq, TurnEnd, TurnOutcome};
pub use error::SessionError;
pub use exchange::LastExchange;
pub use fork::{branch, fork};
pub use in_memory::InMemoryStore;
pub use jsonl::JsonlStore;
pub use metadata::{AUDIENCE, CONSOLIDATION, ForkOrigin};
pub use nanobot_disk::Durability;
pub use paths::SessionPaths;
pub use replay::{InboundStatus, OpenTurn, Replay, replay};
pub use rewind::{restore_rewound, rewind};
pub use search::{
    IndexedLine, SessionHit, SessionReach, SessionSearch, SessionSearchError, session_files,
    session_of,
};
pub use store::{ReadFrom, SessionInfo, SessionStore, SessionView};
pub use title::{TitleError, check_title, one_line, rename};
pub use trash::{deleted_at, trash_folder};
