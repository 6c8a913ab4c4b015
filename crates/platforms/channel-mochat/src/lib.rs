//! Mochat: messages over Socket.IO or polls, everything else over the HTTP API.
//!
//! Decision: written by hand. Engine.IO and Socket.IO are a few packets over a WebSocket, and no
//! client has MessagePack, which is Mochat's default. Mochat confirms no message: the channel keeps
//! its position in every session and panel, and moves it only past what
//! [`nanobot_channel::Intake::deliver`] has.
//!
//! Not supported: files, edits, reactions, a typing indicator, drafts, polling of Engine.IO, and
//! attachments of Socket.IO.

mod api;
mod attempt;
mod candidate;
mod channel;
mod checks;
mod collection;
mod config;
mod connection;
mod content;
mod engine;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod mention;
mod mention_rule;
mod message;
mod msgpack;
mod news;
mod outbound;
mod packet;
mod positions;
mod receive;
mod reply_delay;
mod socket;
mod target;
mod targets;
mod wire;

pub use channel::{Mochat, MochatChannel, MochatFactory};
pub use config::MochatConfig;
pub use mention_rule::{GroupMentions, MentionRule};
pub use nanobot_channel_kit::Secret;
pub use reply_delay::ReplyDelayMode;
