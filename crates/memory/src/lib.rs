//! Long-term memory: facts, a history and day notes, in files a person can read.
//!
//! Decision: memory is Markdown. `MEMORY.md` holds facts and is replaced whole against a
//! revision, `HISTORY.md` is only appended to, and a day note is a file per day that a person or
//! the assistant writes. Who may see what is a [`Scope`] from the first day.

mod error;
mod file;
mod history;
mod markdown;
mod store;

pub use error::MemoryError;
pub use markdown::MarkdownStore;
pub use store::{DayNote, Facts, MemoryHit, MemorySearch, MemoryStore, Revision, Scope};
