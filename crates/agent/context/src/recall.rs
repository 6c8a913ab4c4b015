//! What the assistant remembers, as a section of the prompt.

use std::error::Error as _;

use chrono::NaiveDate;
use nanobot_memory::{Audience, MemoryError, MemoryStore, Scope};

use crate::SystemPrompt;
use crate::template::is_untouched;

/// What facts, or a note, may take of the prompt, in characters.
const TEXT_LIMIT: usize = 32 * 1024;

/// How what is learned stays where it belongs.
const HOW_TO: &str = "Only those who hear this conversation may be told what stands here. Keep what you learn about \
                      them with the `remember` tool; `memory/MEMORY.md` is read by everybody.";

/// The section of what only those know who hear the conversation.
pub(crate) const OWN: &str = "own_memory";

/// Facts and the note of the day; empty when there is neither.
pub(crate) async fn recall(memory: &dyn MemoryStore, scope: &Scope, today: NaiveDate) -> String {
    with_heading("# Memory", memory, scope, today).await
}

/// What only this audience may be told; empty where memory is not divided. It begins with a line
/// of its own for every audience, also when nothing is remembered: see [`is_for`].
pub(crate) async fn own(
    memory: &dyn MemoryStore,
    audience: Option<&Audience>,
    today: NaiveDate,
) -> String {
    let Some((audience, title)) = audience.and_then(|audience| Some((audience, title(audience)?)))
    else {
        return String::new();
    };
    let title = format!("{title}\n\n{HOW_TO}");
    let text = with_heading(&title, memory, &audience.home(), today).await;
    if text.is_empty() { title } else { text }
}

/// Whether a prompt tells what this audience may hear and nothing that others alone may.
pub(crate) fn is_for(prompt: &SystemPrompt, audience: &Audience) -> bool {
    let own = prompt
        .texts()
        .find(|(name, _)| *name == OWN)
        .and_then(|(_, text)| text.lines().next());
    own == title(audience).as_deref()
}

/// What the section of an audience begins with.
fn title(audience: &Audience) -> Option<String> {
    let one_line = |id: &str| id.escape_debug().to_string();
    match audience {
        Audience::Undivided => None,
        Audience::Person(person) => {
            Some(format!("# Private Memory of {}", one_line(person.as_str())))
        }
        Audience::Room(room) => Some(format!(
            "# Memory of This Group ({})",
            one_line(room.as_str())
        )),
    }
}

async fn with_heading(
    title: &str,
    memory: &dyn MemoryStore,
    scope: &Scope,
    today: NaiveDate,
) -> String {
    let facts = match memory.facts(scope).await {
        Ok(facts) if is_untouched("memory/MEMORY.md", &facts.text) => String::new(),
        Ok(facts) => bounded(&facts.text),
        Err(error) => unreadable(&error),
    };
    let note = match memory.day_note(scope, today).await {
        Ok(note) => note.map(|note| bounded(&note.text)).unwrap_or_default(),
        Err(error) => unreadable(&error),
    };
    let mut text = String::new();
    for (heading, content) in [("## Long-term Memory", facts), ("## Today's Notes", note)] {
        if !content.is_empty() {
            text.push_str(if text.is_empty() { title } else { "" });
            text.push_str("\n\n");
            text.push_str(heading);
            text.push('\n');
            text.push_str(&content);
        }
    }
    text
}

fn bounded(text: &str) -> String {
    let text = text.trim().replace("\r\n", "\n");
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => format!(
            "{}\n\n[There is more in the file; search it.]",
            text.get(..end).unwrap_or(&text)
        ),
        None => text,
    }
}

fn unreadable(error: &MemoryError) -> String {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "memory cannot be read"
    );
    match error.source() {
        Some(source) => format!("[Memory could not be read: {error}: {source}]"),
        None => format!("[Memory could not be read: {error}]"),
    }
}
