//! The context window with which a server runs a model.

/// A context window as its server reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextWindow {
    /// Maximum number of tokens of a request and its answer together.
    pub tokens: u32,
    /// The way to a larger one on this server, as a sentence for its operator.
    pub advice: &'static str,
}
