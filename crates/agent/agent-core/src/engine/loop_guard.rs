//! Detects a turn that repeats itself.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use nanobot_tool::resolve_call;
use nanobot_types::ToolCall;

/// Number of identical calls with identical results from which on the model is warned.
const WARN_AT: u32 = 3;
/// Number of identical calls with identical results at which the turn ends.
const END_AT: u32 = 6;

const NOTE_BEGINS: &str = "\n\n[This is call ";
const NOTE_ENDS: &str =
    " with the same arguments and the same result. Do something else or answer.]";

/// Returns the note appended to a result that was repeated `count` times.
pub(crate) fn repetition_note(count: u32) -> String {
    format!("{NOTE_BEGINS}{count}{NOTE_ENDS}")
}

/// Returns a result without the note that says it was repeated.
#[must_use]
pub fn without_repetition_note(output: &str) -> &str {
    match output
        .strip_suffix(NOTE_ENDS)
        .and_then(|rest| rest.rsplit_once(NOTE_BEGINS))
    {
        Some((before, count)) if count.parse::<u32>().is_ok() => before,
        _ => output,
    }
}

/// The consequence of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    /// Nothing unusual.
    GoOn,
    /// Warn the model: the same call gave the same result this often.
    Warn(u32),
    /// End the turn: the same call gave the same result this often.
    End(u32),
}

/// Counts identical calls with identical results within a turn.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    seen: HashMap<u64, u32>,
}

impl LoopGuard {
    /// Counts a call and its result.
    pub(crate) fn observe(&mut self, call: &ToolCall, output: &str) -> LoopVerdict {
        let call = resolve_call(call);
        let mut hasher = DefaultHasher::new();
        (call.name.as_str(), call.arguments.as_str(), output).hash(&mut hasher);
        let count = self.seen.entry(hasher.finish()).or_insert(0);
        *count += 1;
        match *count {
            count if count >= END_AT => LoopVerdict::End(count),
            count if count >= WARN_AT => LoopVerdict::Warn(count),
            _ => LoopVerdict::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_warns_then_ends_and_a_new_result_resets_it() {
        let mut guard = LoopGuard::default();
        let call = ToolCall::new("1", "exec", "{\"command\":\"true\"}");
        let verdicts: Vec<LoopVerdict> = (0..6).map(|_| guard.observe(&call, "same")).collect();
        assert_eq!(
            verdicts,
            [
                LoopVerdict::GoOn,
                LoopVerdict::GoOn,
                LoopVerdict::Warn(3),
                LoopVerdict::Warn(4),
                LoopVerdict::Warn(5),
                LoopVerdict::End(6)
            ]
        );
        assert_eq!(guard.observe(&call, "other"), LoopVerdict::GoOn);
    }

    #[test]
    fn removes_the_repetition_note() {
        for (output, before) in [
            (format!("same{}", repetition_note(3)), "same"),
            (
                format!("same{NOTE_BEGINS}third{NOTE_ENDS}"),
                "same\n\n[This is call third with the same arguments and the same result. Do something else or answer.]",
            ),
            ("same".to_owned(), "same"),
        ] {
            assert_eq!(without_repetition_note(&output), before);
        }
    }
}
