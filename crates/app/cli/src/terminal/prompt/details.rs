//! The tools that the last turn ran, for `/last` and `/diff`.

use nanobot_runtime::TerminalEvent;
use nanobot_runtime::types::{MAX_ACTIVITY_OUTPUT, TurnActivity};

use crate::output::sanitize;
use crate::terminal::status::tool_line;

/// Maximum number of tool runs that are kept.
const MAX_RUNS: usize = 100;

/// The tool runs of the last turn.
#[derive(Debug, Default)]
pub(super) struct TurnDetails {
    runs: Vec<TurnActivity>,
    /// Number of runs that were not kept.
    dropped: usize,
}

impl TurnDetails {
    /// Forgets the runs of an earlier turn.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Records an event of the turn.
    pub(super) fn record(&mut self, event: &TerminalEvent) {
        if let TerminalEvent::Activity(run @ TurnActivity::ToolFinished { .. }) = event {
            if self.runs.len() == MAX_RUNS {
                self.runs.remove(0);
                self.dropped += 1;
            }
            self.runs.push(run.clone());
        }
    }

    /// Returns all runs with their results.
    pub(super) fn results(&self) -> String {
        let mut lines = String::new();
        if self.dropped > 0 {
            lines.push_str(&format!("({} earlier runs are not shown)\n", self.dropped));
        }
        for run in &self.runs {
            let TurnActivity::ToolFinished {
                call,
                success,
                elapsed_ms,
                output,
                change,
            } = run
            else {
                continue;
            };
            lines.push_str(&format!("{}\n", tool_line(call, *success, *elapsed_ms)));
            let text = change.as_deref().unwrap_or(output);
            for line in sanitize(text).lines() {
                lines.push_str(&format!("    {line}\n"));
            }
            if change.is_none() && output.chars().nth(MAX_ACTIVITY_OUTPUT - 1).is_some() {
                lines.push_str(&format!(
                    "    … (only the first {MAX_ACTIVITY_OUTPUT} characters of a result are kept here)\n"
                ));
            }
        }
        if lines.is_empty() {
            lines.push_str("The last turn ran no tools.\n");
        }
        lines
    }

    /// Returns the changes of files.
    pub(super) fn changes(&self) -> String {
        let mut lines = String::new();
        for run in &self.runs {
            if let TurnActivity::ToolFinished {
                call,
                change: Some(change),
                ..
            } = run
            {
                lines.push_str(&format!("{}\n{}", sanitize(call), sanitize(change)));
            }
        }
        if lines.is_empty() {
            lines.push_str(
                "The last turn changed no file by a file tool. Changes by commands are not listed.\n",
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(call: &str, change: Option<&str>) -> TerminalEvent {
        TerminalEvent::Activity(TurnActivity::ToolFinished {
            call: call.to_owned(),
            success: change.is_some(),
            elapsed_ms: 1250,
            output: "one\ntwo\u{1b}[2J".to_owned(),
            change: change.map(str::to_owned),
        })
    }

    #[test]
    fn results_and_changes_of_the_last_turn_are_listed() {
        let mut details = TurnDetails::default();
        assert_eq!(details.results(), "The last turn ran no tools.\n");
        details.record(&run("exec(\"ls\")", None));
        details.record(&run("edit_file(\"a\")", Some("@@ -1 +1 @@\n-a\n+b\n")));
        assert_eq!(
            details.results(),
            "✗ exec(\"ls\") · 1.2 s\n    one\n    two[2J\n✓ edit_file(\"a\") · 1.2 s\n    @@ -1 +1 @@\n    -a\n    +b\n"
        );
        assert_eq!(details.changes(), "edit_file(\"a\")\n@@ -1 +1 @@\n-a\n+b\n");
        details.begin();
        assert!(details.changes().contains("changed no file"));
    }

    #[test]
    fn cut_result_says_so() {
        let mut details = TurnDetails::default();
        for length in [MAX_ACTIVITY_OUTPUT - 1, MAX_ACTIVITY_OUTPUT] {
            details.record(&TerminalEvent::Activity(TurnActivity::ToolFinished {
                call: "a".to_owned(),
                success: true,
                elapsed_ms: 1,
                output: "好".repeat(length),
                change: None,
            }));
        }
        assert_eq!(details.results().matches("… (only the first").count(), 1);
    }

    #[test]
    fn many_runs_are_bounded() {
        let mut details = TurnDetails::default();
        for _ in 0..MAX_RUNS + 5 {
            details.record(&run("a", None));
        }
        assert!(
            details
                .results()
                .starts_with("(5 earlier runs are not shown)\n")
        );
    }
}
