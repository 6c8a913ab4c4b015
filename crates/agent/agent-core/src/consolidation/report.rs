//! What came of summarising, in words for people.

use std::fmt;

/// What came of `/compact`, or of a summary that was due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Messages that left the conversation and are summarised now.
    pub messages: u64,
    /// Messages that are still sent.
    pub left: usize,
    /// Why it went no further, if something went wrong.
    pub trouble: Option<String>,
    /// Another summary of this session was under way.
    pub busy: bool,
}

impl fmt::Display for CompactReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.busy, self.messages, &self.trouble) {
            (true, ..) => f.write_str("This conversation is being summarised already."),
            (_, 0, None) => {
                write!(
                    f,
                    "There is nothing to summarise: the newest {} messages are kept as they are.",
                    self.left
                )
            }
            (_, 0, Some(why)) => write!(
                f,
                "The conversation could not be summarised ({why}). Nothing was changed."
            ),
            (_, count, trouble) => {
                write!(
                    f,
                    "Summarised {count} messages into memory; {} are still in context.",
                    self.left
                )?;
                trouble
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
    fn a_report_is_a_sentence() {
        let table = [
            (
                CompactReport {
                    left: 3,
                    ..CompactReport::default()
                },
                "nothing to summarise: the newest 3 messages",
            ),
            (
                CompactReport {
                    messages: 12,
                    left: 8,
                    ..CompactReport::default()
                },
                "Summarised 12 messages into memory; 8",
            ),
            (
                CompactReport {
                    trouble: Some("no answer".to_owned()),
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
