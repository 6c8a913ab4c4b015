//! A fake of the WhatsApp bridge over a real WebSocket, with strict semantics, and the people who
//! write to its account.
//!
//! Clients use [`WhatsAppFake::url`] and [`WhatsAppFake::token`]. The protocol is
//! `bridges/whatsapp/PROTOCOL.md`: version 2, and version 1 with
//! [`WhatsAppFake::start_version_1`]. Unknown and malformed members, and requests that no correct
//! client makes, are recorded as [complaints](WhatsAppFake::complaints). Time passes as fast as
//! [`WhatsAppFake::advance`] says: files and QR codes expire, and pings become due, without
//! waiting. `scripts/check_whatsapp_bridge.py` holds the fake and the bridge by one list of checks.
//!
//! The fake is stricter than the protocol: a `fetch` begins at 0 or at the end of an earlier piece,
//! uploads end with their connection, a document needs a name, and `participant` has to be the
//! sender of a message of a group.
//!
//! Assumptions are: 4003 for a first frame that is no `auth`; 1009 for a frame that is too large;
//! 1001 for a client that leaves pings unanswered; `logged_out` as the reason of `unlinked`; that
//! the journal keeps the latest message whatever its size; that clients of version 1 get each
//! message once, and none of them again after a new connection. An `ack` of a `seq` that was never
//! sent, or a `read` of an unknown message, has no answer and is recorded.
//!
//! Known gaps: nothing is kept on disk, so [`WhatsAppFake::restart`] stays in the process; the
//! pings of version 1 are missing; files have no keys and no checksums; WhatsApp limits no rates
//! unless a fault says so.

mod account;
mod api;
mod auth;
mod connection;
mod delivery;
mod event;
mod fake;
mod fault;
mod files;
mod handler;
mod incoming;
mod jid;
mod journal;
mod link;
mod model;
mod outage;
mod params;
#[cfg(test)]
mod probe;
mod route;
mod sending;
mod signs;
mod socket;
mod state;
mod version1;
mod watch;

pub use account::{ACCOUNT_ID, ACCOUNT_LID, ACCOUNT_NAME, TOKEN};
pub use fake::WhatsAppFake;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use link::Status;
pub use model::{Pushed, SentFile, SentMessage};
pub use state::Call;
