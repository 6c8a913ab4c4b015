//! The result of a summary, worded for people.

use std::fmt;

/// The result of `/compact`, or of a background summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Number of messages that were summarised and left the conversation.
    pub messages: u64,
    /// Number of messages that are still sent.
    pub remaining: usize,
    /// The reason why it stopped early, if something went wrong.
    pub error: Option<String>,
    /// `true` if another summary of this session was already running.
    pub busy: bool,
    /// The question whether older messages are to be summarised, if that takes many requests.
    pub question: Option<String>,
    /// The progress of older messages that are summarised with consent, in the background.
    pub background: Option<SummaryProgress>,
}

/// The progress of messages that are summarised with consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryProgress {
    /// Number of messages that are summarised.
    pub done: u64,
    /// Number of all of these messages.
    pub total: u64,
}

impl fmt::Display for SummaryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} older messages are summarised so far; the rest follows in the background. /summarize stop ends \
             that.",
            self.done, self.total
        )
    }
}

impl fmt::Display for CompactReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(question) = &self.question {
            return f.write_str(question);
        }
        self.fmt_own(f)?;
        self.background
            .map_or(Ok(()), |progress| write!(f, " {progress}"))
    }
}

impl CompactReport {
    /// Formats what it did itself.
    fn fmt_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.busy, self.messages, &self.error) {
            (true, ..) => f.write_str("This conversation is being summarised already."),
            (_, 0, None) => {
                write!(
                    f,
                    "There is nothing to summarise: the newest {} messages are kept as they are.",
                    self.remaining
                )
            }
            (_, 0, Some(why)) => write!(
                f,
                "The conversation could not be summarised ({why}). Nothing was changed."
            ),
            (_, count, problem) => {
                write!(
                    f,
                    "Summarised {count} messages into memory; {} are still in context.",
                    self.remaining
                )?;
                problem
                    .as_ref()
                    .map_or(Ok(()), |why| write!(f, " Then it stopped: {why}."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_render_as_sentences() {
        let table = [
            (
                CompactReport {
                    remaining: 3,
                    ..CompactReport::default()
                },
                "nothing to summarise: the newest 3 messages",
            ),
            (
                CompactReport {
                    messages: 12,
                    remaining: 8,
                    ..CompactReport::default()
                },
                "Summarised 12 messages into memory; 8",
            ),
            (
                CompactReport {
                    error: Some("no answer".to_owned()),
                    ..CompactReport::default()
                },
                "(no answer)",
            ),
            (
                CompactReport {
                    busy: true,
                    ..CompactReport::default()
                },
                "already",
            ),
            (
                CompactReport {
                    busy: true,
                    background: Some(SummaryProgress {
                        done: 1_024,
                        total: 2_500,
                    }),
                    ..CompactReport::default()
                },
                "already. 1024 of 2500 older messages are summarised so far",
            ),
        ];
        for (report, part) in table {
            assert!(report.to_string().contains(part), "{report}");
        }
    }
}
