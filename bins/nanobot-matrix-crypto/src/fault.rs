//! From errors to the failures of the protocol.

use std::fmt::Display;

use nanobot_matrix_crypto::protocol::Failure;

/// Returns a failure with a text.
pub(crate) fn refused(why: impl Into<String>) -> Failure {
    Failure::Refused(why.into())
}

/// Returns a function that turns an error into a failure: `action` failed.
pub(crate) fn failed<E: Display>(action: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| refused(format!("{action}: {error}"))
}
