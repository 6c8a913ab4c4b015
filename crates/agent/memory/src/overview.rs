//! The overview of memory that `/memory` shows.

use chrono::NaiveDate;

use crate::{MemoryError, MemoryStore, Scope};

/// Maximum number of changes shown.
const CHANGES: usize = 5;

/// Returns a few lines about the memory of `scopes`: the size of the facts, the size of today's
/// note, the latest changes, and the commands that show more. If a scope cannot be read, the line
/// of the scope says so.
pub async fn overview(memory: &dyn MemoryStore, scopes: &[Scope], today: NaiveDate) -> String {
    let mut lines = vec!["🧠 Memory".to_owned()];
    for scope in scopes {
        let whose = match scope {
            Scope::Shared => "Everybody's".to_owned(),
            Scope::Person(_) => "Yours alone".to_owned(),
            Scope::Room(_) => "This group's".to_owned(),
        };
        match of_scope(memory, scope, today).await {
            Ok(text) => lines.push(format!("{whose}: {text}")),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "memory cannot be read"
                );
                lines.push(format!("{whose}: cannot be read ({error})"));
            }
        }
        if let Some(versions) = memory.versions()
            && let Ok(log) = versions.log(scope).await
        {
            lines.extend(log.iter().take(CHANGES).map(|version| {
                format!(
                    "  {} {} {}: {}",
                    version.number,
                    version.at.format("%Y-%m-%d %H:%M"),
                    version.file,
                    version.reason
                )
            }));
        }
    }
    lines.push("`nanobot memory log`, `show` and `restore` at a terminal show changes and bring them back.".to_owned());
    lines.join("\n")
}

async fn of_scope(
    memory: &dyn MemoryStore,
    scope: &Scope,
    today: NaiveDate,
) -> Result<String, MemoryError> {
    let facts = memory.facts(scope).await?.text;
    let note = memory.day_note(scope, today).await?;
    let (lines, characters) = (
        facts.lines().filter(|line| !line.trim().is_empty()).count(),
        facts.chars().count(),
    );
    let note = note.map_or_else(
        || "none".to_owned(),
        |note| format!("{} characters", note.text.chars().count()),
    );
    Ok(format!(
        "{lines} lines, {characters} characters of facts in MEMORY.md; note of today: {note}"
    ))
}
