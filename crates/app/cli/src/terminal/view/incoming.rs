//! Results of jobs and messages of other terminals, which are no part of the exchange at this one.

use nanobot_runtime::types::FiredJob;

use super::{View, ViewPiece};
use crate::terminal::render::{ellipsized, hanging};

/// Beginning of a message from another terminal.
const SAID: &str = "Another terminal: ";
/// Maximum number of rows of such a message.
const SAID_ROWS: usize = 3;

/// Returns the heading of a job's result: `⏰ Job drink · Tue 2026-11-24 08:00`.
fn job_heading(job: &FiredJob) -> String {
    let at = job.at.format("%a %Y-%m-%d %H:%M");
    let name = job.name.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.as_str() {
        "" => format!("⏰ Job · {at}"),
        name => format!("⏰ Job {name} · {at}"),
    }
}

impl View {
    /// Returns the result of a job under a heading of its own.
    pub(super) fn job_result(&mut self, text: &str, job: &FiredJob) -> Vec<ViewPiece> {
        let mut pieces = self.end_run();
        let heading = self.dim_rows(&job_heading(job), usize::MAX);
        pieces.push(match self.heading {
            Some(_) => ViewPiece::Reply(heading),
            None => ViewPiece::Note(heading),
        });
        pieces.push(ViewPiece::Reply(self.render(text)));
        self.is_under_heading = false;
        pieces
    }

    /// Returns the beginning of a message from another terminal.
    pub(super) fn said(&mut self, text: &str, files: usize) -> Vec<ViewPiece> {
        let files = match files {
            0 => String::new(),
            1 => " (1 file)".to_owned(),
            several => format!(" ({several} files)"),
        };
        let text = format!("{SAID}{}{files}", text.trim());
        let mut pieces = self.end_run();
        pieces.push(ViewPiece::Note(self.dim_rows(&text, SAID_ROWS)));
        self.is_under_heading = false;
        pieces
    }

    /// Returns at most `most` dim rows of a text without control characters, broken between words.
    /// Rows after the first are indented; the last one ends with `…` if there are more.
    fn dim_rows(&self, text: &str, most: usize) -> String {
        let width = self.layout.width.unwrap_or(usize::MAX);
        let text: Vec<String> = text.lines().map(crate::output::sanitize).collect();
        let text = hanging(&text.join("\n"), "  ", width);
        let rows: Vec<&str> = text.lines().collect();
        let shown = rows.iter().take(most).enumerate().map(|(index, row)| {
            let row = match index + 1 == most && rows.len() > most {
                true => ellipsized(row, width),
                false => (*row).to_owned(),
            };
            format!("{}\n", self.dim(&row))
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use nanobot_runtime::TerminalEvent;
    use unicode_width::UnicodeWidthStr as _;

    use super::super::tests::{ALL, PLAIN, delta, shown};
    use super::*;
    use crate::terminal::render::{Layout, Style};

    fn result_of_a_job(name: &str) -> TerminalEvent {
        TerminalEvent::Reply {
            text: "**喝水** 💧 and\n\n- walk".to_owned(),
            streamed: false,
            ok: true,
            job: Some(FiredJob {
                name: name.to_owned(),
                at: "2026-11-25T08:00:07+01:00".parse().unwrap(),
            }),
        }
    }

    #[test]
    fn result_of_a_job_has_a_heading_and_is_rendered() {
        for (width, heading) in [
            (80, "⏰ Job drink 水 and[2J walk · Wed 2026-11-25 08:00\n"),
            (
                24,
                "⏰ Job drink 水 and[2J\n  walk · Wed 2026-11-25\n  08:00\n",
            ),
        ] {
            let layout = Layout {
                width: Some(width),
                ..PLAIN
            };
            let mut view = View::terminal(Style::Markdown, layout, ALL);
            let job = result_of_a_job("drink 水\nand\u{1b}[2J walk");
            assert_eq!(
                shown(&mut view, &[delta("Half"), job]),
                format!("🐈 nanobot\nHalf\n{heading}喝水 💧 and\n\n• walk\n")
            );
        }
        let mut view = View::terminal(Style::Lines, PLAIN, ALL);
        assert_eq!(
            shown(&mut view, &[result_of_a_job("")]),
            "⏰ Job · Wed 2026-11-25 08:00\n**喝水** 💧 and\n\n- walk\n"
        );
        let mut pipe = View::whole(Style::Lines, ALL);
        assert_eq!(
            shown(&mut pipe, &[result_of_a_job("a")]),
            "note:⏰ Job a · Wed 2026-11-25 08:00\n**喝水** 💧 and\n\n- walk\n"
        );
    }

    #[test]
    fn message_of_another_terminal_is_shown_in_part() {
        let said = |text: &str, files| TerminalEvent::Said {
            text: text.to_owned(),
            files,
        };
        let layout = Layout {
            width: Some(24),
            ..PLAIN
        };
        let mut view = View::terminal(Style::Lines, layout, ALL);
        for (event, expected) in [
            (
                said("你好\u{1b}[2J 👩\u{200d}💻", 0),
                "Another terminal: 你好\n  [2J 👩\u{200d}💻\n",
            ),
            (said("look", 2), "Another terminal: look\n  (2 files)\n"),
            (
                said("one\ntwo\n\nthree", 0),
                "Another terminal: one\ntwo\n…\n",
            ),
        ] {
            assert_eq!(shown(&mut view, &[event]), format!("note:{expected}"));
        }
        let long = shown(&mut view, &[said(&"世界 ".repeat(100), 0)]);
        assert_eq!(long.lines().count(), 3, "{long}");
        assert!(
            long.ends_with("…\n") && long.lines().all(|row| row.width() <= 29),
            "{long}"
        );
    }
}
