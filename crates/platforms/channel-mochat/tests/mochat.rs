//! The channel on real sockets, against a Mochat that numbers events and forgets nothing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "mochat/collecting.rs"]
mod collecting;
#[path = "mochat/conformance.rs"]
mod conformance;
#[path = "mochat/inbound.rs"]
mod inbound;
#[path = "mochat/outbound.rs"]
mod outbound;
#[path = "mochat/parsers.rs"]
mod parsers;
#[path = "mochat/polling.rs"]
mod polling;
#[path = "mochat/positions.rs"]
mod positions;
#[path = "mochat/socket.rs"]
mod socket;
#[path = "mochat/support.rs"]
mod support;
#[path = "mochat/transport.rs"]
mod transport;
