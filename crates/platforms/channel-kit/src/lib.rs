//! The skeleton of a channel: REST and WebSocket, lanes, intake, drafts, quarantine, keys.
//!
//! Decision: an addition to the contract, not a part of it. A channel needs [`nanobot_channel`] alone;
//! this is for platforms that are like most others: a token, a section of keys, an API over HTTP,
//! messages that can be edited. Each part can be used alone, and none of them knows a platform:
//!
//! - [`Secret`]: a token or a password that no log and no error shows.
//! - [`settings!`]: configuration keys, declared once.
//! - [`read_section`] and [`wrong`]: settings out of a section, and what to say about a key.
//! - [`Background`]: work beside receiving that ends with it.
//! - [`DraftBoard`] and [`DraftPlace`]: text that is shown while it grows, in one message that is
//!   edited until the reply takes it over, and deleted when a kill left it.
//! - [`LateNote`]: a value that changes with every message, written to a note at intervals.
//! - [`catch_up`]: marks of conversations, and the delivery of messages that were missed.
//! - [`http`]: the client for an API that holds a token, and what its failures mean to a send.
//! - [`others_words`]: the mark of what the sender did not write.
//! - [`Quarantine`]: what ends the process each time it is handled is set aside after a few tries.
//! - [`Trouble`]: signs of life that say what keeps the channel from working fully.
//! - [`backoff()`] and [`jittered_backoff`]: the pause before the next try.
//! - [`repeatable`]: the error of a call that does no harm when it is made twice.
//! - [`rest`] and [`call`]: calls of a REST API, and one enum for what goes wrong with them.
//! - [`websocket`]: a WebSocket through the same client.
//! - [`upload`]: files on their way out.
//! - [`intake`]: from a candidate message to the assistant, with its [files](attachment).
//! - [`Lanes`]: work of one chat in order, several chats at once.
//! - [`Recent`]: a bounded set against duplicates.
//! - [`Attempts`]: progress of parts that have to be sent again.
//!
//! What it does not do: read the words of a platform's refusals, limit the rate of calls, and decide
//! who may talk.

pub mod attachment;
mod attempts;
mod background;
mod backoff;
pub mod call;
pub mod catch_up;
mod draft;
mod error;
pub mod http;
pub mod intake;
mod lanes;
mod late_note;
mod leftover;
mod others;
mod quarantine;
mod recent;
pub mod rest;
mod secret;
mod section;
pub mod settings;
mod trouble;
pub mod upload;
pub mod websocket;

pub use attempts::Attempts;
pub use background::Background;
pub use backoff::{backoff, chance, jittered_backoff};
pub use call::{CallError, Refusal};
pub use draft::{DraftBoard, DraftPlace, DraftSlot};
pub use error::repeatable;
pub use lanes::Lanes;
pub use late_note::{LateNote, Noted};
pub use others::others_words;
pub use quarantine::{Handling, Quarantine};
pub use recent::Recent;
pub use rest::Rest;
pub use secret::Secret;
pub use section::{read_section, wrong};
pub use trouble::Trouble;
pub use websocket::WebSocket;
