//! Previews of sessions, from the beginning and the end of their files.
//!
//! Decision: both are read in windows of fixed size, so that a list of many long conversations
//! costs little. A message that is longer than its window is not shown.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nanobot_disk::{DiskFile, read_to_end};
use nanobot_types::ChatMessage;

use crate::line::{self, Line};
use crate::title::one_line;
use crate::{Entry, Seq, SessionPreview, visible_text};

/// Size of each window, in bytes.
const WINDOW: u64 = 64 * 1024;
/// Maximum length of a title that is derived from a message, in characters.
const TITLE_LIMIT: usize = 60;
/// Maximum length of the latest text, in characters.
const TEXT_LIMIT: usize = 100;

/// Reads a preview of a file with `length` bytes and `head` messages.
pub(crate) fn preview(
    file: &dyn DiskFile,
    length: u64,
    (head, cursor): (Seq, Seq),
    bytes_read: &AtomicU64,
) -> io::Result<SessionPreview> {
    let window = |from: u64| {
        let bytes = read_to_end(file, from, WINDOW)?;
        bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        io::Result::Ok(bytes)
    };
    let beginning = window(0)?;
    let end = match length.saturating_sub(WINDOW) {
        0 => beginning.clone(),
        from => {
            let bytes = window(from)?;
            // The first line of the window may lack its beginning.
            bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .and_then(|newline| bytes.get(newline..))
                .unwrap_or_default()
                .to_vec()
        }
    };
    let (latest, since_reset) = latest(&end, head, cursor);
    Ok(SessionPreview {
        opening: since_reset.or_else(|| opening(&beginning)),
        latest,
    })
}

fn opening(bytes: &[u8]) -> Option<String> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let Line::Message(fields) = line::parse(line).line else {
            return None;
        };
        text_of(fields)
            .filter(|(is_user, _)| *is_user)
            .map(|(_, text)| one_line(&text, TITLE_LIMIT))
    })
}

/// Returns the latest text, and the first message of a person after a reset at the cursor.
fn latest(bytes: &[u8], Seq(head): Seq, cursor: Seq) -> (Option<String>, Option<String>) {
    let (mut seq, mut undone_from) = (head, u64::MAX);
    // Restorations whose rewind is before them in the file.
    let mut restored = 0_u32;
    let (mut latest, mut first) = (None, None);
    for line in bytes.rsplit(|byte| *byte == b'\n') {
        match line::parse(line).line {
            Line::Message(fields) => {
                seq = seq.saturating_sub(1);
                // A restoration after a message has no effect.
                restored = 0;
                if seq >= undone_from {
                    continue;
                }
                if let Some((is_user, text)) = text_of(fields) {
                    latest.get_or_insert_with(|| one_line(&text, TEXT_LIMIT));
                    if is_user && seq >= cursor.0 {
                        first = Some(one_line(&text, TITLE_LIMIT));
                    }
                }
            }
            Line::State(state) => {
                seq = state.count.map_or(seq, |Seq(count)| count.min(seq));
                match state.entry {
                    Some(Entry::Restored) => restored = restored.saturating_add(1),
                    Some(Entry::Rewound { to: Seq(to) }) => match restored.checked_sub(1) {
                        Some(fewer) => restored = fewer,
                        None => undone_from = undone_from.min(to),
                    },
                    Some(Entry::Reset) if seq == cursor.0 => return (latest, first),
                    _ => {}
                }
            }
            Line::Blank | Line::Foreign | Line::Bad => {}
        }
    }
    (latest, None)
}

/// Returns the visible text of a person or of the assistant; `true` for a person.
fn text_of(fields: nanobot_types::Map) -> Option<(bool, String)> {
    let entry = line::message_entry(fields);
    let is_user = match &*entry.message {
        ChatMessage::User(_) => true,
        ChatMessage::Assistant(_) => false,
        ChatMessage::Tool(_) | ChatMessage::System { .. } => return None,
    };
    let text = visible_text(&entry.message);
    (!text.trim().is_empty() && !crate::replay::is_command(&entry)).then_some((is_user, text))
}
