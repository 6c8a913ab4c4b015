//! Tests of session stores and replay, against the contract, the corpus and crashes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test may panic anywhere"
)]

#[path = "session/conformance.rs"]
mod conformance;
#[path = "session/continuing.rs"]
mod continuing;
#[path = "session/corpus.rs"]
mod corpus;
#[path = "session/crashes.rs"]
mod crashes;
#[path = "session/cutting.rs"]
mod cutting;
#[path = "session/disks.rs"]
mod disks;
#[path = "session/faults.rs"]
mod faults;
#[cfg(target_os = "linux")]
#[path = "session/limits.rs"]
mod limits;
#[path = "session/replaying.rs"]
mod replaying;
#[path = "session/speed.rs"]
mod speed;
#[path = "session/support.rs"]
mod support;
