//! Long-term memory: facts, a history and day notes, in files that people can read.
//!
//! Decision: memory is Markdown. `MEMORY.md` holds facts and is replaced as a whole, against a
//! revision. `HISTORY.md` is only appended to. A day note is one file per day, written by a person
//! or the assistant. A [`Scope`] defines who may see a memory. Every replacement or removal is
//! recorded as a [`Version`], which can be reviewed and restored.
//!
//! ```
//! use nanobot_memory::{MarkdownStore, MemoryStore, Reason, Scope};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let store = MarkdownStore::new(folder.path());
//! let facts = store.facts(&Scope::Shared).await?;
//! let text = "- Ann drinks tea.\n".to_owned();
//! store.replace_facts(&Scope::Shared, text, facts.revision, &Reason::Found).await?;
//! assert!(std::fs::read_to_string(folder.path().join("MEMORY.md"))?.contains("tea"));
//! # Ok(())
//! # }
//! ```

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
pub use notes::RetentionSummary;
pub use overview::overview;
pub use reason::Reason;
pub use scope::{Audience, MemoryFolders, Scope};
pub use settings::MemorySettings;
pub use store::{
    DayNote, Facts, MemoryHit, MemorySearch, MemoryStore, MemoryVersions, Revision, Version,
    VersionText,
};
