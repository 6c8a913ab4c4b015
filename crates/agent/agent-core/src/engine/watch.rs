//! Who is told of a turn's requests.

use std::sync::Arc;

use nanobot_provider::ChatRequest;
use nanobot_types::{ChatMessage, ProviderName};

/// A request that somebody answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The request as the provider got it.
    pub sent: &'a ChatRequest,
    /// Who answered.
    pub provider: &'a ProviderName,
    /// The conversation it was made of, before files were read and images left out.
    pub messages: &'a [Arc<ChatMessage>],
    /// Something of the conversation was left out to make it fit.
    pub shortened: bool,
}

/// Watches the requests of a turn. Must not block.
pub trait RequestWatch: Send + Sync {
    /// A request was answered.
    fn answered(&mut self, request: Answered<'_>);
}

/// Nobody watches.
impl RequestWatch for () {
    fn answered(&mut self, _: Answered<'_>) {}
}
