//! The channel on real sockets, against a Slack that sends again what is not acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "slack/catch_up.rs"]
mod catch_up;
#[path = "slack/conformance.rs"]
mod conformance;
#[path = "slack/drafts.rs"]
mod drafts;
#[path = "slack/inbound.rs"]
mod inbound;
#[path = "slack/markup.rs"]
mod markup;
#[path = "slack/native_tables.rs"]
mod native_tables;
#[path = "slack/outbound.rs"]
mod outbound;
#[path = "slack/reader.rs"]
mod reader;
#[path = "slack/socket.rs"]
mod socket;
#[path = "slack/support.rs"]
mod support;
#[path = "slack/tables.rs"]
mod tables;
#[path = "slack/transport.rs"]
mod transport;
#[path = "slack/uncertain.rs"]
mod uncertain;
