//! Folds a stream of events into one response.
/// Placeholder.
#[derive(Debug)]
pub struct Fold;
/// Placeholder.
#[derive(Debug)]
pub struct Folded;
