//! The channel on real sockets, against a homeserver that keeps its positions strictly.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

#[path = "matrix/conformance.rs"]
mod conformance;
#[path = "matrix/encrypted.rs"]
mod encrypted;
#[path = "matrix/encryption.rs"]
mod encryption;
#[path = "matrix/friend.rs"]
mod friend;
#[path = "matrix/hostile.rs"]
mod hostile;
#[path = "matrix/inbound.rs"]
mod inbound;
#[path = "matrix/keys.rs"]
mod keys;
#[path = "matrix/markup.rs"]
mod markup;
#[path = "matrix/outbound.rs"]
mod outbound;
#[path = "matrix/parsers.rs"]
mod parsers;
#[path = "matrix/positions.rs"]
mod positions;
#[path = "matrix/session.rs"]
mod session;
#[path = "matrix/support.rs"]
mod support;
