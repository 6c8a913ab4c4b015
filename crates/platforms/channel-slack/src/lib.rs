//! Slack: events over Socket Mode, everything else over the Web API.
//!
//! Decision: requests and blocks have slack-morphism's types, but neither its client nor its listener
//! is used. Its listener acknowledges what nobody has stored, connects again at once for ever, and
//! keeps the socket's signs of life to itself; its client hides whether a request that failed may
//! have been taken. Here an envelope is acknowledged only after
//! [`nanobot_channel::Intake::deliver`] has the message, and a failed call says what follows.
//!
//! What it does not do: events over HTTP, several connections for one app, a typing indicator (the
//! reaction says that work is under way), canvases and modals.

mod api;
mod attachment;
mod blocks;
mod candidate;
mod catch_up;
mod channel;
mod config;
mod doubt;
mod draft;
mod error;
mod factory;
mod fetch_queue;
#[doc(hidden)]
pub mod fuzz;
mod history;
mod intake;
mod markup;
mod outbound;
mod place;
mod reactions;
mod receive;
mod socket;
mod text;
mod thread;
mod upload;
mod wire;

pub use channel::SlackChannel;
pub use config::SlackConfig;
pub use factory::SlackFactory;
pub use markup::Mrkdwn;
pub use nanobot_channel_kit::Secret;
