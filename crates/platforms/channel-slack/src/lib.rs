//! Slack: events over Socket Mode, everything else over the Web API.
//!
//! Decision: requests and blocks have slack-morphism's types, but neither its client nor its
//! listener is used. Its listener acknowledges unstored events, reconnects at once for ever, and
//! does not report the socket's signs of life; its client hides if a failed request may have been
//! accepted. Here an envelope is acknowledged only after [`nanobot_channel::Intake::deliver`] has
//! the message, and the failure of a call states its consequence.
//!
//! Not supported: events over HTTP, several connections for one app, a typing indicator (the
//! reaction says that work is under way), canvases and modals.

mod api;
mod attachment;
mod blocks;
mod candidate;
mod catch_up;
mod channel;
mod config;
mod draft;
mod error;
mod fetch_queue;
#[doc(hidden)]
pub mod fuzz;
mod history;
mod intake;
mod interaction;
mod markup;
mod outbound;
mod reaction;
mod receive;
mod socket;
mod target;
mod text;
mod thread;
mod uncertain;
mod upload;
mod wire;

pub use channel::{Slack, SlackChannel, SlackFactory};
pub use config::SlackConfig;
pub use markup::Mrkdwn;
pub use nanobot_channel_kit::Secret;
