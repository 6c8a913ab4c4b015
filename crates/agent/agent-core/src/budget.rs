//! The budget of a request's tokens.

use nanobot_context::Calibrator;
use nanobot_types::{ModelId, SessionKey};

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
