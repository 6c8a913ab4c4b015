//! `grep`.
//!
//! Decision: lines are searched as bytes, so that a file with a few invalid bytes is searched too, by
//! expressions that take linear time and bounded memory. A file is searched in blocks of lines, with
//! the limits checked between them. Only the beginning of a very long line is searched.

mod block;

use std::{fs::File, io::Read as _, ops::ControlFlow, sync::Arc};

use nanobot_escape::sanitize_line;
use nanobot_guard::PathPolicy;
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolResult};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use self::block::{FileMatches, search};
use super::{
    unreadable,
    walk::{Limits, Stop, glob, walk},
    with_policy,
};
use crate::operation::{Operation, answer};

const DEFAULT_MATCHES: usize = 100;
const MAX_MATCHES: usize = 1_000;
const MAX_CONTEXT: usize = 10;
/// Maximum size of a file that is searched, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Maximum number of bytes that are searched in all files.
const MAX_BYTES: u64 = 512 << 20;
/// Length of the result after which no further file is searched, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// Maximum size of a compiled expression, in bytes.
const MAX_EXPRESSION: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Grep {
    policy: Arc<PathPolicy>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Output {
    #[default]
    Lines,
    Files,
    Count,
}

#[derive(Deserialize)]
pub(crate) struct GrepArguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    max_matches: Option<usize>,
    #[serde(default)]
    output: Output,
}

impl Grep {
    pub(crate) const fn new(policy: Arc<PathPolicy>) -> Self {
        Self { policy }
    }
}

impl Operation for Grep {
    type Arguments = GrepArguments;
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search the lines of files by a regular expression (no \
        look-around or back-references). Binary files, links and files excluded by .gitignore are \
        left out.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string", "description": "File or folder, default the workspace"},
                "glob": {"type": "string", "description": "Only these files, such as '*.rs'"},
                "ignore_case": {"type": "boolean"},
                "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT,
                    "description": "Lines before and after"},
                "max_matches": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES},
                "output": {"type": "string", "enum": ["lines", "files", "count"]},
            },
            "required": ["pattern"],
        })
    }

    async fn run(&self, arguments: GrepArguments, context: &ToolContext) -> ToolResult {
        let limits = Limits::new(context.cancel.clone());
        let work = with_policy(&self.policy, context, move |policy| {
            grep(policy, &arguments, &limits)
        });
        answer(work.await)
    }
}

fn grep(policy: &PathPolicy, arguments: &GrepArguments, limits: &Limits) -> Result<String, String> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let expression = RegexBuilder::new(&arguments.pattern)
        .case_insensitive(arguments.ignore_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_EXPRESSION)
        .build()
        .map_err(|error| format!("'{}' cannot be searched: {error}", arguments.pattern))?;
    let names = arguments.glob.as_deref().map(glob).transpose()?;
    let start = policy.read(path).map_err(|denied| denied.to_string())?;
    let mut report = Report::new(arguments, expression);
    let stop = match start.open() {
        Ok(file) => report.add(path, file, limits).break_value(),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            walk(policy, &start, names.as_ref(), limits, &mut |file| {
                let Some(opened) = file.resolve().and_then(|file| file.open().ok()) else {
                    return ControlFlow::Continue(());
                };
                report.add(file.relative, opened, limits)
            })
        }
        Err(error) => return Err(unreadable(path, &error)),
    };
    Ok(report.finish(&arguments.pattern, stop))
}

/// The result as it grows.
struct Report {
    expression: Regex,
    output: Output,
    context: usize,
    limit: usize,
    text: String,
    matches: usize,
    files: usize,
    bytes: u64,
    too_large: usize,
}

impl Report {
    fn new(arguments: &GrepArguments, expression: Regex) -> Self {
        Self {
            expression,
            output: arguments.output,
            context: arguments.context.min(MAX_CONTEXT),
            limit: arguments
                .max_matches
                .unwrap_or(DEFAULT_MATCHES)
                .clamp(1, MAX_MATCHES),
            text: String::new(),
            matches: 0,
            files: 0,
            bytes: 0,
            too_large: 0,
        }
    }

    /// Searches one file. A file that is too large, binary or unreadable is skipped.
    fn add(&mut self, name: &str, file: File, limits: &Limits) -> ControlFlow<Stop> {
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        if size > MAX_FILE {
            self.too_large += 1;
            return ControlFlow::Continue(());
        }
        let mut content = Vec::new();
        if file.take(MAX_FILE).read_to_end(&mut content).is_err() {
            return ControlFlow::Continue(());
        }
        self.bytes += content.len() as u64;
        let most = match self.output {
            Output::Lines => self.limit.saturating_sub(self.matches),
            Output::Files => 1,
            Output::Count => usize::MAX,
        };
        let mut found = FileMatches::new(self.context, most);
        let stop = search(&self.expression, &content, limits, &mut found);
        if found.count > 0 {
            self.show(&sanitize_line(name), &found);
        }
        stop?;
        if self.bytes > MAX_BYTES {
            return ControlFlow::Break(Stop::Bytes);
        }
        let is_full = match self.output {
            Output::Lines => self.matches >= self.limit || self.text.len() > MAX_TEXT,
            Output::Files | Output::Count => self.files >= self.limit,
        };
        if is_full {
            ControlFlow::Break(Stop::Enough)
        } else {
            ControlFlow::Continue(())
        }
    }

    fn show(&mut self, name: &str, found: &FileMatches) {
        self.files += 1;
        self.matches += found.count;
        match self.output {
            Output::Files => self.text.push_str(&format!("{name}\n")),
            Output::Count => self.text.push_str(&format!("{name}: {}\n", found.count)),
            Output::Lines => found.list(name, &mut self.text),
        }
    }

    fn finish(mut self, pattern: &str, stop: Option<Stop>) -> String {
        if self.matches == 0 {
            self.text = format!("No matches for '{pattern}'");
        } else {
            self.text.truncate(self.text.trim_end().len());
        }
        if stop == Some(Stop::Enough) {
            self.text.push_str(&match self.output {
                Output::Lines => format!("\n\n(Stopped after {} matches.)", self.matches),
                Output::Files | Output::Count => {
                    format!("\n\n(Stopped after {} files.)", self.files)
                }
            });
        }
        if self.too_large > 0 {
            self.text.push_str(&format!(
                "\n\n(Not searched: {} files of more than {MAX_FILE} bytes.)",
                self.too_large
            ));
        }
        self.text
            .push_str(&stop.map(Stop::note).unwrap_or_default());
        self.text
    }
}
