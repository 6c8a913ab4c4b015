//! The promises about MCP servers, against a strict server over real pipes.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

mod calls;
mod corpus;
mod definitions;
mod fixture;
mod http;
mod login;
