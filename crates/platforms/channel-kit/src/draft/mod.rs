//! Text shown while it is being written: one message that is edited until the reply takes it over,
//! or a [preview](DraftPreview) that vanishes by itself.
//!
//! Decision: one small task per draft owns its message and its pace, so that showing text never
//! keeps a reply waiting for longer than the one call that is under way. Drafts are decoration:
//! without a running channel, beyond the bound, or after a failed first message there is none, and
//! the reply is a message of its own. A draft that a kill left in a chat is deleted at the next
//! start ([`DraftBoard::recover`]).

mod board;
mod orphans;
mod place;
mod record;
mod slot;
#[cfg(test)]
mod tests;
mod text;

pub use board::DraftBoard;
pub use orphans::{BegunDraft, OrphanedDraft};
pub use place::{DraftPlace, DraftPreview, NoDraft};
pub use slot::DraftSlot;

#[cfg(test)]
pub(crate) use tests::support::Paper;
