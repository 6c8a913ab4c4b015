//! The messages of a turn, kept within the budget of a request.

use std::sync::Arc;

use nanobot_types::{ChatMessage, LlmResponse, ModelId, SessionKey};

use super::compact::{compact, estimate_messages};
use super::turn_engine::TurnEngine;
use crate::budget::TokenBudget;

/// The messages of a turn, and the size of what is sent with them. Each message is counted once.
pub(super) struct Conversation<'a> {
    engine: &'a TurnEngine,
    session: &'a SessionKey,
    /// Tokens of the system prompt and the tools.
    fixed: usize,
    messages: Vec<Arc<ChatMessage>>,
    /// Estimated tokens of the messages.
    estimated: usize,
    is_shortened: bool,
}

impl<'a> Conversation<'a> {
    /// Creates it with the tokens of the system prompt and the tools.
    pub(super) fn new(
        engine: &'a TurnEngine,
        session: &'a SessionKey,
        fixed: usize,
        messages: Vec<Arc<ChatMessage>>,
    ) -> Self {
        Self {
            engine,
            session,
            fixed,
            estimated: estimate_messages(&messages),
            messages,
            is_shortened: false,
        }
    }

    pub(super) fn messages(&self) -> &[Arc<ChatMessage>] {
        &self.messages
    }

    /// Returns `true` once a part of it was left out to make it fit.
    pub(super) fn is_shortened(&self) -> bool {
        self.is_shortened
    }

    pub(super) fn extend(&mut self, messages: Vec<Arc<ChatMessage>>) {
        self.estimated += estimate_messages(&messages);
        self.messages.extend(messages);
    }

    /// Shortens it to fit into a budget of tokens, 0 for no limit. Returns the tokens that it may
    /// have if it was shortened.
    pub(super) fn fit(&mut self, token_budget: usize) -> Option<usize> {
        let model = self.engine.model();
        let budget = TokenBudget::of(token_budget, &self.engine.calibrator, &model, self.session);
        let room = budget.room(self.fixed)?;
        self.shorten(room).then_some(room)
    }

    /// Returns the tokens of a request with it, as its model counts them.
    pub(super) fn tokens(&self) -> usize {
        let model = self.engine.model();
        self.engine
            .calibrator
            .calibrated(&model, self.session, self.estimated_request())
    }

    /// Shortens it to half its size after it was too long for `model`. Returns `false` if that was
    /// not possible.
    pub(super) fn halve(&mut self, model: &ModelId) -> bool {
        self.engine
            .calibrator
            .overflowed(model, self.session, self.estimated_request());
        self.shorten(self.estimated / 2)
    }

    /// Calibrates token estimates with the number that the vendor counted.
    pub(super) fn calibrate(&self, response: &LlmResponse) {
        let (Some(usage), Some(model)) = (response.usage, &response.model) else {
            return;
        };
        self.engine.calibrator.observe(
            model,
            self.session,
            self.estimated_request(),
            usage.prompt_tokens,
        );
    }

    fn estimated_request(&self) -> usize {
        self.fixed + self.estimated
    }

    fn shorten(&mut self, budget: usize) -> bool {
        let before = self.estimated;
        self.estimated = compact(&mut self.messages, before, budget);
        let is_shorter = self.estimated < before;
        self.is_shortened |= is_shorter;
        is_shorter
    }
}
