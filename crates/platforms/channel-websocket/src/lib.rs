//! A WebSocket server as a channel: the documented protocol for programs of any language.
//!
//! Decision: safe by default. It listens on loopback, wants a token, refuses web pages of other
//! origins, and can be opened no further than its configuration says in so many words. A message
//! is acknowledged when it is durable and not before. The protocol is described in
//! `docs/websocket.md`; [`protocol`] is the same in types.
//!
//! What it does not do: TLS (put a proxy in front), files, and anything about conversations.

mod channel;
mod config;
mod connection;
mod handshake;
mod hub;
pub mod protocol;
mod token;

pub use channel::{WebSocketChannel, WebSocketFactory};
pub use config::WebSocketConfig;
pub use token::Token;
