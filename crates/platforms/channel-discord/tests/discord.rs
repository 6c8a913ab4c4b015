//! The channel on real sockets, against a gateway and an API with strict semantics.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "discord/commands.rs"]
mod commands;
#[path = "discord/conformance.rs"]
mod conformance;
#[path = "discord/drafts.rs"]
mod drafts;
#[path = "discord/gateway.rs"]
mod gateway;
#[path = "discord/inbound.rs"]
mod inbound;
#[path = "discord/markup.rs"]
mod markup;
#[path = "discord/missed.rs"]
mod missed;
#[path = "discord/outbound.rs"]
mod outbound;
#[path = "discord/reactions.rs"]
mod reactions;
#[path = "discord/reader.rs"]
mod reader;
#[path = "discord/secrets.rs"]
mod secrets;
#[path = "discord/support.rs"]
mod support;
#[path = "discord/transport.rs"]
mod transport;
