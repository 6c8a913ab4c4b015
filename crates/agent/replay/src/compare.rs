//! Compares two journals of one turn.
//!
//! Decision: the comparison covers what a person or a model would see: role, text, calls,
//! reasoning, and how the turn ended. Call ids may be generated anew, so a result is compared by
//! the position of the call that it answers. Times and the answering provider are not compared.

use std::fmt;

use nanobot_session::{Entry, MessageEntry, TurnEnd, TurnOutcome};
use nanobot_types::{CallId, ChatMessage};

use crate::turns::RecordedTurn;

/// Number of characters shown before the place where two texts diverge.
const BEFORE: usize = 24;
/// Number of characters shown from there on.
const AFTER: usize = 96;

/// The aspect in which two steps differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The role, or the presence of the step.
    Role,
    /// The text of a message or a tool result.
    Text,
    /// The called tools and their arguments.
    Calls,
    /// The model's reasoning.
    Reasoning,
    /// The call that a result answers.
    AnsweredCall,
    /// The outcome of the turn.
    Outcome,
    /// The final text shown to the person.
    Visible,
    /// The messages that the turn took in.
    Inbound,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Role => "role",
            Self::Text => "text",
            Self::Calls => "calls",
            Self::Reasoning => "reasoning",
            Self::AnsweredCall => "answered call",
            Self::Outcome => "outcome",
            Self::Visible => "visible text",
            Self::Inbound => "messages taken in",
        })
    }
}

/// The first step at which a replay diverges from the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Number of the step, from 1: the messages of the turn in order, then its end.
    pub step: usize,
    /// The aspect that differs.
    pub difference: Difference,
    /// The value in the log.
    pub recorded: String,
    /// The value that this program journals.
    pub now: String,
}

impl fmt::Display for Divergence {
    /// Formats a divergence as three lines. Long texts are cut to the place where they diverge, and
    /// control characters are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let common = self
            .recorded
            .chars()
            .zip(self.now.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let start = common.saturating_sub(BEFORE);
        let (recorded, now) = (excerpt(&self.recorded, start), excerpt(&self.now, start));
        write!(
            f,
            "diverges at step {}, {}\n  recorded: {recorded}\n  now:      {now}",
            self.step, self.difference
        )
    }
}

fn excerpt(text: &str, start: usize) -> String {
    let shown: String = text.chars().skip(start).take(BEFORE + AFTER).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().nth(start + BEFORE + AFTER).is_some() {
        "…"
    } else {
        ""
    };
    format!("{before}{shown:?}{after}")
}

/// Returns the first divergence between a recorded turn and the journal of its replay.
pub(crate) fn first_divergence(turn: &RecordedTurn<'_>, journal: &[Entry]) -> Option<Divergence> {
    let mut recorded = Steps::default();
    turn.messages
        .iter()
        .for_each(|entry| recorded.message(entry));
    turn.end.into_iter().for_each(|end| recorded.end(end));
    let mut now = Steps::default();
    for entry in journal {
        match entry {
            Entry::Message(message) => now.message(message),
            Entry::TurnEnded(end) => now.end(end),
            Entry::Consolidated { .. }
            | Entry::Reset
            | Entry::Rewound { .. }
            | Entry::Restored
            | Entry::Metadata(_) => {}
        }
    }
    let missing = ComparedStep::default();
    (0..recorded.steps.len().max(now.steps.len())).find_map(|index| {
        let was = recorded.steps.get(index).unwrap_or(&missing);
        let is = now.steps.get(index).unwrap_or(&missing);
        let (difference, recorded, now) = was.difference(is)?;
        Some(Divergence {
            step: index + 1,
            difference,
            recorded,
            now,
        })
    })
}

/// The compared aspects of a step. The default is a missing step.
#[derive(Debug, Default)]
struct ComparedStep {
    role: &'static str,
    facets: Vec<(Difference, String)>,
}

impl ComparedStep {
    fn difference(&self, other: &Self) -> Option<(Difference, String, String)> {
        if self.role != other.role {
            return Some((Difference::Role, self.summary(), other.summary()));
        }
        let mut pairs = self.facets.iter().zip(&other.facets);
        pairs
            .find(|(was, is)| was != is)
            .map(|(was, is)| (was.0, was.1.clone(), is.1.clone()))
    }

    /// Returns a one-line summary of the step.
    fn summary(&self) -> String {
        let said = self
            .facets
            .iter()
            .map(|(_, value)| value.as_str())
            .find(|value| !value.is_empty());
        match (self.role, said) {
            ("", _) => "nothing".to_owned(),
            (role, Some(said)) => format!("{role}: {said}"),
            (role, None) => role.to_owned(),
        }
    }
}

#[derive(Debug, Default)]
struct Steps {
    steps: Vec<ComparedStep>,
    /// Ids of all calls so far, in order.
    calls: Vec<CallId>,
}

impl Steps {
    fn message(&mut self, entry: &MessageEntry) {
        let message = entry.sent();
        let text = message.text();
        let facets = match &*message {
            ChatMessage::System { .. } | ChatMessage::User(_) => vec![(Difference::Text, text)],
            ChatMessage::Assistant(said) => {
                self.calls
                    .extend(said.tool_calls.iter().map(|call| call.id.clone()));
                let calls = said
                    .tool_calls
                    .iter()
                    .map(|call| format!("{}({})", call.name, call.arguments));
                let blocks = said.thinking_blocks.iter().map(ToString::to_string);
                vec![
                    // Other programs keep the whitespace around a model's text.
                    (Difference::Text, text.trim().to_owned()),
                    (Difference::Calls, calls.collect::<Vec<_>>().join("; ")),
                    (
                        Difference::Reasoning,
                        said.reasoning_content
                            .iter()
                            .cloned()
                            .chain(blocks)
                            .collect(),
                    ),
                ]
            }
            ChatMessage::Tool(result) => {
                let place = self.calls.iter().rposition(|id| *id == result.tool_call_id);
                let call = place.map_or_else(
                    || "a call of an earlier turn".to_owned(),
                    |place| format!("call {} of the turn", place + 1),
                );
                vec![
                    (Difference::Text, lasting(text)),
                    (Difference::AnsweredCall, call),
                ]
            }
        };
        self.steps.push(ComparedStep {
            role: message.role(),
            facets,
        });
    }

    fn end(&mut self, end: &TurnEnd) {
        let inbound: Vec<&str> = end.inbound.iter().map(AsRef::as_ref).collect();
        let mut facets = vec![(
            Difference::Outcome,
            format!("{:?}", end.outcome).to_lowercase(),
        )];
        // The text of a failed turn comes from the vendor.
        if end.outcome != TurnOutcome::Failed {
            facets.push((Difference::Visible, end.visible.clone().unwrap_or_default()));
        }
        facets.push((Difference::Inbound, inbound.join(", ")));
        self.steps.push(ComparedStep {
            role: "end",
            facets,
        });
    }
}

/// Removes the list of available tools from the result of a call to an unknown tool.
fn lasting(mut result: String) -> String {
    if result.starts_with("Error: Tool '")
        && let Some((prefix, _)) = result.split_once("' not found.")
    {
        result.truncate(prefix.len());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_long_texts_around_their_difference() {
        let divergence = |recorded: &str, now: &str| Divergence {
            step: 2,
            difference: Difference::Text,
            recorded: recorded.to_owned(),
            now: now.to_owned(),
        };
        let same = "記".repeat(100);
        for (recorded, now, shown) in [
            (
                "blue",
                "red\n",
                "diverges at step 2, text\n  recorded: \"blue\"\n  now:      \"red\\n\"".to_owned(),
            ),
            (
                &*format!("{same}a{same}{same}"),
                &*format!("{same}b"),
                format!(
                    "diverges at step 2, text\n  recorded: …\"{0}a{1}\"…\n  now:      …\"{0}b\"",
                    "記".repeat(24),
                    "記".repeat(95)
                ),
            ),
        ] {
            assert_eq!(divergence(recorded, now).to_string(), shown);
        }
    }
}
