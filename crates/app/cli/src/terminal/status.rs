//! The status line of a running turn: activity, elapsed time, tokens, and the key that stops it;
//! and the line of a finished tool.

use std::time::{Duration, Instant};

use nanobot_runtime::TerminalEvent;
use nanobot_runtime::types::TurnActivity;
use unicode_width::UnicodeWidthStr as _;

use super::render::{TAB, ellipsized, fits};
use crate::output::sanitize;

/// Time between two steps of the indicator.
pub(super) const TICK: Duration = Duration::from_millis(125);

const INDICATOR: [&str; 6] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"];

/// State of the running turn.
#[derive(Debug)]
pub(super) struct TurnStatus {
    began: Instant,
    activity: String,
    /// Running tools, oldest first.
    tools: Vec<String>,
    /// Says that the turn waits for an answer, while it does.
    question: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    ticks: usize,
    names_tools: bool,
    /// Set once the person asked to stop it.
    is_stopping: bool,
}

impl TurnStatus {
    /// Returns the status of a turn that begins now.
    pub(super) fn begin(names_tools: bool) -> Self {
        Self {
            began: Instant::now(),
            activity: "thinking".to_owned(),
            tools: Vec::new(),
            question: None,
            input_tokens: 0,
            output_tokens: 0,
            ticks: 0,
            names_tools,
            is_stopping: false,
        }
    }

    /// Records an event of the turn.
    pub(super) fn record(&mut self, event: &TerminalEvent) {
        match event {
            TerminalEvent::Delta(_) => "writing".clone_into(&mut self.activity),
            TerminalEvent::StreamEnd { .. } => "thinking".clone_into(&mut self.activity),
            TerminalEvent::Question { answers, .. } => self.question = Some(waiting(answers)),
            TerminalEvent::Activity(TurnActivity::ToolStarted { call }) => {
                let name = if self.names_tools { call } else { "working" };
                self.tools.push(name.to_owned());
                self.question = None;
            }
            TerminalEvent::Activity(TurnActivity::ToolFinished { call, .. }) => {
                self.question = None;
                let finished = |tool: &String| tool == call || !self.names_tools;
                if let Some(index) = self.tools.iter().position(finished) {
                    self.tools.remove(index);
                }
                "thinking".clone_into(&mut self.activity);
            }
            TerminalEvent::Activity(TurnActivity::ModelAnswered {
                input_tokens,
                output_tokens,
            }) => {
                self.input_tokens = self.input_tokens.saturating_add(*input_tokens);
                self.output_tokens = self.output_tokens.saturating_add(*output_tokens);
            }
            _ => {}
        }
    }

    /// Records an answer of the person to the open question.
    pub(super) fn answered(&mut self) {
        self.question = None;
    }

    /// Advances the indicator.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Records a request to stop. Returns `false` if there was one before.
    pub(super) fn stop(&mut self) -> bool {
        !std::mem::replace(&mut self.is_stopping, true)
    }

    /// `true` once there was a request to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns the line for a screen of this width. If it is narrow, the tokens are left out and the
    /// activity is cut; the key that stops the turn stays.
    pub(super) fn line(&self, width: usize) -> String {
        let indicator = INDICATOR.get(self.ticks % INDICATOR.len()).unwrap_or(&"");
        let running = self.tools.last().unwrap_or(&self.activity);
        let activity = self.question.as_ref().unwrap_or(running);
        let begin = format!("{indicator} {activity}");
        let time = duration(self.began.elapsed().as_secs());
        let end = match self.is_stopping {
            true => "stopping",
            false => "Ctrl-C stops",
        };
        let short = format!(" · {time} · {end}");
        let counted = match self.input_tokens {
            0 => short.clone(),
            input => format!(
                " · {time} · {input} + {} tokens · {end}",
                self.output_tokens
            ),
        };
        let fits = begin.width() + counted.width() <= width;
        let rest = if fits { counted } else { short };
        let room = width.saturating_sub(rest.width());
        cut(&(cut(&begin, room) + &rest), width)
    }
}

/// Returns the activity of a turn that waits for an answer: `waiting for your answer (y/a/n)`.
fn waiting(answers: &[String]) -> String {
    let letters = answers.iter().filter_map(|answer| answer.chars().next());
    let letters: Vec<String> = letters
        .map(|letter| letter.to_lowercase().to_string())
        .collect();
    format!("waiting for your answer ({})", letters.join("/"))
}

/// Cuts a text to one row, without its last column.
pub(super) fn cut(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let line = sanitize(line).replace('\t', TAB);
    if rest.is_empty() && fits(&line, room) {
        return line;
    }
    ellipsized(&line, room)
}

/// Returns the line of a finished tool: `✓ exec("ls") · 0.2 s`.
pub(super) fn tool_line(call: &str, success: bool, elapsed_ms: u64) -> String {
    let mark = if success { "✓" } else { "✗" };
    let elapsed = match elapsed_ms {
        0..=99 => format!("{elapsed_ms} ms"),
        100..=59_999 => format!("{}.{} s", elapsed_ms / 1000, elapsed_ms % 1000 / 100),
        _ => duration(elapsed_ms / 1000),
    };
    format!("{mark} {} · {elapsed}", sanitize(call))
}

/// Returns a duration for people: `7 s`, `2 min 5 s`, `1 h 3 min`.
pub(super) fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_the_running_tool_and_counts_tokens() {
        let mut status = TurnStatus::begin(true);
        assert_eq!(status.line(80), "⠋ thinking · 0 s · Ctrl-C stops");
        let call = "exec(\"ls\")".to_owned();
        status.record(&TerminalEvent::Activity(TurnActivity::ToolStarted {
            call: call.clone(),
        }));
        status.record(&TerminalEvent::Activity(TurnActivity::ModelAnswered {
            input_tokens: 1200,
            output_tokens: 34,
        }));
        assert_eq!(
            status.line(80),
            "⠋ exec(\"ls\") · 0 s · 1200 + 34 tokens · Ctrl-C stops"
        );
        assert_eq!(status.line(40), "⠋ exec(\"ls\") · 0 s · Ctrl-C stops");
        assert_eq!(status.line(28), "⠋ exe… · 0 s · Ctrl-C stops");
        assert!(status.line(10).width() <= 10);
        status.record(&TerminalEvent::Activity(TurnActivity::ToolFinished {
            call,
            success: true,
            elapsed_ms: 5,
            output: String::new(),
            output_bytes: 0,
            kept_in: None,
            change: None,
        }));
        assert!(status.stop());
        assert!(!status.stop());
        assert_eq!(
            status.line(80),
            "⠋ thinking · 0 s · 1200 + 34 tokens · stopping"
        );
    }

    #[test]
    fn open_question_is_the_activity_until_its_call_goes_on() {
        let mut status = TurnStatus::begin(true);
        let question = |answers: &[&str]| TerminalEvent::Question {
            text: "May I?".to_owned(),
            answers: answers.iter().map(|label| (*label).to_owned()).collect(),
        };
        status.record(&question(&["Yes K7QX", "Always K7QX", "No K7QX"]));
        assert_eq!(
            status.line(80),
            "⠋ waiting for your answer (y/a/n) · 0 s · Ctrl-C stops"
        );
        status.record(&TerminalEvent::Activity(TurnActivity::ToolStarted {
            call: "exec".to_owned(),
        }));
        assert_eq!(status.line(80), "⠋ exec · 0 s · Ctrl-C stops");
        status.record(&question(&["Yes K7QX", "No K7QX"]));
        assert_eq!(
            status.line(80),
            "⠋ waiting for your answer (y/n) · 0 s · Ctrl-C stops"
        );
        status.answered();
        assert_eq!(status.line(80), "⠋ exec · 0 s · Ctrl-C stops");
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [(7, "7 s"), (125, "2 min 5 s"), (3780, "1 h 3 min")] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
