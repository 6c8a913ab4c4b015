//! Settings of consolidation: when conversations are summarised, and how much of them stays.

use std::time::Duration;

use crate::budget;

/// Number of newest messages that always stay if no `memory_window` is set.
const KEPT_MESSAGES: usize = 8;
/// Minimum and maximum number of messages that stay of a `memory_window`.
const KEPT_OF_WINDOW: std::ops::RangeInclusive<usize> = 2..=10;

/// Settings that keep an agent's conversations within the model's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsolidationSettings {
    /// `true` if conversations are summarised. Otherwise whatever does not fit is left out of
    /// requests.
    pub enabled: bool,
    /// Size of the model's context window in tokens; 0 for no limit.
    pub window: usize,
    /// Maximum number of tokens of an answer, which count towards the window.
    pub max_output: usize,
    /// Number of messages above which a conversation is summarised, whatever their size; `None` for
    /// no limit.
    pub memory_window: Option<usize>,
    /// Timeout of one summary.
    pub deadline: Duration,
    /// Maximum number of requests that a summary may need without the person's consent.
    pub max_unasked_requests: u32,
}

impl Default for ConsolidationSettings {
    /// Enabled, for a window of 65,536 tokens and answers of 8,192, with three minutes per summary,
    /// and eight requests without consent.
    fn default() -> Self {
        Self {
            enabled: true,
            window: 65_536,
            max_output: 8_192,
            memory_window: None,
            deadline: Duration::from_mins(3),
            max_unasked_requests: 8,
        }
    }
}

impl ConsolidationSettings {
    /// Returns the maximum number of tokens of a request; 0 for no limit. It is at least half of
    /// the window, however long answers may be.
    #[must_use]
    pub fn budget(&self) -> usize {
        budget::of_window(self.window, self.max_output)
    }

    /// Returns the number of newest messages that are never summarised.
    #[must_use]
    pub fn kept_messages(&self) -> usize {
        let of_window =
            |window: usize| (window / 2).clamp(*KEPT_OF_WINDOW.start(), *KEPT_OF_WINDOW.end());
        self.memory_window.map_or(KEPT_MESSAGES, of_window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_reserves_room_for_the_output() {
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
    fn keeps_half_of_the_message_window_within_bounds() {
        for (memory_window, kept_messages) in
            [(None, 8), (Some(1), 2), (Some(6), 3), (Some(50), 10)]
        {
            let settings = ConsolidationSettings {
                memory_window,
                ..ConsolidationSettings::default()
            };
            assert_eq!(settings.kept_messages(), kept_messages, "{memory_window:?}");
        }
    }
}
