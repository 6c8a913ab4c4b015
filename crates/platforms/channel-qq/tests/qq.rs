//! The channel on real sockets, against a QQ that repeats what a session has not confirmed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "qq/budget.rs"]
mod budget;
#[path = "qq/conformance.rs"]
mod conformance;
#[path = "qq/gateway.rs"]
mod gateway;
#[path = "qq/inbound.rs"]
mod inbound;
#[path = "qq/markup.rs"]
mod markup;
#[path = "qq/outbound.rs"]
mod outbound;
#[path = "qq/parsers.rs"]
mod parsers;
#[path = "qq/reader.rs"]
mod reader;
#[path = "qq/support.rs"]
mod support;
#[path = "qq/transport.rs"]
mod transport;
