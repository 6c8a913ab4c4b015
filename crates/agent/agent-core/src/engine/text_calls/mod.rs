//! Parses tool calls that a model wrote into its text.
//!
//! A server passes a call on as text if it does not know the form that the model was trained on.
//!
//! Decision: a call begins with a marker of one of the known forms, outside of thinking and of
//! code. Without a marker, only a whole answer of JSON counts, and only if it names offered tools
//! and their arguments: a person may have asked for JSON. A marked call that cannot be read, or
//! that names an unknown tool, is a call nevertheless, and its result tells the model why it did
//! not run. The formats are those of the chat templates that the models are published with.

mod forms;
mod hold;
mod reader;
#[cfg(test)]
mod tests;
mod written;

use nanobot_provider::parse_lenient;
use nanobot_types::{ToolCall, ToolSpec};

use super::visible::split_thinking;
use forms::{Form, next_form};
use reader::Reader;
use written::Written;

pub(super) use hold::CallHold;

/// Maximum number of markers that are tried in one answer; later ones stay text.
const MARKER_LIMIT: usize = 64;
/// Maximum number of calls in one answer. A marker that leads to more stays text.
const CALL_LIMIT: usize = 256;
/// Begins and ends a block of code.
const FENCES: [&str; 2] = ["```", "~~~"];

/// Splits an answer into its text without calls, and its calls. `tools` are the offered ones.
/// `id_prefix` makes ids unique within the session.
pub(super) fn split_calls(
    text: &str,
    tools: &[ToolSpec],
    id_prefix: &str,
) -> (String, Vec<ToolCall>) {
    let (mut remaining, seen) = split_thinking(text);
    let written = match whole_answer(&seen, tools) {
        Some(written) => written,
        None => {
            let (rest, written) = marked_calls(&seen);
            remaining.push_str(&rest);
            written
        }
    };
    let calls = written
        .into_iter()
        .enumerate()
        .map(|(index, call)| call.into_call(format!("{id_prefix}-{index}"), tools))
        .collect();
    (remaining, calls)
}

/// Returns the calls of an answer that consists of nothing else and has no markers.
fn whole_answer(text: &str, tools: &[ToolSpec]) -> Option<Vec<Written>> {
    let mut rest = unfenced(text.trim());
    let mut calls = Vec::new();
    while rest.starts_with(['{', '[']) {
        let (value, after) = parse_lenient(rest).ok()?;
        calls.extend(Written::list(value, true)?);
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
    let is_offered = |call: &Written| tools.iter().any(|tool| tool.name.as_str() == call.name);
    let is_whole = rest.is_empty() && (1..=CALL_LIMIT).contains(&calls.len());
    (is_whole && calls.iter().all(is_offered)).then_some(calls)
}

/// Returns the content of a text that is one block of code, and any other text as it is.
fn unfenced(text: &str) -> &str {
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|block| block.split_once('\n'));
    inside.map_or(text, |(_, code)| code.trim())
}

/// Splits a text at its marked calls.
fn marked_calls(text: &str) -> (String, Vec<Written>) {
    let (mut remaining, mut calls) = (String::new(), Vec::new());
    let mut rest = text;
    for _ in 0..MARKER_LIMIT {
        let Some((before, form, inside)) = next_form(rest) else {
            break;
        };
        remaining.push_str(before);
        let is_marker = !is_quoted(&remaining);
        match is_marker.then(|| read(form, inside)).flatten() {
            Some((found, after)) if calls.len() + found.len() <= CALL_LIMIT => {
                calls.extend(found);
                rest = after;
            }
            _ => {
                remaining.push_str(form.open);
                rest = inside;
            }
        }
    }
    remaining.push_str(rest);
    (remaining, calls)
}

fn read<'t>(form: &Form, inside: &'t str) -> Option<(Vec<Written>, &'t str)> {
    let mut reader = Reader::new(inside);
    let calls = form.read(&mut reader)?;
    Some((calls, reader.rest()))
}

/// Returns `true` if what follows this text is code: within a block, or after a backtick.
fn is_quoted(before: &str) -> bool {
    let begins = |line: &&str| {
        FENCES
            .iter()
            .any(|mark| line.trim_start().starts_with(mark))
    };
    let fences = before.lines().filter(begins).count();
    before.ends_with('`') || fences % 2 == 1
}
