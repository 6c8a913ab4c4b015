//! Matrix, with end-to-end encryption.
//!
//! Decision: the client-server API is called by our own HTTP, because few of its calls are needed
//! and the usual libraries move the position before a message is stored. The encryption is in a
//! program of its own (`nanobot-matrix-crypto`), which is started with the first encrypted room: an
//! account without encryption does not pay for it.
//!
//! The position of a sync is stored after every message before it. Messages that a sync leaves out
//! are read from the history. A room that was encrypted once stays so here, and nothing is sent
//! into it in clear.
//!
//! Not supported: edits and redactions of messages that were received, calls, polls, backup of
//! keys, sliding sync.

mod api;
mod attachment;
mod candidate;
mod channel;
mod config;
mod draft;
mod encrypted_file;
mod encryption;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzz;
mod held;
mod history;
mod id;
mod intake;
mod invite;
mod keys;
mod markup;
mod mention;
mod outbound;
mod outgoing;
mod position;
mod reaction;
mod receipt;
mod receive;
mod relation;
mod rooms;
mod session;
mod sign_in;
mod sync;
mod target;
mod upload;
mod wire;

pub use channel::{Matrix, MatrixChannel, MatrixFactory};
pub use config::MatrixConfig;
pub use markup::MatrixHtml;
pub use nanobot_channel_kit::Secret;
