//! The messages of a turn, kept within the budget of a request.

use std::sync::Arc;

use nanobot_types::{ChatMessage, LlmResponse, SessionKey};

use super::compact::{compact, estimate_messages};
use super::turn_engine::TurnEngine;
use crate::budget::TokenBudget;

/// The messages of a turn, and the size of what is sent with them.
pub(super) struct Conversation<'a> {
    pub(super) engine: &'a TurnEngine,
    pub(super) session: &'a SessionKey,
    /// Tokens of the system prompt and the tools.
    pub(super) fixed: usize,
    pub(super) messages: Vec<Arc<ChatMessage>>,
    /// `true` once a part of it was left out to make it fit.
    pub(super) shortened: bool,
}

impl Conversation<'_> {
    /// Shortens it to fit into a budget of tokens, 0 for no limit. Returns the tokens that it may
    /// have if it was shortened.
    pub(super) fn fit(&mut self, token_budget: usize) -> Option<usize> {
        let model = self.engine.model();
        let budget = TokenBudget::of(token_budget, &self.engine.calibrator, &model, self.session);
        let room = budget.room(self.fixed)?;
        let is_shorter = compact(&mut self.messages, room);
        self.shortened |= is_shorter;
        is_shorter.then_some(room)
    }

    /// Returns the tokens of a request with it, as its model counts them.
    pub(super) fn tokens(&self) -> usize {
        let estimated = self.fixed + estimate_messages(&self.messages);
        let model = self.engine.model();
        self.engine
            .calibrator
            .calibrated(&model, self.session, estimated)
    }

    /// Shortens it to half its size after a vendor reported a context overflow. Returns `false` if
    /// that was not possible.
    pub(super) fn halve(&mut self) -> bool {
        let total = estimate_messages(&self.messages);
        let model = self.engine.model();
        self.engine
            .calibrator
            .overflowed(&model, self.session, self.fixed + total);
        let halved = compact(&mut self.messages, total / 2);
        self.shortened |= halved;
        halved
    }

    /// Calibrates token estimates with the number that the vendor counted.
    pub(super) fn calibrate(&self, response: &LlmResponse) {
        let (Some(usage), Some(model)) = (response.usage, &response.model) else {
            return;
        };
        let estimated = self.fixed + estimate_messages(&self.messages);
        self.engine
            .calibrator
            .observe(model, self.session, estimated, usage.prompt_tokens);
    }
}
