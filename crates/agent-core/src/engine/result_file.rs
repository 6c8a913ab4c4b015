//! Results that are too long for a prompt.
//!
//! Decision: the whole result goes into a file that `read_file` may read, and what is sent and
//! recorded is its beginning with a note that says where the rest is. A file is named after what
//! is in it: the same result of a call that is made again is the same file and the same text. What
//! `read_file` itself gave is in a file already.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nanobot_types::ToolCall;

/// Put behind a result that was cut.
pub(crate) const CUT: &str = "\n... (truncated)";
/// The tool that reads files, whose results are lines `N| text`.
const READ_FILE: &str = "read_file";

/// Cuts results, and keeps them whole where it has a folder to do so.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultFiles {
    /// `None`: the rest of a long result is lost.
    pub(crate) folder: Option<PathBuf>,
}

impl ResultFiles {
    /// A result with at most `limit` characters and a note about the rest.
    pub(crate) async fn shorten(&self, call: &ToolCall, text: String, limit: usize) -> String {
        let Some((end, _)) = text.char_indices().nth(limit) else { return text };
        let head = text.get(..end).unwrap_or_default();
        if call.name.as_str() == READ_FILE {
            return format!("{head}{CUT}{}", read_on(head));
        }
        match self.keep(call, &text).await {
            Some(file) => format!("{head}{CUT}{}", kept_note(&text, head, &file)),
            None => format!("{head}{CUT}"),
        }
    }

    async fn keep(&self, call: &ToolCall, text: &str) -> Option<PathBuf> {
        let folder = self.folder.clone()?;
        let name: String =
            call.name.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
        let file = folder.join(format!("{name}-{:016x}.txt", fingerprint(text)));
        let (path, text) = (file.clone(), text.to_owned());
        let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
        match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => Some(file),
            Err(error) => {
                tracing::warn!(path = %file.display(), %error, "a long result could not be kept");
                None
            }
        }
    }
}

fn read_on(head: &str) -> String {
    let whole_lines = head.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let shown = whole_lines.rsplit('\n').find_map(|line| line.split_once("| ")?.0.trim().parse::<u64>().ok());
    match shown {
        Some(line) => format!("\n\n(Cut behind line {line}. Use offset={} and a smaller limit to continue.)", line + 1),
        None => "\n\n(Cut within its first line.)".to_owned(),
    }
}

fn kept_note(text: &str, head: &str, file: &Path) -> String {
    let lines = text.lines().count();
    let shown = head.matches('\n').count();
    let mut note = format!(
        "\n\n[The whole result has {} characters in {lines} lines and is kept in {}. ",
        text.chars().count(),
        file.display()
    );
    let average = text.len() / lines.max(1);
    let limit = (head.len() / average.max(1)).clamp(1, 2000);
    let written = if shown + 1 < lines {
        write!(note, "To read on, call {READ_FILE} with that path, offset={} and limit={limit}.]", shown + 1)
    } else {
        write!(note, "Its lines are too long to page through: search in it, or cut pieces out of it by a command.]")
    };
    debug_assert!(written.is_ok(), "a string takes everything");
    note
}

/// FNV-1a: stable over programs and versions, which `std`'s hasher is not.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Old or new, never a mixture; for its owner's eyes only.
fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let draft = file.with_extension(format!("{}.draft", uuid::Uuid::new_v4()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&draft).and_then(|mut open| {
        open.write_all(text.as_bytes())?;
        open.sync_data()
    });
    let placed = written.and_then(|()| std::fs::rename(&draft, file));
    if placed.is_err() {
        // The draft may not even be there.
        drop(std::fs::remove_file(&draft));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_result_is_kept_whole_and_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResultFiles { folder: Some(folder.path().join("results")) };
        let call = ToolCall::new("1", "exec", "{}");
        let text: String = (1..=1000).map(|line| format!("line {line} 很\n")).collect();
        let cut = files.shorten(&call, text.clone(), 200).await;
        assert!(cut.starts_with("line 1 很\n") && cut.contains("\n... (truncated)\n\n[The whole result has "), "{cut}");
        let path = cut.split("kept in ").nth(1).unwrap().split(". To read on").next().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        assert!(cut.contains("offset=21 and limit="), "{cut}");
        assert_eq!(files.shorten(&call, text, 200).await, cut, "the same again is the same text");
        assert_eq!(std::fs::read_dir(folder.path().join("results")).unwrap().count(), 1);
        assert_eq!(files.shorten(&call, "short".to_owned(), 200).await, "short");
    }

    #[tokio::test]
    async fn what_was_read_from_a_file_is_not_kept_a_second_time() {
        let files = ResultFiles { folder: Some("/nowhere".into()) };
        let call = ToolCall::new("1", "read_file", "{}");
        let text: String = (1..=100).map(|line| format!("{line}| text of it\n")).collect();
        let cut = files.shorten(&call, text, 100).await;
        assert!(cut.ends_with("(Cut behind line 7. Use offset=8 and a smaller limit to continue.)"), "{cut}");
    }

    #[tokio::test]
    async fn without_a_place_the_rest_is_lost() {
        let call = ToolCall::new("1", "exec", "{}");
        let unwritable = ResultFiles { folder: Some("/dev/null/results".into()) };
        for files in [ResultFiles::default(), unwritable] {
            assert_eq!(files.shorten(&call, "abcdef".to_owned(), 3).await, "abc\n... (truncated)");
        }
    }
}
