//! A fake of Discord, its gateway and its REST API, with strict semantics.
//!
//! Clients connect to [`DiscordFake::api_base`], which returns the URL of the gateway. An event is
//! sent to every session whose intents include it. A session outlives its connection, and resuming
//! it replays the events after the sequence number that the client names. Unknown fields, messages
//! in the wrong order and wrong tokens close a connection with Discord's close code or are refused.
//! A nonce is enforced if the request asks for that. Known gaps: one server, no shards, no
//! compression, no voice, and no permission checks beyond those that a test turns on.

mod account;
mod dispatch;
mod event;
mod fake;
mod fault;
mod guild;
mod handler;
mod history;
mod incoming;
mod interaction;
mod messages;
mod order;
mod refusal;
mod sending;
mod session;
mod socket;
mod state;

pub use account::{APPLICATION_ID, BOT_ID, BOT_NAME, CHANNELS, GUILD, TOKEN};
pub use fake::DiscordFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use messages::{SentFile, SentMessage};
pub use order::Order;
pub use state::{Answer, Call, Pushed};
