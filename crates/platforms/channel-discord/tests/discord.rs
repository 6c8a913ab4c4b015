//! The channel on real sockets, against a gateway and an API with strict semantics.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "discord/catch_up.rs"]
mod catch_up;
#[path = "discord/conformance.rs"]
mod conformance;
#[path = "discord/drafts.rs"]
mod drafts;
#[path = "discord/inbound.rs"]
mod inbound;
#[path = "discord/interactions.rs"]
mod interactions;
#[path = "discord/lanes.rs"]
mod lanes;
#[path = "discord/markup.rs"]
mod markup;
#[path = "discord/outbound.rs"]
mod outbound;
#[path = "discord/reactions.rs"]
mod reactions;
#[path = "discord/reader.rs"]
mod reader;
#[path = "discord/secrets.rs"]
mod secrets;
#[path = "discord/socket.rs"]
mod socket;
#[path = "discord/support.rs"]
mod support;
#[path = "discord/transport.rs"]
mod transport;
