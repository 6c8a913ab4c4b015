//! A WebSocket server as a channel: the documented protocol for programs of any language.
//!
//! Decision: safe by default. It listens on loopback, requires a token, refuses web pages of other
//! origins, and is opened by explicit configuration only. A message is acknowledged when it is
//! durable and not before. The protocol is described in `docs/websocket.md`; [`protocol`] is the
//! same in types.
//!
//! It does not provide TLS (put a proxy in front) or files.

mod channel;
mod config;
mod connection;
mod factory;
mod handshake;
mod hub;
pub mod protocol;
mod receive;
mod token;

pub use channel::WebSocketChannel;
pub use config::WebSocketConfig;
pub use factory::WebSocketFactory;
pub use token::Token;
