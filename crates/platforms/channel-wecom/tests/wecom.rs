//! The channel on real sockets, against a gateway that serves one connection and confirms nothing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "wecom/conformance.rs"]
mod conformance;
#[path = "wecom/inbound.rs"]
mod inbound;
#[path = "wecom/markup.rs"]
mod markup;
#[path = "wecom/media.rs"]
mod media;
#[path = "wecom/outbound.rs"]
mod outbound;
#[path = "wecom/parsers.rs"]
mod parsers;
#[path = "wecom/reader.rs"]
mod reader;
#[path = "wecom/socket.rs"]
mod socket;
#[path = "wecom/streams.rs"]
mod streams;
#[path = "wecom/support.rs"]
mod support;
#[path = "wecom/transport.rs"]
mod transport;
#[path = "wecom/welcome.rs"]
mod welcome;
