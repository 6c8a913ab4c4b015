//! The line that a person types: text, keys, history, completion, and its layout on the screen.
//!
//! Nothing here reads a terminal or draws on one: keys come in, rows of text come out.

mod buffer;
mod completion;
mod editor;
mod history;
mod keys;
mod layout;
mod search;

pub(super) use buffer::MAX_INPUT;
pub(super) use completion::{Candidate, Completions};
pub(super) use editor::{EditOutcome, LineEditor};
pub(super) use history::HistoryFile;
pub(super) use layout::{InputRows, rows_of};
