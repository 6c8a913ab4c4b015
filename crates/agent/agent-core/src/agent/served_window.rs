//! The window with which the server of a session's model runs it, and what follows from it.
//!
//! Decision: only a local server has one, and it may be far smaller than the model's own. It limits
//! a configured window and never raises it. The profile of a prompt changes only where the prompt
//! is built anew, except that a prompt that leaves no room in the window is replaced at once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_context::{
    Epoch, PromptProfile, SessionFacts, SystemPrompt, estimate_tokens, estimate_tools,
};
use nanobot_provider::ContextWindow;
use nanobot_types::{ModelId, Origin, SessionKey, ToolSpec};

use super::{Agent, TurnFacts};
use crate::{Observer, Signal, budget};

/// Maximum window in which prompts are lean, in tokens.
const LEAN: usize = 8_192;
/// Minimum window that suffices for work with tools, in tokens. The user reads of a smaller one.
const ROOMY: usize = 16_384;
/// Maximum number of models whose windows were announced.
const MAX_ANNOUNCED: usize = 256;

/// The windows that were announced since the program started, with their models.
#[derive(Debug, Default)]
pub(super) struct WindowNotices(Mutex<HashSet<(String, u32)>>);

impl WindowNotices {
    /// Returns `true` the first time that a model has this window.
    fn is_new(&self, model: &str, window: ContextWindow) -> bool {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if announced.len() >= MAX_ANNOUNCED {
            announced.clear();
        }
        announced.insert((model.to_owned(), window.tokens))
    }
}

impl Agent {
    /// Returns the window with which a model is run, and records it for the summaries of a session.
    /// Takes at most 2 s, and no time for a model of a vendor.
    pub(super) async fn served_window(
        &self,
        session: &SessionKey,
        model: &ModelId,
    ) -> Option<ContextWindow> {
        let served = self.engine.router().context_window(model).await;
        let tokens = budget::tokens_of(served);
        self.consolidator.record_window(session, tokens);
        served
    }

    /// Returns the maximum number of tokens of a request to the default model; 0 for no limit.
    pub(super) async fn default_budget(&self) -> usize {
        let (router, default) = (self.engine.router(), ModelId::from(""));
        let served = router.context_window(&default).await;
        let setting = self.settings.options.token_budget;
        budget::in_served_window(setting, served, router.preferred(&default))
    }

    /// Returns the profile of a prompt that is built now.
    pub(super) fn profile(&self, session: &SessionKey) -> PromptProfile {
        self.settings
            .prompt_profile
            .unwrap_or_else(|| match self.consolidator.window(session) {
                1..=LEAN => PromptProfile::Lean,
                _ => PromptProfile::Full,
            })
    }

    /// Returns the prompt of a session. A full prompt that was built before the window was known is
    /// replaced if it takes more than half of it.
    pub(super) async fn fitting_epoch(
        &self,
        session: &SessionKey,
        facts: SessionFacts<'_>,
    ) -> Epoch {
        let epoch = self.context.epoch(session, facts).await;
        let is_other =
            facts.profile == PromptProfile::Lean && epoch.prompt.profile() != facts.profile;
        if !is_other {
            return epoch;
        }
        let tools = estimate_tools(&self.tools_of(&epoch.prompt));
        let fixed = estimate_tokens(epoch.prompt.text()) + tools;
        let window = self.consolidator.window(session);
        if window == 0 || fixed <= window / 2 {
            return epoch;
        }
        self.context.renew(session);
        self.context.epoch(session, facts).await
    }

    /// Returns the tools that are listed with a prompt.
    pub(super) fn tools_of(&self, prompt: &SystemPrompt) -> Arc<[ToolSpec]> {
        let registry = self.engine.registry();
        match prompt.profile() {
            PromptProfile::Full => registry.specs(),
            PromptProfile::Lean => registry.core_specs(),
        }
    }

    /// Notifies the user once that the server runs the model with a small window; `fixed` tokens of it
    /// go to the system prompt and the tools. Any window below the configured one is logged.
    pub(super) fn announce_window(
        &self,
        facts: &TurnFacts,
        observer: &dyn Observer,
        model: &ModelId,
        (served, fixed): (Option<ContextWindow>, usize),
    ) {
        let (Some(served), Some(candidate)) = (served, self.engine.router().preferred(model))
        else {
            return;
        };
        let (tokens, configured) = (
            budget::tokens_of(Some(served)),
            self.consolidator.settings().window,
        );
        let is_smaller = configured == 0 || tokens < configured;
        let model = candidate.to_string();
        if !is_smaller || facts.origin != Origin::User || !self.windows.is_new(&model, served) {
            return;
        }
        tracing::warn!(
            model,
            tokens,
            configured,
            fixed,
            "the server runs the model with a smaller window"
        );
        if tokens < ROOMY {
            observer.signal(Signal::Notice(format!(
                "{model} runs with a window of {tokens} tokens; the system prompt and the tools take about {fixed}. {}",
                served.advice
            )));
        }
    }
}
