//! Discord over its gateway and REST API.
//!
//! Decision: messages, interactions and request bodies have serenity's types, but neither its
//! client nor its shards are used. Its dispatcher starts a task per event, so that two messages of
//! one person may change places; it identifies anew where it could resume, and what was said in
//! between is lost; its REST client forgets how long the server asked to wait. Here the events of a
//! channel are handled in order, those of different channels at once, and neither a heartbeat nor a
//! resumption names an event that [`nanobot_channel::Intake::deliver`] has not acknowledged, or
//! one after it.
//!
//! REST and gateway share one HTTP client, so a proxy and a base address hold for both.
//!
//! Messages between two sessions, which the gateway does not repeat, are fetched by REST when the
//! next session begins, in the channels where the assistant was addressed before.
//!
//! Not supported: voice, sharding (one connection serves up to 2,500 servers), edited and
//! deleted messages.

mod api;
mod attachment;
mod candidate;
mod catch_up;
mod channel;
mod config;
mod cursor;
mod draft;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod history;
mod intake;
mod interaction;
mod lanes;
mod limits;
mod marks;
mod markup;
mod outbound;
mod reaction;
mod receive;
mod route;
mod socket;
mod target;
mod threads;
mod upload;
mod wire;

pub use channel::{Discord, DiscordChannel, DiscordFactory};
pub use config::{ChannelList, DiscordConfig};
pub use markup::DiscordMarkdown;
pub use nanobot_channel_kit::Secret;
