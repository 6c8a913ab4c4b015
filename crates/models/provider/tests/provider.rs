//! Behaviour of folding and of the router.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing test may panic"
)]

#[path = "provider/failover.rs"]
mod failover;
#[path = "provider/fold.rs"]
mod fold;
#[path = "provider/outages.rs"]
mod outages;
#[path = "provider/router.rs"]
mod router;
#[path = "provider/script.rs"]
mod script;
#[path = "provider/spend.rs"]
mod spend;
