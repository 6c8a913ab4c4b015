//! Marks that the engine leaves in recorded messages, for programs that read a session log back.

pub use crate::engine::{
    CUT, CUT_KEY, FATAL_NOTE, Truncation, UNKNOWN_OUTCOME, without_repetition_note,
};
