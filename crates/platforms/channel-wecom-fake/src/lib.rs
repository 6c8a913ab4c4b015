//! A fake of WeCom's gateway for AI bots: the long connection and encrypted files, with strict
//! semantics.
//!
//! Clients use [`WeComFake::ws_url`] instead of `wss://openws.work.weixin.qq.com`. Messages contain
//! the addresses of their files, which the fake serves, too. Unknown and malformed parameters, and
//! requests that no correct client makes, are recorded as [complaints](WeComFake::complaints). Time
//! passes as fast as [`WeComFake::advance`] says: addresses, streams and uploads expire without
//! waiting.
//!
//! A push is never confirmed, and a push without a connection is lost: WeCom documents neither
//! confirmations nor repetitions. [`WeComFake::keep_messages`] makes pushes wait instead.
//!
//! Facts beyond WeCom's documentation are from reports of its users: the codes 853000
//! (credentials), 846605 (`req_id`), 846607 (too many messages), 846608 (expired stream), 846609
//! (not subscribed), 45009 (too many calls), 40007 (media), 40008 (type of message), 40058
//! (parameter), 40201 (spam), 86201 (no chat) and 93006 (unknown chat); that the answer to an
//! unreadable frame has no `req_id`; that each frame of a stream counts as a message; that an event
//! takes the answer of its kind only; that pictures and cards of streams are accepted but not
//! shown. Reports differ on the life of a stream, six or ten minutes; here it is six.
//!
//! Assumptions are: 40058 for a text that is too long, for a frame after the end of a stream and
//! for incomplete uploads; 846605 for a late welcome or update; 93006 for a chat in which no one
//! wrote; 40004 to 40006 for uploads, from WeCom's list of codes; that the finishing frame of a
//! stream may be repeated; the names in the headers of a download.
//!
//! Known gaps: one organisation, one bot; no `response_url`; cards are checked for their type and
//! task only; no limit of uploads. Limits of messages apply only on demand.

mod account;
mod api;
mod callback;
mod card;
mod connection;
mod content;
mod crypto;
mod delivery;
mod event;
mod fake;
mod fault;
mod files;
mod handler;
mod incoming;
mod limit;
mod model;
mod outage;
mod params;
#[cfg(test)]
mod probe;
mod reply;
mod route;
mod sending;
mod socket;
mod state;
mod stream;
mod subscription;
mod upload;
mod watch;

pub use account::{BOT_ID, BOT_NAME, SECRET};
pub use fake::WeComFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use model::{Pushed, SentFile, SentMessage};
pub use state::Call;
