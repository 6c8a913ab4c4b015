//! Long-term memory: facts, a history and day notes, in files a person can read.
//!
//! Decision: memory is Markdown. `MEMORY.md` holds facts and is replaced whole against a
//! revision, `HISTORY.md` is only appended to, and a day note is a file per day that a person or
//! the assistant writes. Who may see what is a [`Scope`], and every change of what is replaced or
//! removed is a [`Version`] that can be reviewed and brought back.

mod difference;
mod error;
mod file;
mod history;
mod loss;
mod markdown;
mod month;
mod notes;
mod overview;
mod reason;
mod scope;
mod settings;
mod store;
mod versions;

pub use error::MemoryError;
pub use loss::loses_too_much;
pub use markdown::MarkdownStore;
pub use notes::Tended;
pub use overview::overview;
pub use reason::Reason;
pub use scope::{Audience, MemoryFolders, Scope};
pub use settings::MemorySettings;
pub use store::{
    DayNote, Facts, MemoryHit, MemorySearch, MemoryStore, MemoryVersions, Revision, Version,
    VersionText,
};
