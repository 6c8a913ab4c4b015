//! A fake of Feishu: the open API, the long connection and files, with strict semantics.
//!
//! Clients use [`FeishuFake::base_url`] instead of Feishu's domain; `/callback/ws/endpoint` returns
//! the URL of the long connection, as at Feishu. An event that is not acknowledged within three
//! seconds, is answered with another code than 200, or loses its connection is delivered again.
//! Unknown and malformed parameters, and requests that no correct client makes, are recorded as
//! [complaints](FeishuFake::complaints). Time passes as fast as
//! [`FeishuFake::advance`] says: tokens, `uuid`s and streaming cards expire without waiting.
//!
//! Known gaps: one tenant, one app, no card templates, no encrypted events, no user access tokens,
//! no list of a chat's messages, no stickers and shared contacts from the bot. Where Feishu
//! documents a rule, but no code for it, the fake answers 230001 or 230099. Frequency limits apply
//! only on demand. An event that lost its connection before it was answered is delivered again
//! without limit; Feishu does not document a limit for this case.

mod account;
mod api;
mod auth;
mod card;
mod cardkit;
mod connection;
mod content;
mod delivery;
mod emoji;
mod event;
mod fake;
mod fault;
mod files;
mod frame;
mod handler;
mod handshake;
mod incoming;
mod messages;
mod model;
mod outage;
mod params;
mod press;
#[cfg(test)]
mod probe;
mod reactions;
mod route;
mod seen;
mod sending;
mod socket;
mod state;
mod store;
mod text;
mod watch;

pub use account::{APP_ID, APP_SECRET, BOT_NAME, BOT_OPEN_ID, TENANT_KEY, TOKEN_PREFIX};
pub use connection::ClientConfig;
pub use fake::FeishuFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use model::{Pushed, SentFile, SentMessage};
pub use state::Call;
