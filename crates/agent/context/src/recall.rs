//! The memory sections of the prompt.

use std::error::Error as _;

use chrono::NaiveDate;
use nanobot_memory::{Audience, MemoryError, MemoryStore, Scope};

use crate::SystemPrompt;
use crate::template::is_untouched;

/// Maximum length of the facts, and of a day note, in the prompt, in characters.
const TEXT_LIMIT: usize = 32 * 1024;

/// Instructions that keep an audience's memory private to that audience.
const HOW_TO: &str = "Only those who hear this conversation may be told what stands here. Keep what you learn about \
                      them with the `remember` tool; `memory/MEMORY.md` is read by everybody.";

/// Name of the section that holds the private memory of the session's audience.
pub(crate) const OWN: &str = "own_memory";

/// Returns the facts and the day's note of a scope; empty if there is neither.
pub(crate) async fn recall(memory: &dyn MemoryStore, scope: &Scope, today: NaiveDate) -> String {
    with_heading("# Memory", memory, scope, today).await
}

/// Returns the memory that is private to this audience; empty if memory is not divided by audience.
/// The first line names the audience, even if nothing is remembered; [`is_for`] relies on it.
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

/// `true` if the prompt holds the private memory of this audience and of no other.
pub(crate) fn is_for(prompt: &SystemPrompt, audience: &Audience) -> bool {
    let own = prompt
        .texts()
        .find(|(name, _)| *name == OWN)
        .and_then(|(_, text)| text.lines().next());
    own == title(audience).as_deref()
}

/// Returns the first line of an audience's section, which identifies the audience; `None` if memory
/// is not divided.
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
