//! Accepts TCP connections within limits.
//!
//! Decision: every listener of the gateway accepts through [`Listener`], so that strangers cannot
//! use up the process's descriptors. A connection holds a [`Seat`]. When the seats of its address
//! or of the listener are taken, the oldest idle connection is closed in favour of the new one, so
//! that silent connections cannot keep others out. [`http::serve`] adds limits on the time and size
//! of headers and on the duration of a shutdown, which `axum::serve` does not have.
//!
//! This crate knows no routes and no credentials. Reading a body is left to the handler, after it
//! has authenticated the client; [`http::read_body`] limits its size and time.

mod accept;
pub mod host;
pub mod http;
mod penalty;
mod seats;

pub use accept::Listener;
pub use penalty::Penalties;
pub use seats::{Seat, SeatLimits, Seats};
