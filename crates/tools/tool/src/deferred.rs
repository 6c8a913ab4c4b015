//! Tools that requests do not list: the model finds them by `tool_search` and runs them by
//! `tool_call`.
//!
//! Decision: finding a tool does not list it. The tools of a request are part of the prompt cache,
//! so a search must not change them. All code that inspects a call first resolves it with
//! [`resolve_call`], so that a wrapped call has the effect, arguments and records of the tool that
//! runs.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use nanobot_types::{Effect, ToolCall, ToolResult, ToolSource, ToolSpec};
use serde_json::{Value, json};

use crate::Tool;

/// Name of the tool that finds deferred tools.
pub const TOOL_SEARCH: &str = "tool_search";
/// Name of the tool that runs a deferred tool.
pub const TOOL_CALL: &str = "tool_call";

/// Maximum number of tools in the result of a search.
const MAX_FOUND: usize = 8;
/// Maximum size of the result of a search after its first tool, in bytes.
const MAX_FOUND_BYTES: usize = 12_000;
/// Maximum number of names that a search without a match lists.
const MAX_NAMES: usize = 40;

static SEARCH: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
    name: TOOL_SEARCH.into(),
    description: "Search for more tools, such as grep; run them with tool_call.".to_owned(),
    parameters: json!({
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    }),
    effect: Effect::Pure,
    source: ToolSource::BuiltIn,
});

static CALL: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
    name: TOOL_CALL.into(),
    description: "Run a tool found by tool_search.".to_owned(),
    parameters: json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    }),
    effect: Effect::Irreversible,
    source: ToolSource::BuiltIn,
});

/// Returns the specifications of both tools.
pub(crate) fn specs() -> [&'static ToolSpec; 2] {
    [&CALL, &SEARCH]
}

/// Returns the call that runs: the inner one of a `tool_call`, otherwise the call itself. A
/// `tool_call` with unreadable arguments, without a name, or around another `tool_call` is returned
/// as it is. The inner call keeps the id. Resolving twice has the same result as resolving once.
#[must_use]
pub fn resolve_call(call: &ToolCall) -> Cow<'_, ToolCall> {
    match inner_call(call) {
        Some(inner) => Cow::Owned(inner),
        None => Cow::Borrowed(call),
    }
}

fn inner_call(call: &ToolCall) -> Option<ToolCall> {
    if call.name.as_str() != TOOL_CALL {
        return None;
    }
    let mut outer = call.parsed_arguments().ok()?;
    let name = match outer.remove("name")? {
        Value::String(name) if !name.is_empty() && name != TOOL_CALL => name,
        _ => return None,
    };
    let arguments = match outer.remove("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
    };
    Some(ToolCall {
        name: name.into(),
        arguments,
        ..call.clone()
    })
}

/// Finds the deferred tools that match the words of a query, best first.
pub(crate) fn search(deferred: &[&Arc<dyn Tool>], query: &str) -> ToolResult {
    let words = words(query);
    let mut found: Vec<(usize, &ToolSpec)> = deferred
        .iter()
        .map(|tool| (score(tool.spec(), &words), tool.spec()))
        .filter(|(score, _)| *score > 0)
        .collect();
    // The sort is stable: equal tools keep the order of registration.
    found.sort_by_key(|(score, _)| Reverse(*score));
    if found.is_empty() {
        return no_match(deferred);
    }
    let count = found.len();
    let mut text = String::new();
    let mut shown = 0;
    for (_, spec) in found.into_iter().take(MAX_FOUND) {
        let entry = format!(
            "## {}\n{}\n{}\n\n",
            spec.name, spec.description, spec.parameters
        );
        if shown > 0 && text.len() + entry.len() > MAX_FOUND_BYTES {
            break;
        }
        text.push_str(&entry);
        shown += 1;
    }
    match count.saturating_sub(shown) {
        0 => text.truncate(text.trim_end().len()),
        more => text.push_str(&format!("{more} more match: search with other words.")),
    }
    ToolResult::ok(text)
}

fn no_match(deferred: &[&Arc<dyn Tool>]) -> ToolResult {
    let names: Vec<&str> = deferred
        .iter()
        .take(MAX_NAMES)
        .map(|tool| tool.spec().name.as_str())
        .collect();
    let more = match deferred.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    ToolResult::ok(format!(
        "No tool matches. There are: {}{more}",
        names.join(", ")
    ))
}

/// Splits a text into lower-case words. Underscores separate, as in names of tools.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Returns how well a tool matches: a word of the name counts most, then a part of the name, then a
/// part of the description.
fn score(spec: &ToolSpec, words: &[String]) -> usize {
    let name = spec.name.as_str().to_lowercase();
    let description = spec.description.to_lowercase();
    let score_of = |word: &String| {
        let in_name = match name.contains(word.as_str()) {
            true if name.split(['_', '-']).any(|part| part == word) => 6,
            true => 3,
            false => 0,
        };
        in_name + usize::from(description.contains(word.as_str()))
    };
    words.iter().map(score_of).sum()
}
