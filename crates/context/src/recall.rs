//! What the assistant remembers, as a section of the prompt.

use std::error::Error as _;

use chrono::NaiveDate;
use nanobot_memory::{MemoryError, MemoryStore, Scope};

use crate::template::is_untouched;

/// What facts, or a note, may take of the prompt, in characters.
const TEXT_LIMIT: usize = 32 * 1024;

/// Facts and the note of the day; empty when there is neither.
pub(crate) async fn recall(memory: &dyn MemoryStore, today: NaiveDate) -> String {
    let facts = match memory.facts(&Scope::Shared).await {
        Ok(facts) if is_untouched("memory/MEMORY.md", &facts.text) => String::new(),
        Ok(facts) => bounded(&facts.text),
        Err(error) => unreadable(&error),
    };
    let note = match memory.day_note(&Scope::Shared, today).await {
        Ok(note) => note.map(|note| bounded(&note.text)).unwrap_or_default(),
        Err(error) => unreadable(&error),
    };
    let mut text = String::new();
    for (heading, content) in [("## Long-term Memory", facts), ("## Today's Notes", note)] {
        if !content.is_empty() {
            text.push_str(if text.is_empty() { "# Memory\n\n" } else { "\n\n" });
            text.push_str(heading);
            text.push('\n');
            text.push_str(&content);
        }
    }
    text
}

fn bounded(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => format!("{}\n\n[There is more in the file; search it.]", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

fn unreadable(error: &MemoryError) -> String {
    tracing::warn!(error = error as &dyn std::error::Error, "memory cannot be read");
    match error.source() {
        Some(source) => format!("[Memory could not be read: {error}: {source}]"),
        None => format!("[Memory could not be read: {error}]"),
    }
}
