//! The error type of this crate.

use nanobot_testkit::TestkitError;

use crate::Fault;

/// Reason why a fake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FakeError {
    /// The fake itself failed.
    #[error(transparent)]
    Fake(#[from] TestkitError),

    /// No platform has this name.
    #[error("no platform is called {0:?}")]
    UnknownPlatform(String),

    /// The platform's view does not list this fault in [`faults`](crate::ChatFake::faults).
    #[error("{0} has no fault {1:?}")]
    NoSuchFault(&'static str, Fault),
}
