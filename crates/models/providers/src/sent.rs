//! The serialised beginning of a conversation, kept from one request of a turn to the next.
//!
//! Decision: the JSON of a message depends only on the messages before it, so that a turn of many
//! rounds serialises each message once and copies its bytes into the later requests. A message
//! whose JSON depends on what follows it ends the beginning: it and all later ones are serialised
//! for each request. Cache marks move, and are added to the bytes.

use std::any::Any;
use std::sync::Arc;

use nanobot_provider::ChatRequest;
use nanobot_types::{ChatMessage, ModelId, ProviderName};

use crate::render::CallIds;

/// The beginning of a conversation as it was sent. `P` is what a message becomes a list of; each
/// protocol has its own.
#[derive(Debug)]
pub(crate) struct SentConversation<P> {
    by: (ProviderName, ModelId),
    /// The messages that `parts` has.
    messages: Vec<Arc<ChatMessage>>,
    parts: Vec<P>,
    /// The ids of their calls.
    ids: CallIds,
}

impl<P: Any> SentConversation<P> {
    /// Creates an empty one. `ids` are those of a conversation before its first call.
    pub(crate) fn new(name: &ProviderName, request: &ChatRequest, ids: CallIds) -> Self {
        Self {
            by: (name.clone(), request.model.clone()),
            messages: Vec::new(),
            parts: Vec::new(),
            ids,
        }
    }

    /// Takes that of the previous request, if this one begins with it, and adds the new messages.
    /// `render` returns the parts of a message; `None` if they depend on what follows it.
    pub(crate) fn of(
        name: &ProviderName,
        request: &ChatRequest,
        ids: CallIds,
        mut render: impl FnMut(&ChatMessage, &mut CallIds) -> Option<Vec<P>>,
    ) -> Self {
        let mut sent = request
            .memo
            .take::<Self>()
            .filter(|sent| sent.begins(name, request))
            .unwrap_or_else(|| Self::new(name, request, ids));
        for message in request
            .transcript
            .messages()
            .iter()
            .skip(sent.messages.len())
        {
            let Some(parts) = render(message, &mut sent.ids) else {
                break;
            };
            sent.parts.extend(parts);
            sent.messages.push(Arc::clone(message));
        }
        sent
    }

    fn begins(&self, name: &ProviderName, request: &ChatRequest) -> bool {
        let messages = request.transcript.messages();
        let is_same = |(sent, message): (&Arc<ChatMessage>, _)| Arc::ptr_eq(sent, message);
        (&self.by.0, &self.by.1) == (name, &request.model)
            && self.messages.len() <= messages.len()
            && self.messages.iter().zip(messages).all(is_same)
    }

    /// Returns what was serialised.
    pub(crate) fn parts(&self) -> &[P] {
        &self.parts
    }

    /// Returns the messages of `request` that were not serialised, and the ids of the calls before
    /// them.
    pub(crate) fn rest<'a>(&self, request: &'a ChatRequest) -> (&'a [Arc<ChatMessage>], CallIds) {
        let messages = request.transcript.messages();
        let rest = messages.get(self.messages.len()..).unwrap_or_default();
        (rest, self.ids.clone())
    }
}
