//! Observation of a turn's requests.

use std::sync::Arc;

use nanobot_provider::ChatRequest;
use nanobot_types::{ChatMessage, ProviderName};

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest<'a> {
    /// The request as the provider got it.
    pub sent: &'a ChatRequest,
    /// The provider that answered.
    pub provider: &'a ProviderName,
    /// The conversation it was made from, before files were read and images dropped.
    pub messages: &'a [Arc<ChatMessage>],
    /// `true` if a part of the conversation was left out to make it fit.
    pub shortened: bool,
}

/// Observes the requests of a turn. Must not block.
pub trait RequestObserver: Send + Sync {
    /// Called after a request was answered.
    fn answered(&mut self, request: AnsweredRequest<'_>);
}

/// Ignores all requests.
impl RequestObserver for () {
    fn answered(&mut self, _: AnsweredRequest<'_>) {}
}
