//! The channel on real sockets, against a Feishu that sends again what is not acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "feishu/conformance.rs"]
mod conformance;
#[path = "feishu/drafts.rs"]
mod drafts;
#[path = "feishu/inbound.rs"]
mod inbound;
#[path = "feishu/markup.rs"]
mod markup;
#[path = "feishu/outbound.rs"]
mod outbound;
#[path = "feishu/parsers.rs"]
mod parsers;
#[path = "feishu/reader.rs"]
mod reader;
#[path = "feishu/socket.rs"]
mod socket;
#[path = "feishu/support.rs"]
mod support;
#[path = "feishu/transport.rs"]
mod transport;
