//! A chat platform of a third party, written on `nanobot-channel-kit`.
//!
//! The platform is made up, but the channel is complete. Beacon has a REST API with a bearer token
//! and a stream over a WebSocket:
//!
//! | request | meaning |
//! |---|---|
//! | `POST v1/me` | returns the account: `{"name": …}` |
//! | `POST v1/stream` | returns the address of the stream, with a ticket: `{"url": …}` |
//! | `POST v1/send` | sends `{"room": …, "key": …, "text": …}`, once per key; returns `{"id": …}` |
//! | `GET v1/file?id=…` | returns the bytes of a file |
//!
//! The stream carries `{"message": {"id": …, "room": …, "sender": …, "text": …}}`. The channel
//! acknowledges each message by `{"ack": id}`; Beacon sends a message again on the next connection
//! if it was not acknowledged. A refused request is answered with an HTTP status and
//! `{"error": word}`.
//!
//! Only the code that is specific to Beacon is written here. Access, pairing, order within a room,
//! files, transcription, retries, quarantine, reconnection and the configuration are the kit's.

mod api;
mod channel;
mod config;
mod error;
mod intake;
mod receive;
mod wire;

pub use channel::{Beacon, BeaconChannel, BeaconFactory};
pub use config::BeaconConfig;
