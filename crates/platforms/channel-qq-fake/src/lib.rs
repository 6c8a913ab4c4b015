//! A fake of QQ's open API for bots and its gateway, with strict semantics.
//!
//! Clients use [`QqFake::base_url`] instead of QQ's host, and [`QqFake::token_url`] for tokens;
//! `/gateway/bot` returns the address of the gateway, as at QQ. A session keeps its events for some
//! time: a client that resumes it gets what it missed, with the same numbers. Replies have a time
//! and a number, messages that are no replies a quota. Unknown and malformed parameters, and
//! requests that no correct client makes, are recorded as [complaints](QqFake::complaints). Time
//! passes as fast as [`QqFake::advance`] says: tokens, sessions, uploads and the time for replies
//! end without waiting.
//!
//! Known gaps: one bot with one shard; no webhooks, no replies to events (`event_id`), no ark,
//! embed, keyboard, recall, reactions, streamed messages and uploads in parts; files by their
//! address are not fetched. The members of a group have the same openid as in private chats, which
//! QQ does not promise. Every session gets every event, as far as its intents go; one connection
//! that resumes the session of another closes it with 4009. The time for which a session can be resumed, opcode 9 before the close codes 4006 and 4007, the limit of a
//! text and the validity of attachments are the fake's own, and so is the choice among the codes
//! that QQ documents for one reason. Limits of calls apply only on demand.

mod account;
mod api;
mod auth;
mod connection;
mod content;
mod event;
mod fake;
mod fault;
mod files;
mod gateway;
mod handler;
mod incoming;
mod model;
mod outage;
mod params;
#[cfg(test)]
mod probe;
mod route;
mod rules;
mod sending;
mod session;
mod socket;
mod state;
mod watch;

pub use account::{
    APP_ID, BOT_ID, BOT_NAME, CLIENT_SECRET, DIRECT_MESSAGE, GROUP_AND_C2C, PUBLIC_GUILD_MESSAGES,
    TOKEN_PREFIX,
};
pub use fake::QqFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use model::{ChatKind, Pushed, SentFile, SentMessage};
pub use state::Call;
