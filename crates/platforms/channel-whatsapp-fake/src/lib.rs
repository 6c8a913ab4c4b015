//! A fake of the WhatsApp bridge over a real WebSocket, with strict semantics, and the people who
//! write to its account.
//!
//! The protocol is `bridges/whatsapp/PROTOCOL.md`: version 2, and version 1 on demand. Unknown and
//! malformed members, and requests that no correct client makes, are recorded as
//! [complaints](WhatsAppFake::complaints). Time passes as fast as [`WhatsAppFake::advance`] says.

mod account;
mod api;
mod auth;
mod connection;
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
mod route;
mod sending;
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
