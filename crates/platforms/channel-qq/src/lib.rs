//! QQ, as an official bot: events over the gateway, everything else over the open API.
//!
//! Decision: written by hand. The gateway has few operations, and the usual clients count an event
//! as received when it is read. Here the gateway learns the number up to which all events are
//! stored: a session, which is also resumed after a restart, repeats the others.
//!
//! QQ takes a few replies to each message and limits messages without one. Replies are counted, the
//! last is kept for the answer, and the rest is sent as messages of their own.
//!
//! Not supported: messages in the channels of guilds, buttons, edited and recalled messages,
//! reactions, streaming, events over HTTP.

mod api;
mod attachment;
mod budget;
mod candidate;
mod channel;
mod close_code;
mod config;
mod content;
mod cursor;
mod error;
mod face;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod known_chats;
mod markup;
mod outbound;
mod outgoing;
mod receive;
mod socket;
mod target;
mod upload;
mod wire;

pub use channel::{Qq, QqChannel, QqFactory};
pub use config::{MessageFormat, QqConfig};
pub use markup::QqMarkdown;
pub use nanobot_channel_kit::Secret;
