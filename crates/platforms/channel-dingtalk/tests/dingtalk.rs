//! The channel on real sockets, against a DingTalk that sends again what is not acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "dingtalk/cards.rs"]
mod cards;
#[path = "dingtalk/conformance.rs"]
mod conformance;
#[path = "dingtalk/inbound.rs"]
mod inbound;
#[path = "dingtalk/markup.rs"]
mod markup;
#[path = "dingtalk/outbound.rs"]
mod outbound;
#[path = "dingtalk/parsers.rs"]
mod parsers;
#[path = "dingtalk/reader.rs"]
mod reader;
#[path = "dingtalk/socket.rs"]
mod socket;
#[path = "dingtalk/support.rs"]
mod support;
#[path = "dingtalk/transport.rs"]
mod transport;
