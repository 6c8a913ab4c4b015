//! When conversations are summarised and how much of them stays.

use std::time::Duration;

/// Tokens that stay free for what no estimate sees: separators, and the error of the estimate.
const RESERVE: usize = 1_024;
/// Messages that always stay when no window of messages is set.
const KEPT: usize = 8;
/// What stays of a window of messages, at least and at most.
const KEPT_OF_WINDOW: std::ops::RangeInclusive<usize> = 2..=10;

/// How an agent keeps its conversations within the model's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsolidationSettings {
    /// Whether conversations are summarised at all. Where they are not, what does not fit is left
    /// out of requests.
    pub enabled: bool,
    /// Tokens that fit into the model's window; 0 when that is not limited.
    pub window: usize,
    /// Of these, tokens that the answer may take.
    pub max_output: usize,
    /// Messages beyond which a conversation is summarised, whatever it takes; `None` for no such
    /// limit.
    pub memory_window: Option<usize>,
    /// How long the model may take for one summary.
    pub deadline: Duration,
}

impl Default for ConsolidationSettings {
    /// On, for a window of 65,536 tokens and answers of 8,192, three minutes a summary.
    fn default() -> Self {
        Self {
            enabled: true,
            window: 65_536,
            max_output: 8_192,
            memory_window: None,
            deadline: Duration::from_mins(3),
        }
    }
}

impl ConsolidationSettings {
    /// Tokens that a request may take; 0 for no limit. At least half of the window, however long
    /// answers may be.
    #[must_use]
    pub fn budget(&self) -> usize {
        self.window
            .saturating_sub(self.max_output.saturating_add(RESERVE))
            .max(self.window / 2)
    }

    /// The newest messages that are never summarised away.
    #[must_use]
    pub fn kept(&self) -> usize {
        let of_window =
            |window: usize| (window / 2).clamp(*KEPT_OF_WINDOW.start(), *KEPT_OF_WINDOW.end());
        self.memory_window.map_or(KEPT, of_window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_leaves_room_for_the_answer() {
        for (window, max_output, budget) in [
            (65_536, 8_192, 56_320),
            (8_192, 8_192, 4_096),
            (200_000, 8_192, 190_784),
            (0, 8_192, 0),
        ] {
            let settings = ConsolidationSettings {
                window,
                max_output,
                ..ConsolidationSettings::default()
            };
            assert_eq!(settings.budget(), budget, "{window}");
        }
    }

    #[test]
    fn half_of_a_window_of_messages_stays_within_bounds() {
        for (memory_window, kept) in [(None, 8), (Some(1), 2), (Some(6), 3), (Some(50), 10)] {
            let settings = ConsolidationSettings {
                memory_window,
                ..ConsolidationSettings::default()
            };
            assert_eq!(settings.kept(), kept, "{memory_window:?}");
        }
    }
}
