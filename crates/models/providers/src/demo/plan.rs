//! Chooses the next call or the answer from a request and the results so far.

use nanobot_types::{ToolName, ToolSpec};
use serde_json::Value;

use super::intent::{Intent, MEMORY};
use super::words::Language;

/// Maximum number of lines of a result that are repeated in an answer.
const LINES: usize = 40;

/// Commands that change nothing.
const HARMLESS: &[&str] = &[
    "ls", "pwd", "date", "echo", "whoami", "uname", "uptime", "hostname", "df", "wc", "cat", "head",
];
const SHELL_MARKS: &[char] = &[
    ';', '&', '|', '>', '<', '$', '`', '(', ')', '\n', '\\', '*', '{',
];

/// The next step of the demo.
#[derive(Debug, PartialEq)]
pub(super) enum DemoStep {
    /// A tool call. The arguments are the text of a JSON object, its members in the order in which
    /// people read them.
    Call {
        tool: &'static str,
        arguments: String,
    },
    Say(String),
}

/// The inputs for choosing the next step.
#[derive(Debug)]
pub(super) struct DemoPlan<'a> {
    pub(super) words: Language,
    pub(super) time: Option<String>,
    pub(super) tools: &'a [ToolSpec],
    /// Tool results since the newest request, in order.
    pub(super) results: &'a [(ToolName, String)],
}

impl DemoPlan<'_> {
    pub(super) fn next(&self, intent: &Intent) -> DemoStep {
        let words = self.words;
        match intent {
            Intent::Help => DemoStep::Say(words.help()),
            Intent::Greeting => DemoStep::Say(words.greeting()),
            Intent::Thanks => DemoStep::Say(words.welcome().to_owned()),
            Intent::Again | Intent::Unknown => DemoStep::Say(words.unknown()),
            Intent::Time => DemoStep::Say(words.time(self.time.as_deref())),
            Intent::List { path } => self.once("list_dir", "path", path, |result| {
                words.listed(path, result)
            }),
            Intent::Read { path } => {
                self.once("read_file", "path", path, |result| words.read(path, result))
            }
            Intent::Recall => self.once("read_file", "path", MEMORY, |result| {
                words.read(MEMORY, result)
            }),
            Intent::Run { command } if !is_harmless(command) => {
                DemoStep::Say(words.harmful(command, HARMLESS))
            }
            Intent::Run { command } => self.once("exec", "command", command, |result| {
                words.ran(command, result)
            }),
            Intent::Note { path, line } => self.append(path, "# Notes", line, || words.noted(path)),
            Intent::Remember { line } => {
                self.append(MEMORY, "# Memory", line, || words.remembered(line))
            }
        }
    }

    /// Makes one call, then answers with its result.
    fn once(
        &self,
        tool: &'static str,
        name: &str,
        value: &str,
        say: impl FnOnce(&str) -> String,
    ) -> DemoStep {
        match self.result(tool) {
            None => self.call(tool, [(name, value)]),
            Some(result) if is_error(result) => {
                DemoStep::Say(self.words.failed(tool, summary(result)))
            }
            Some(result) => DemoStep::Say(say(&first_lines(result))),
        }
    }

    /// Reads the file, writes it back with one more line, then confirms.
    fn append(
        &self,
        path: &str,
        heading: &str,
        line: &str,
        say: impl FnOnce() -> String,
    ) -> DemoStep {
        if let Some(result) = self.result("write_file") {
            return DemoStep::Say(if is_error(result) {
                self.words.failed("write_file", summary(result))
            } else {
                say()
            });
        }
        let Some(result) = self.result("read_file") else {
            return self.call("read_file", [("path", path)]);
        };
        let before = match whole_file(result) {
            Some(text) => text,
            None if is_missing(result) => format!("{heading}\n"),
            None if is_error(result) => {
                return DemoStep::Say(self.words.failed("read_file", summary(result)));
            }
            None => return DemoStep::Say(self.words.too_long(path)),
        };
        let gap = if before
            .lines()
            .last()
            .is_some_and(|last| last.starts_with("- "))
        {
            ""
        } else {
            "\n"
        };
        self.call(
            "write_file",
            [
                ("path", path),
                (
                    "content",
                    &format!("{}\n{gap}- {line}\n", before.trim_end()),
                ),
            ],
        )
    }

    fn result(&self, tool: &str) -> Option<&str> {
        self.results
            .iter()
            .rev()
            .find(|(name, _)| name.as_str() == tool)
            .map(|(_, result)| result.as_str())
    }

    fn call<const N: usize>(&self, tool: &'static str, arguments: [(&str, &str); N]) -> DemoStep {
        if !self.tools.iter().any(|spec| spec.name.as_str() == tool) {
            return DemoStep::Say(self.words.no_tool(tool));
        }
        let members =
            arguments.map(|(name, value)| format!("{}:{}", Value::from(name), Value::from(value)));
        DemoStep::Call {
            tool,
            arguments: format!("{{{}}}", members.join(",")),
        }
    }
}

fn is_harmless(command: &str) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default();
    HARMLESS.contains(&program) && !command.contains(SHELL_MARKS)
}

fn is_error(result: &str) -> bool {
    result.starts_with("Error")
}

fn is_missing(result: &str) -> bool {
    let lower = result.to_lowercase();
    is_error(result)
        && ["not found", "no such file", "does not exist"]
            .iter()
            .any(|words| lower.contains(words))
}

/// Returns the first line of an error, without the advice for models after it.
fn summary(result: &str) -> &str {
    result.lines().next().unwrap_or_default()
}

fn first_lines(result: &str) -> String {
    let mut lines: Vec<&str> = result.trim_end().lines().take(LINES + 1).collect();
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…");
    }
    lines.join("\n")
}

/// Recovers a file's text from its numbered lines; `None` unless all of them are there.
fn whole_file(result: &str) -> Option<String> {
    if result.starts_with("(Empty file") {
        return Some(String::new());
    }
    let (numbered, note) = result.rsplit_once("\n\n(")?;
    if !note.starts_with("End of file") {
        return None;
    }
    let mut text = String::new();
    for (number, line) in (1_u64..).zip(numbered.split('\n')) {
        text.push_str(line.strip_prefix(&format!("{number}| "))?);
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconstructs_only_complete_files_from_numbered_lines() {
        let table = [
            (
                "1| a\n2| \n3| c\n\n(End of file — 3 lines total)",
                Some("a\n\nc\n"),
            ),
            ("(Empty file: notes.md)", Some("")),
            (
                "1| a\n\n(Showing lines 1-1 of 3. Use offset=2 to continue.)",
                None,
            ),
            ("2| a\n\n(End of file — 2 lines total)", None),
            ("Error: File not found: notes.md", None),
        ];
        for (result, expected) in table {
            assert_eq!(whole_file(result).as_deref(), expected, "{result}");
        }
    }

    #[test]
    fn only_harmless_commands_run() {
        for (command, expected) in [
            ("date", true),
            ("ls -la src", true),
            ("rm -rf /", false),
            ("echo a > b", false),
            ("cat $(x)", false),
            ("", false),
        ] {
            assert_eq!(is_harmless(command), expected, "{command}");
        }
    }
}
