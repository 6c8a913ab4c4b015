//! The budget of a request's tokens.

use nanobot_context::Calibrator;
use nanobot_provider::{Candidate, ContextWindow};
use nanobot_types::{ModelId, SessionKey};

/// Tokens reserved for what estimates miss: separators, and the error of the estimate.
const RESERVE: usize = 1_024;

/// Returns the maximum number of tokens of a request in a window with answers of `max_output`
/// tokens; 0 for no limit. It is at least half of the window, however long answers may be.
pub(crate) fn of_window(window: usize, max_output: usize) -> usize {
    window
        .saturating_sub(max_output.saturating_add(RESERVE))
        .max(window / 2)
}

/// Returns the lower of two limits, of which 0 is none.
pub(crate) fn lower(one: usize, other: usize) -> usize {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

/// Returns a window as a number of tokens; 0 if the server does not report it.
pub(crate) fn tokens_of(served: Option<ContextWindow>) -> usize {
    served.map_or(0, |window| {
        usize::try_from(window.tokens).unwrap_or(usize::MAX)
    })
}

/// Returns the lower of a setting (0 for no limit) and the budget in the window with which the
/// server of a candidate runs its model. An eighth of that window is left for the answer, as the
/// router demands.
pub(crate) fn in_served_window(
    setting: usize,
    served: Option<ContextWindow>,
    candidate: Option<&Candidate>,
) -> usize {
    let max_output = candidate.map_or(0, |candidate| candidate.generation.max_tokens);
    let max_output = usize::try_from(max_output).unwrap_or(usize::MAX);
    let window = tokens_of(served);
    let most = window - window / 8;
    lower(setting, of_window(window, max_output).min(most))
}

/// Maximum number of estimated tokens of a request; may be unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenBudget(Option<usize>);

impl TokenBudget {
    /// Returns the budget of a session's requests to a model: the setting (0 for no limit) or the
    /// limit that the vendor reported, whichever is lower, in tokens as this program estimates
    /// them.
    pub(crate) fn of(
        setting: usize,
        calibrator: &Calibrator,
        model: &ModelId,
        session: &SessionKey,
    ) -> Self {
        let setting = Some(setting).filter(|setting| *setting > 0);
        let tokens = setting.into_iter().chain(calibrator.limit(model)).min();
        Self(tokens.map(|tokens| (tokens as f64 / calibrator.factor(model, session)) as usize))
    }

    /// Returns the tokens that the conversation may take next to `fixed` tokens of prompt and
    /// tools: at least a quarter of the budget, however long the prompt is. `None` if unlimited.
    pub(crate) fn room(self, fixed: usize) -> Option<usize> {
        self.0
            .map(|tokens| tokens.saturating_sub(fixed).max(tokens / 4))
    }

    /// Returns the tokens of the budget, at most `most`.
    pub(crate) fn at_most(self, most: usize) -> usize {
        self.0.map_or(most, |tokens| tokens.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(setting: usize, calibrator: &Calibrator) -> TokenBudget {
        TokenBudget::of(setting, calibrator, &"m".into(), &"s".into())
    }

    #[test]
    fn conversation_gets_the_rest_of_the_budget_or_a_quarter() {
        let calibrator = Calibrator::new();
        let unlimited = of(0, &calibrator);
        assert_eq!((unlimited.room(7), unlimited.at_most(9)), (None, 9));
        let budget = of(1_000, &calibrator);
        assert_eq!(budget.at_most(usize::MAX), 1_000);
        assert_eq!(budget.at_most(9), 9);
        let rooms = [0, 300, 750, 900, 5_000].map(|fixed| budget.room(fixed));
        assert_eq!(rooms, [1_000, 700, 250, 250, 250].map(Some));
    }
}
