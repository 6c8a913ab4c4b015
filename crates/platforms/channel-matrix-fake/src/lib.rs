//! A fake homeserver of Matrix, with strict semantics.
//!
//! It speaks the client-server API (version 1.11 and later) over HTTP, for the bot and for people:
//! tests let people write with [`MatrixFake::push`], or run clients of their own with
//! [`MatrixFake::log_in`]. Everything that happens has a position in one stream, and a sync returns
//! what comes after the position `since`; so `since` is the only acknowledgement. Unknown and
//! malformed parameters, and requests that no correct client makes, are recorded as
//! [complaints](MatrixFake::complaints).
//!
//! The homeserver stores the keys of devices and carries to-device events, but it understands no
//! encryption: it shows messages in encrypted rooms as they were sent, and complains about clear
//! ones of clients.
//!
//! Known gaps: one homeserver; logins with passwords only; no refresh tokens, knocking, aliases,
//! spaces, search, presence, push rules, previews, thumbnails, key backups or bundled relations;
//! signatures of keys are not checked; every member sees the whole history; typing ends with the
//! fake's clock, but no sync is woken by that. Homeservers choose their limits of calls, so calls
//! are limited only by [`Fault::RateLimited`] and [`Fault::RateLimitedFor`].

mod account;
mod api;
mod auth;
mod delivery;
mod ephemeral;
mod fake;
mod fault;
mod filter;
mod handler;
mod incoming;
mod json;
mod keys;
mod media;
mod membership;
mod model;
mod outage;
mod params;
#[cfg(test)]
mod probe;
mod profile;
mod reading;
mod rooms;
mod route;
mod routes;
mod sending;
mod signing;
mod state;
mod sync;
mod sync_rooms;
mod to_device;
mod watch;

pub use account::{
    Account, BOT_DEVICE, BOT_ID, BOT_NAME, BOT_PASSWORD, BOT_TOKEN, Person, SERVER_NAME,
};
pub use fake::MatrixFake;
pub use fault::Fault;
pub use incoming::Incoming;
pub use model::{Pushed, Receipt, SentFile, SentMessage};
pub use routes::METHODS;
pub use state::Call;
