//! The program, as its caller sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests"
)]

mod homeserver;
mod hostile;
mod identity;
#[cfg(unix)]
mod kill;
mod pipe;
mod rooms;
mod side;
mod store;
mod verification;
