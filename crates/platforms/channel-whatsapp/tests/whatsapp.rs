//! The channel on real sockets, against a bridge that repeats messages until they are confirmed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

#[path = "whatsapp/conformance.rs"]
mod conformance;
#[path = "whatsapp/inbound.rs"]
mod inbound;
#[path = "whatsapp/login.rs"]
mod login;
#[path = "whatsapp/markup.rs"]
mod markup;
#[path = "whatsapp/media.rs"]
mod media;
#[path = "whatsapp/outbound.rs"]
mod outbound;
#[path = "whatsapp/parsers.rs"]
mod parsers;
#[path = "whatsapp/reader.rs"]
mod reader;
#[path = "whatsapp/socket.rs"]
mod socket;
#[path = "whatsapp/status.rs"]
mod status;
#[path = "whatsapp/support.rs"]
mod support;
#[path = "whatsapp/version1.rs"]
mod version1;
