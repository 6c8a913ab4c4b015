//! The search tools: `memory_search` and `session_search`.
//!
//! Decision: a result is a list of places with one line of text each, and a hint how to read more
//! with `read_file`. The audience of the conversation determines what is searched; the model cannot
//! widen that.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_escape::{ExternalText, close_external_text, has_external_text};
use nanobot_memory::{MemoryHit, MemorySearch};
use nanobot_session::{SessionHit, SessionReach, SessionSearch};
use nanobot_tool::{ToolContext, ToolError, TypedTool};
use nanobot_types::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::AudienceLookup;

/// Default number of results.
const PLACES: usize = 8;
/// Maximum number of results.
const MAX_PLACES: usize = 30;

/// Arguments of both search tools.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchArguments {
    query: String,
    #[serde(default)]
    limit: Option<u32>,
}

impl SearchArguments {
    fn limit(&self) -> usize {
        self.limit.map_or(PLACES, |limit| {
            usize::try_from(limit)
                .unwrap_or(MAX_PLACES)
                .clamp(1, MAX_PLACES)
        })
    }

    fn no_results(&self) -> String {
        format!(
            "Nothing was found for {:?}. Try other or fewer words.",
            self.query
        )
    }
}

/// The `memory_search` tool.
#[derive(Debug)]
pub struct MemorySearchTool {
    search: Arc<dyn MemorySearch>,
    audiences: AudienceLookup,
    workspace: PathBuf,
}

impl MemorySearchTool {
    /// Creates a tool that queries `search` and shows paths relative to `workspace`.
    pub fn new(
        search: Arc<dyn MemorySearch>,
        audiences: AudienceLookup,
        workspace: impl Into<PathBuf>,
    ) -> Self {
        Self {
            search,
            audiences,
            workspace: workspace.into(),
        }
    }
}

impl TypedTool for MemorySearchTool {
    type Args = SearchArguments;
    const NAME: &'static str = "memory_search";
    const DESCRIPTION: &'static str =
        "Search long-term memory by words: facts, history, day notes.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(
        &self,
        arguments: SearchArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let audience = self.audiences.of(&context.session).await;
        let found = self
            .search
            .search(&audience.scopes(), &arguments.query, arguments.limit())
            .await;
        let hits = found.map_err(|error| failed(&error))?;
        if hits.is_empty() {
            return Ok(arguments.no_results());
        }
        let mut text = format!("{} found:\n", places(hits.len()));
        for (hit, is_external) in hits.iter().zip(of_strangers(&hits).await) {
            let place = format!("{}:{}", relative(&self.workspace, &hit.path), hit.line);
            match is_external {
                true => line(
                    &mut text,
                    &place,
                    &ExternalText::new(&hit.excerpt).bounded(),
                ),
                false => line(&mut text, &place, &hit.excerpt),
            }
        }
        // Memory of a person or a room can be found but not read with file tools, so the hint names
        // only shared files.
        let everybodys =
            |hit: &&MemoryHit| hit.path.parent() == Some(&self.workspace.join("memory"));
        if let Some(hit) = hits.iter().find(everybodys) {
            text.push_str(&read_on(&self.workspace, &hit.path, hit.line));
        }
        Ok(text)
    }
}

/// Returns for each match whether it is in the bounds of strangers' text.
async fn of_strangers(hits: &[MemoryHit]) -> Vec<bool> {
    let places: Vec<(PathBuf, u32)> = hits
        .iter()
        .map(|hit| (hit.path.clone(), hit.line))
        .collect();
    let count = places.len();
    let found = tokio::task::spawn_blocking(move || {
        let is_external = |(path, line): &(PathBuf, u32)| match std::fs::read(path) {
            Ok(text) => is_in_bounds(&String::from_utf8_lossy(&text), *line),
            Err(_) => true,
        };
        places.iter().map(is_external).collect()
    });
    // In doubt it is by strangers.
    found.await.unwrap_or_else(|_| vec![true; count])
}

/// Returns `true` if a line, counted from 1, is in the bounds of strangers' text.
fn is_in_bounds(text: &str, line: u32) -> bool {
    let line = usize::try_from(line).unwrap_or(usize::MAX);
    let before: Vec<&str> = text.lines().take(line).collect();
    let is_bound = before.last().is_some_and(|last| has_external_text(last));
    is_bound || matches!(close_external_text(&before.join("\n")), Cow::Owned(_))
}

/// The `session_search` tool.
#[derive(Debug)]
pub struct SessionSearchTool {
    search: Arc<dyn SessionSearch>,
    audiences: AudienceLookup,
    workspace: PathBuf,
}

impl SessionSearchTool {
    /// Creates a tool that queries `search` and shows paths relative to `workspace`.
    pub fn new(
        search: Arc<dyn SessionSearch>,
        audiences: AudienceLookup,
        workspace: impl Into<PathBuf>,
    ) -> Self {
        Self {
            search,
            audiences,
            workspace: workspace.into(),
        }
    }
}

impl TypedTool for SessionSearchTool {
    type Args = SearchArguments;
    const NAME: &'static str = "session_search";
    const DESCRIPTION: &'static str = "Search this and past conversations by words.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(
        &self,
        arguments: SearchArguments,
        context: &ToolContext,
    ) -> Result<String, ToolError> {
        let reach = self.audiences.reach(&context.session).await;
        let found = self
            .search
            .search(&reach, &arguments.query, arguments.limit())
            .await;
        let hits = found.map_err(|error| failed(&error))?;
        let Some(first) = hits.first() else {
            return Ok(arguments.no_results());
        };
        let mut text = format!("{} found:\n", places(hits.len()));
        for hit in &hits {
            let place = format!("{}:{}", relative(&self.workspace, &hit.path), hit.line);
            line(
                &mut text,
                &format!("{place} ({})", circumstances(hit)),
                &hit.excerpt,
            );
        }
        if reach == SessionReach::All {
            text.push_str(&read_on(&self.workspace, &first.path, first.line));
        }
        Ok(text)
    }
}

fn circumstances(hit: &SessionHit) -> String {
    let at = hit
        .at
        .map(|at| at.format(", %Y-%m-%d %H:%M").to_string())
        .unwrap_or_default();
    // Counts from 1, as `nanobot sessions show` does.
    format!(
        "{}, message {}, {}{at}",
        hit.session,
        hit.seq.next(),
        hit.role
    )
}

fn places(count: usize) -> String {
    if count == 1 {
        "1 place".to_owned()
    } else {
        format!("{count} places")
    }
}

fn line(text: &mut String, place: &str, excerpt: &str) {
    text.push_str(&format!("- {place}: {excerpt}\n"));
}

fn read_on(workspace: &Path, path: &Path, line: u32) -> String {
    let arguments = serde_json::json!({"path": relative(workspace, path), "offset": line.saturating_sub(2).max(1)});
    format!("Read on with read_file, for example {arguments}.")
}

fn relative(workspace: &Path, path: &Path) -> String {
    path.strip_prefix(workspace)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ToolError {
    tracing::warn!(error, "a search failed");
    ToolError::new(format!("{error}."))
        .with_remedy("Look into memory/MEMORY.md and memory/HISTORY.md with read_file.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_strangers_are_recognised() {
        let external = ExternalText::new("one\ntwo").bounded();
        let text = format!("tea\n\n[2026-11-22 10:00] x\n{external}\n\nmilk\n");
        let lines: Vec<bool> = (1..=9).map(|line| is_in_bounds(&text, line)).collect();
        let expected = [false, false, false, true, true, true, true, false, false];
        assert_eq!(lines, expected);
    }
}
