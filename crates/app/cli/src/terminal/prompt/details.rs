//! The tools that the last turn ran, for `/last` and `/diff`.

use std::path::Path;

use nanobot_runtime::TerminalEvent;
use nanobot_runtime::types::{MAX_ACTIVITY_OUTPUT, TurnActivity};

use crate::output::sanitize;
use crate::terminal::render::{Layout, TAB, diff, hanging};
use crate::terminal::status::tool_line;

/// Maximum number of tool runs that are kept.
const MAX_RUNS: usize = 100;

/// Indentation of results.
const INDENT: &str = "    ";

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

    /// Returns all runs with their results, in rows of a screen.
    pub(super) fn results(&self, layout: Layout) -> String {
        let width = layout.width.unwrap_or(usize::MAX);
        let mut lines = String::new();
        if self.dropped > 0 {
            let dropped = format!("({} earlier runs are not shown)", self.dropped);
            lines.push_str(&format!("{}\n", hanging(&dropped, "", width)));
        }
        for run in &self.runs {
            let TurnActivity::ToolFinished {
                call,
                success,
                elapsed_ms,
                output,
                output_bytes,
                kept_in,
                change,
            } = run
            else {
                continue;
            };
            let line = tool_line(call, *success, *elapsed_ms);
            lines.push_str(&format!("{}\n", hanging(&line, "  ", width)));
            if let Some(change) = change {
                lines.push_str(&indented_diff(change, layout));
                continue;
            }
            let mut text = sanitize(output).replace('\t', TAB);
            if let Some(rest) = left_out(output, *output_bytes, kept_in.as_deref()) {
                text = format!("{}\n{rest}", text.trim_end());
            }
            for line in text.lines() {
                let row = hanging(&format!("{INDENT}{line}"), "", width);
                lines.push_str(&format!("{row}\n"));
            }
        }
        if lines.is_empty() {
            lines.push_str("The last turn ran no tools.\n");
        }
        lines
    }

    /// Returns the changes of files, in rows of a screen.
    pub(super) fn changes(&self, layout: Layout) -> String {
        let width = layout.width.unwrap_or(usize::MAX);
        let mut lines = String::new();
        for run in &self.runs {
            if let TurnActivity::ToolFinished {
                call,
                change: Some(change),
                ..
            } = run
            {
                lines.push_str(&format!("{}\n", hanging(&sanitize(call), "  ", width)));
                lines.push_str(&diff(change, layout, usize::MAX));
            }
        }
        if lines.is_empty() {
            let text =
                "The last turn changed no file by a file tool. Changes by commands are not listed.";
            lines.push_str(&format!("{}\n", hanging(text, "", width)));
        }
        lines
    }
}

/// Returns a change below the line of its tool.
fn indented_diff(change: &str, layout: Layout) -> String {
    let width = layout
        .width
        .map(|width| width.saturating_sub(INDENT.len()).max(1));
    let rows = diff(change, Layout { width, ..layout }, usize::MAX);
    let indented = rows.lines().map(|row| format!("{INDENT}{row}\n"));
    indented.collect()
}

/// Returns the note on the part of a result that is not kept here; `None` if all of it is.
fn left_out(output: &str, bytes: u64, kept_in: Option<&str>) -> Option<String> {
    if bytes == 0 {
        // A gateway of an earlier version does not say how long the result is.
        output.chars().nth(MAX_ACTIVITY_OUTPUT - 1)?;
        return Some(format!(
            "… (only the first {MAX_ACTIVITY_OUTPUT} characters of a result are kept here)"
        ));
    }
    let shown = u64::try_from(output.len()).unwrap_or(u64::MAX);
    let rest = bytes
        .checked_sub(shown)
        .filter(|rest| *rest > 0)
        .map(grouped)?;
    let file = kept_in.and_then(|path| Path::new(path).file_name()?.to_str());
    Some(match file {
        Some(file) => format!(
            "… {rest} more bytes; whole in tool-results/{}",
            sanitize(file)
        ),
        None => format!("… {rest} more bytes"),
    })
}

/// Returns a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    const PLAIN: Layout = Layout {
        width: None,
        palette: Palette::Plain,
    };

    fn run(call: &str, change: Option<&str>) -> TerminalEvent {
        TerminalEvent::Activity(TurnActivity::ToolFinished {
            call: call.to_owned(),
            success: change.is_some(),
            elapsed_ms: 1250,
            output: "one\ntwo\u{1b}[2J".to_owned(),
            output_bytes: 11,
            kept_in: None,
            change: change.map(str::to_owned),
        })
    }

    #[test]
    fn results_and_changes_of_the_last_turn_are_listed() {
        let mut details = TurnDetails::default();
        assert_eq!(details.results(PLAIN), "The last turn ran no tools.\n");
        details.record(&run("exec(\"ls\")", None));
        details.record(&run("edit_file(\"a\")", Some("@@ -1 +1 @@\n-a\n+b\n")));
        assert_eq!(
            details.results(PLAIN),
            "✗ exec(\"ls\") · 1.2 s\n    one\n    two[2J\n✓ edit_file(\"a\") · 1.2 s\n    @@ -1 +1 @@\n    -a\n    +b\n"
        );
        assert_eq!(
            details.changes(PLAIN),
            "edit_file(\"a\")\n@@ -1 +1 @@\n-a\n+b\n"
        );
        details.begin();
        assert!(details.changes(PLAIN).contains("changed no file"));
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
                output_bytes: 0,
                kept_in: None,
                change: None,
            }));
        }
        assert_eq!(
            details.results(PLAIN).matches("… (only the first").count(),
            1
        );
    }

    #[test]
    fn many_runs_are_bounded() {
        let mut details = TurnDetails::default();
        for _ in 0..MAX_RUNS + 5 {
            details.record(&run("a", None));
        }
        assert!(
            details
                .results(PLAIN)
                .starts_with("(5 earlier runs are not shown)\n")
        );
    }

    #[test]
    fn rest_of_a_result_is_counted() {
        let mut details = TurnDetails::default();
        let file = "/home/a/.nanobot/tool-results/exec-0f.txt".to_owned();
        for (output_bytes, kept_in) in [(12_348, Some(file)), (1_234_570, None), (3, None)] {
            details.record(&TerminalEvent::Activity(TurnActivity::ToolFinished {
                call: "a".to_owned(),
                success: true,
                elapsed_ms: 1,
                output: "好".to_owned(),
                output_bytes,
                kept_in,
                change: None,
            }));
        }
        assert_eq!(
            details.results(PLAIN),
            "✓ a · 1 ms\n    好\n    … 12,345 more bytes; whole in tool-results/exec-0f.txt\n\
             ✓ a · 1 ms\n    好\n    … 1,234,567 more bytes\n✓ a · 1 ms\n    好\n"
        );
    }

    #[test]
    fn rows_fit_the_screen() {
        let mut details = TurnDetails::default();
        details.record(&run(
            "write_file(\"列表.md\", \"a long text\")",
            Some("@@ -0,0 +1 @@\n+牛奶和面包和鸡蛋 👩\u{200d}💻\n"),
        ));
        details.record(&TerminalEvent::Activity(TurnActivity::ToolFinished {
            call: "a".to_owned(),
            success: true,
            elapsed_ms: 1,
            output: "one two three four 你好世界你好 👩\u{200d}💻 end".to_owned(),
            output_bytes: 0,
            kept_in: None,
            change: None,
        }));
        let layout = Layout {
            width: Some(20),
            ..PLAIN
        };
        assert_eq!(
            details.results(layout),
            "✓ write_file(\"列\n  表.md\", \"a long\n  text\") · 1.2 s\n    @@ -0,0 +1 @@\n    \
             +牛奶和面包和鸡\n    +蛋 👩\u{200d}💻\n✓ a · 1 ms\n    one two three\n    four 你好世界你\n    好 👩\u{200d}💻 end\n"
        );
        assert_eq!(
            details.changes(layout),
            "write_file(\"列\n  表.md\", \"a long\n  text\")\n@@ -0,0 +1 @@\n+牛奶和面包和鸡蛋 👩\u{200d}💻\n"
        );
    }
}
