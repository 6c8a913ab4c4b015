//! A fake of Mochat: its HTTP API and its Socket.IO server, with strict semantics.
//!
//! Clients use [`MochatFake::base_url`] for the API and [`MochatFake::socket_url`] for the socket.
//! Events of a session are numbered. A subscription or a long poll names the number of the last
//! event that a client has, its cursor, and returns the events after it; so the cursor is the only
//! acknowledgement. Panels have no cursors, only a history. Unknown and malformed parameters, and
//! requests that no correct client makes, are recorded as [complaints](MochatFake::complaints).
//!
//! The socket speaks Engine.IO 4 over WebSocket and Socket.IO 5 with one [`Serializer`]. A client
//! that uses the other one is disconnected.
//!
//! Known gaps: one bot, one group, one workspace; no accounts, invitations, or calls that create
//! and change sessions and panels; no HTTP polling and no upgrades of transports; no binary
//! attachments. Mochat documents neither the text of refused logins, nor its codes besides 200, nor
//! the numbers of panels' events, nor its limits: those are the fake's own. So is the delivery of
//! events above the limit of a subscription.

mod account;
mod api;
mod connection;
mod delivery;
mod engine;
mod fake;
mod fault;
mod handler;
mod handshake;
mod incoming;
mod long_poll;
mod model;
mod outage;
mod packet;
mod params;
#[cfg(test)]
mod probe;
mod push;
mod reading;
mod route;
mod sending;
mod session;
mod socket;
mod state;
mod subscribe;
mod watch;

pub use account::{
    BOT_NAME, BOT_USER_ID, CLAW_TOKEN, GROUP_ID, INBOX_APPEND, PANEL_EVENTS, SESSION_EVENTS,
    SUBSCRIBE_PANELS, SUBSCRIBE_SESSIONS, WORKSPACE_ID,
};
pub use fake::MochatFake;
pub use fault::Fault;
pub use incoming::{Incoming, Mention, Person};
pub use model::{Feed, Pushed, SentMessage, TEXT_PANEL};
pub use packet::Serializer;
pub use state::Call;
