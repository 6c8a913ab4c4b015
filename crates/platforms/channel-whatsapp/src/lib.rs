//! WhatsApp: a linked device, through a bridge.
//!
//! Decision: WhatsApp has no API for accounts of people, and its protocol changes often. A bridge,
//! which is a program of its own, is the linked device; this crate is its client. The protocol is
//! in `bridges/whatsapp/PROTOCOL.md`. The bridge of the Python program, which speaks version 1 of
//! it, works, too, with fewer features.
//!
//! Everything goes through one WebSocket: messages, sends, and files piece by piece. A bridge
//! serves one client, so only [`nanobot_channel::Channel::run`] keeps a connection. The bridge that
//! the login installed is started with it and ends with it.
//!
//! Messages are confirmed after they are stored. The id of a sent message is derived from the key
//! of its part, so that a repetition is recognised.
//!
//! Not supported: calls, statuses, edited and deleted messages, polls, mentions in replies, drafts
//! (each edit of a message is marked as such).

mod account;
mod attachment;
mod candidate;
mod channel;
mod client;
mod config;
mod connection;
mod content;
mod error;
mod exchange;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod intake;
mod jid;
mod local_media;
mod markup;
mod message_id;
mod outbound;
mod own_bridge;
#[cfg(test)]
mod own_bridge_tests;
mod reaction;
mod receive;
mod request;
mod sign_in;
mod state;
mod upload;
mod wire;

pub use channel::{WhatsApp, WhatsAppChannel, WhatsAppFactory};
pub use config::WhatsAppConfig;
pub use markup::WhatsAppMarkup;
pub use nanobot_channel_kit::Secret;
