//! Tests of session stores and replay, against the contract, the corpus and crashes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test may panic anywhere"
)]

#[path = "session/catalog.rs"]
mod catalog;
#[path = "session/conformance.rs"]
mod conformance;
#[path = "session/corpus.rs"]
mod corpus;
#[path = "session/crashes.rs"]
mod crashes;
#[path = "session/disks.rs"]
mod disks;
#[path = "session/faults.rs"]
mod faults;
#[cfg(target_os = "linux")]
#[path = "session/limits.rs"]
mod limits;
#[path = "session/python.rs"]
mod python;
#[path = "session/replay.rs"]
mod replay;
#[path = "session/rewind.rs"]
mod rewind;
#[path = "session/speed.rs"]
mod speed;
#[path = "session/support.rs"]
mod support;
