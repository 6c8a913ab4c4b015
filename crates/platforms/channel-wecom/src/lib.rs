//! WeCom: an AI bot over its long connection.
//!
//! Decision: written by hand. The protocol is JSON over a WebSocket, and everything goes through
//! that one connection: callbacks, replies, uploads. Only files of people are fetched over HTTP,
//! and decrypted here.
//!
//! WeCom serves one connection of a bot and confirms nothing: a message that is pushed while no
//! connection is open may be lost. So only [`nanobot_channel::Channel::run`] subscribes. Sends use
//! its connection, and a probe never takes it over.
//!
//! Replies are streams, which grow while they are generated; other messages are sent without a
//! callback.
//!
//! Not supported: template cards, the response URL of messages, edited and recalled messages,
//! reactions, a typing indicator.

mod answer;
mod attachment;
mod candidate;
mod channel;
mod command;
mod config;
mod connection;
mod content;
mod crypto;
mod disposition;
mod draft;
mod error;
mod event;
mod exchange;
mod file_names;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
mod heartbeat;
mod intake;
mod markup;
mod outbound;
mod outgoing;
mod quote;
mod receive;
mod reply;
mod turn_stream;
mod upload;
mod wire;

pub use channel::{WeCom, WeComChannel, WeComFactory};
pub use config::WeComConfig;
pub use markup::WeComMarkdown;
pub use nanobot_channel_kit::Secret;
