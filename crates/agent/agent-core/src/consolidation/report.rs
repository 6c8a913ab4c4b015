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
}

impl fmt::Display for CompactReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(question) = &self.question {
            return f.write_str(question);
        }
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
        ];
        for (report, part) in table {
            assert!(report.to_string().contains(part), "{report}");
        }
    }
}
