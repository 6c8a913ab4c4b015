//! Tool results that are too long for a prompt, and their pictures.
//!
//! Decision: the whole result goes into a file that `read_file` may read, in lines that it can page
//! through. The model and the log get its beginning (or the excerpt that the tool chose) with a
//! note that says where the rest is. The file name contains a hash of the content, so a repeated
//! call with the same result gives the same file and the same text. Results of `read_file` are not
//! written again, because they are in a file already.

use std::io;
use std::path::{Path, PathBuf};

use nanobot_disk::{DRAFT_PREFIX, Durability, FileDraft, LocalDisk, replace_file};
use nanobot_types::{MediaRef, Picture, PictureFormat, ToolCall, WholeText};
use sha2::{Digest as _, Sha256};

use super::paged_text::PagedText;

/// Appended to a result that was cut.
pub const CUT: &str = "\n... (truncated)";
/// The tool that reads files. Its results are lines of the form `N| text`.
const READ_FILE: &str = "read_file";
/// Maximum number of bytes of a result that are kept in a file.
const MAX_STORED: usize = 4 << 20;
/// Maximum number of pictures of a result that models receive.
const MAX_PICTURES: usize = 8;
/// Appended to a file that does not contain the whole result.
const END_MISSING: &str = "\n\n... (the rest is not kept) ...\n";
/// Beginnings of the names of tools whose results strangers may have written.
const OF_STRANGERS: [&str; 3] = ["web_", "mcp_", "subagent"];
/// Minimum and maximum width of a line in a file, in characters.
const LINE: (usize, usize) = (80, 1000);

/// `true` if the file name has the form of a kept result, or of its draft, which a crash may leave.
#[must_use]
pub fn is_result_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    let is_picture = || {
        PictureFormat::ALL
            .iter()
            .any(|format| extension == format.extension())
    };
    extension == "txt" || is_picture() || name.starts_with(DRAFT_PREFIX)
}

/// A result as a prompt shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShortResult {
    /// The text, with a note about the rest.
    pub(crate) text: String,
    /// The file that keeps it whole, if it was too long.
    pub(crate) kept_in: Option<PathBuf>,
}

impl From<String> for ShortResult {
    fn from(text: String) -> Self {
        Self {
            text,
            kept_in: None,
        }
    }
}

/// The file of a stored text, and the note about it.
pub(super) struct StoredNote {
    /// The note that says where it is and how to continue reading.
    pub(super) note: String,
    /// The file.
    pub(super) file: PathBuf,
}

/// Cuts results, and keeps them whole in a folder if it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultFiles {
    /// The folder. If it is `None`, the rest of a long result is lost.
    pub(crate) folder: Option<PathBuf>,
}

impl ResultFiles {
    /// Returns `true` if the arguments of a call name a kept result that strangers may have written,
    /// or the folder without a file.
    pub(super) fn are_by_strangers_in(&self, arguments: &str) -> bool {
        let Some(folder) = self.folder.as_deref().and_then(Path::to_str) else {
            return false;
        };
        let mut after = arguments.split(folder).skip(1);
        after.any(|rest| {
            let tool = rest.strip_prefix('/').and_then(|name| name.split_once('-'));
            let is_name = |tool: &str| tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let is_trusted = |tool: &str| {
                is_name(tool) && !OF_STRANGERS.iter().any(|begin| tool.starts_with(begin))
            };
            !tool.is_some_and(|(tool, _)| is_trusted(tool))
        })
    }

    /// Shortens a result to at most `limit` characters plus a note about the rest.
    pub(crate) async fn shorten(&self, call: &ToolCall, text: String, limit: usize) -> ShortResult {
        let Some(mut head) = beginning(&text, limit) else {
            return text.into();
        };
        if call.name.as_str() == READ_FILE {
            let note = read_on(&head);
            return format!("{head}{CUT}{note}").into();
        }
        head.push_str(CUT);
        let whole = WholeText {
            text,
            shown: limit,
            is_complete: true,
        };
        self.with_note(call, head, whole, limit).await
    }

    /// Shortens a result that is itself an excerpt of `whole`.
    pub(crate) async fn shorten_excerpt(
        &self,
        call: &ToolCall,
        text: String,
        whole: WholeText,
        limit: usize,
    ) -> ShortResult {
        let Some(head) = beginning(&text, limit) else {
            return self.with_note(call, text, whole, limit).await;
        };
        // The excerpt need not be the beginning of `whole`, so reading has to start at the first
        // line.
        self.with_note(
            call,
            format!("{head}{CUT}"),
            WholeText { shown: 0, ..whole },
            limit,
        )
        .await
    }

    /// Writes the pictures of a result to files and returns references to them. The files are
    /// copies: what a request shows does not change with the original.
    pub(crate) async fn keep_pictures(
        &self,
        call: &ToolCall,
        mut pictures: Vec<Picture>,
    ) -> Vec<MediaRef> {
        pictures.truncate(MAX_PICTURES);
        pictures.retain(|picture| picture.bytes.len() <= Picture::MAX_BYTES);
        let Some(folder) = self.folder.clone().filter(|_| !pictures.is_empty()) else {
            return Vec::new();
        };
        let prefix = folder.join(file_prefix(call));
        let stored = tokio::task::spawn_blocking(move || {
            let stored = pictures
                .iter()
                .map(|picture| store_picture(&prefix, picture));
            stored.collect::<io::Result<Vec<_>>>()
        })
        .await;
        stored
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .unwrap_or_else(|error| {
                tracing::warn!(tool = %call.name, %error, "could not store the pictures of a result");
                Vec::new()
            })
    }

    /// Writes `whole` to a file and appends a note with its path to `text`.
    async fn with_note(
        &self,
        call: &ToolCall,
        mut text: String,
        whole: WholeText,
        limit: usize,
    ) -> ShortResult {
        let Some(folder) = self.folder.clone() else {
            return text.into();
        };
        let prefix = folder.join(file_prefix(call));
        let stored = tokio::task::spawn_blocking(move || {
            store(&prefix, "result", &whole, limit, MAX_STORED)
        })
        .await;
        match stored.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(StoredNote { note, file }) => {
                text.push_str(&note);
                ShortResult {
                    text,
                    kept_in: Some(file),
                }
            }
            Err(error) => {
                tracing::warn!(tool = %call.name, %error, "could not store a long result");
                text.into()
            }
        }
    }
}

/// Returns the beginning of file names for the results of a call.
fn file_prefix(call: &ToolCall) -> String {
    let name = call.name.as_str().chars();
    name.filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .take(40)
        .collect()
}

/// Writes a picture to a file whose name begins with `prefix`.
fn store_picture(prefix: &Path, picture: &Picture) -> io::Result<MediaRef> {
    // A picture may be hostile, so its name must not be that of another one.
    let digest = Sha256::digest(&picture.bytes);
    let digest: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut file = prefix.as_os_str().to_owned();
    file.push(format!("-{digest}.{}", picture.format.extension()));
    let file = PathBuf::from(file);
    write(&file, &picture.bytes)?;
    Ok(MediaRef {
        location: file.display().to_string(),
        mime: Some(picture.format.mime().to_owned()),
    })
}

/// Returns the first `limit` characters of a text that is longer than that.
pub(super) fn beginning(text: &str, limit: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(limit)?;
    text.get(..end).map(str::to_owned)
}

fn read_on(head: &str) -> String {
    let whole_lines = head.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let shown = whole_lines
        .rsplit('\n')
        .find_map(|line| line.split_once("| ")?.0.trim().parse::<u64>().ok());
    match shown {
        Some(line) => format!(
            "\n\n(Cut after line {line}. Use offset={} and a smaller limit to continue.)",
            line + 1
        ),
        None => "\n\n(Cut within its first line.)".to_owned(),
    }
}

/// Writes at most `most` bytes of a text, in lines that `read_file` can page through, to a file
/// whose name begins with `prefix`. `noun` is the word for the text in the note.
pub(super) fn store(
    prefix: &Path,
    noun: &str,
    whole: &WholeText,
    limit: usize,
    most: usize,
) -> io::Result<StoredNote> {
    let mut paged = PagedText::new(&whole.text, whole.shown, line_width(limit), most);
    let characters = paged.text.chars().count();
    if paged.is_cut {
        paged.text.push_str(END_MISSING);
    }
    let file = write_text(prefix, "", &paged.text)?;
    let stored = StoredText {
        noun,
        file: &file,
        characters,
        is_whole: whole.is_complete && !paged.is_cut,
    };
    let note = stored.note(&paged, limit);
    Ok(StoredNote { note, file })
}

/// Returns the width of a line in a file for readers that show `limit` characters at a time.
pub(super) fn line_width(limit: usize) -> usize {
    (limit / 2).clamp(LINE.0, LINE.1)
}

/// Writes a text to a file whose name begins with `prefix`, and contains a hash of the text and
/// `suffix`.
pub(super) fn write_text(prefix: &Path, suffix: &str, text: &str) -> io::Result<PathBuf> {
    let mut file = prefix.as_os_str().to_owned();
    file.push(format!("-{:016x}{suffix}.txt", fingerprint(text)));
    let file = PathBuf::from(file);
    write(&file, text.as_bytes())?;
    Ok(file)
}

/// A text in a file.
pub(super) struct StoredText<'a> {
    /// The word for the text.
    pub(super) noun: &'a str,
    pub(super) file: &'a Path,
    pub(super) characters: usize,
    /// `true` if nothing of the text is missing.
    pub(super) is_whole: bool,
}

impl StoredText<'_> {
    /// Returns the note that says where the text is, and how to continue reading its lines with at
    /// most `limit` characters at a time.
    pub(super) fn note(&self, paged: &PagedText, limit: usize) -> String {
        let Self {
            noun,
            file,
            characters,
            is_whole,
        } = *self;
        let lines = paged.lines;
        let what = match is_whole {
            true => format!("The whole {noun} has {characters} characters in {lines} lines and is"),
            false => format!(
                "The {noun} was too long to keep all of it; {characters} characters in {lines} lines are"
            ),
        };
        // 8 characters are reserved for each line number.
        let fitting = limit / (characters / lines.max(1) + 8);
        let broken = if paged.is_broken {
            format!(" Lines are broken after {} characters.", line_width(limit))
        } else {
            String::new()
        };
        format!(
            "\n\n[{what} kept in {}. To read on, call {READ_FILE} with that path, offset={} and limit={}.{broken}]",
            file.display(),
            paged.next_line,
            fitting.clamp(1, 2000),
        )
    }
}

/// Computes FNV-1a, which is stable across programs and versions, unlike the hasher of `std`.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes a file atomically, readable only by its owner.
fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    replace_file(
        &LocalDisk,
        file,
        content,
        FileDraft::Random,
        Durability::Disk,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_result_files_and_their_drafts() {
        for (name, is_result) in [
            ("read_file-0f.txt", true),
            ("read_file-0f.png", true),
            (".part-1-2-3", true),
            ("notes.md", false),
        ] {
            assert_eq!(
                is_result_file(&Path::new("/r").join(name)),
                is_result,
                "{name}"
            );
        }
    }

    #[test]
    fn kept_pages_are_by_strangers_and_kept_output_is_not() {
        let results = ResultFiles {
            folder: Some("/home/me/tool-results".into()),
        };
        for (arguments, expected) in [
            (
                r#"{"path":"/home/me/tool-results/web_fetch-00ff.txt"}"#,
                true,
            ),
            (
                r#"{"path":"/home/me/tool-results/mcp_git_log-00ff.txt"}"#,
                true,
            ),
            (
                r#"{"path":"/home/me/tool-results/subagent-00ff.txt"}"#,
                true,
            ),
            (r#"{"path":"/home/me/tool-results/exec-00ff.txt"}"#, false),
            (
                r#"{"command":"cat /home/me/tool-results/exec-1.txt /home/me/tool-results/web_fetch-2.txt"}"#,
                true,
            ),
            (r#"{"command":"cat /home/me/tool-results/*"}"#, true),
            (r#"{"path":"/home/me/tool-results"}"#, true),
            (r#"{"path":"notes.md"}"#, false),
        ] {
            assert_eq!(
                results.are_by_strangers_in(arguments),
                expected,
                "{arguments}"
            );
        }
    }

    #[tokio::test]
    async fn long_result_is_stored_and_its_path_shown() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResultFiles {
            folder: Some(folder.path().join("results")),
        };
        let call = ToolCall::new("1", "exec", "{}");
        let text: String = (1..=1000).map(|line| format!("line {line} 很\n")).collect();
        let cut = files.shorten(&call, text.clone(), 200).await.text;
        assert!(
            cut.starts_with("line 1 很\n")
                && cut.contains("\n... (truncated)\n\n[The whole result has "),
            "{cut}"
        );
        let path = cut
            .split("kept in ")
            .nth(1)
            .unwrap()
            .split(". To read on")
            .next()
            .unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        assert!(cut.contains(", offset=21 and limit="), "{cut}");
        assert_eq!(
            files.shorten(&call, text, 200).await.text,
            cut,
            "the same again is the same text"
        );
        assert_eq!(
            std::fs::read_dir(folder.path().join("results"))
                .unwrap()
                .count(),
            1
        );
        assert_eq!(
            files.shorten(&call, "short".to_owned(), 200).await.text,
            "short"
        );
    }

    #[tokio::test]
    async fn read_file_results_are_not_stored_again() {
        let files = ResultFiles {
            folder: Some("/nowhere".into()),
        };
        let call = ToolCall::new("1", "read_file", "{}");
        let text: String = (1..=100)
            .map(|line| format!("{line}| text of it\n"))
            .collect();
        let cut = files.shorten(&call, text, 100).await.text;
        assert!(
            cut.ends_with("(Cut after line 7. Use offset=8 and a smaller limit to continue.)"),
            "{cut}"
        );
    }

    #[tokio::test]
    async fn partial_result_names_the_line_before_its_gap() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResultFiles {
            folder: Some(folder.path().to_owned()),
        };
        let call = ToolCall::new("1", "exec", "{}");
        let text: String = (1..=1000)
            .map(|line| format!("line {line:04}\r\n"))
            .collect();
        let whole = WholeText {
            text,
            shown: 115,
            is_complete: true,
        };
        let note = files
            .shorten_excerpt(
                &call,
                "line 0001 … line 1000".to_owned(),
                whole.clone(),
                200,
            )
            .await
            .text;
        assert!(note.starts_with(
            "line 0001 … line 1000\n\n[The whole result has 10000 characters in 1000 lines and is"
        ));
        assert!(
            note.ends_with(
                ".txt. To read on, call read_file with that path, offset=11 and limit=11.]"
            ),
            "{note}"
        );
        let partial = WholeText {
            is_complete: false,
            ..whole
        };
        let cut = files
            .shorten_excerpt(&call, "line 0001 … line 1000".to_owned(), partial, 9)
            .await
            .text;
        assert!(cut.starts_with(
            "line 0001\n... (truncated)\n\n[The result was too long to keep all of it; 10000 "
        ));
        assert!(cut.ends_with(", offset=1 and limit=1.]"), "{cut}");
    }

    #[tokio::test]
    async fn stored_file_is_bounded_and_has_short_lines() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResultFiles {
            folder: Some(folder.path().to_owned()),
        };
        let call = ToolCall::new("1", "../any tool", "{}");
        let note = files
            .shorten(&call, "很".repeat(MAX_STORED), 16_000)
            .await
            .text;
        assert!(
            note.contains("too long to keep all of it; ")
                && note.contains(" Lines are broken after 1000 characters.")
        );
        let path = note
            .split("kept in ")
            .nth(1)
            .unwrap()
            .split(". To read on")
            .next()
            .unwrap();
        assert!(path.contains("/anytool-"), "{path}");
        let stored = std::fs::read_to_string(path).unwrap();
        assert!(
            stored.len() <= MAX_STORED + END_MISSING.len() && stored.ends_with(END_MISSING),
            "{}",
            stored.len()
        );
        assert_eq!(
            stored.lines().map(|line| line.chars().count()).max(),
            Some(1000)
        );
    }

    #[tokio::test]
    async fn without_a_folder_the_result_is_truncated() {
        let call = ToolCall::new("1", "exec", "{}");
        let unwritable = ResultFiles {
            folder: Some("/dev/null/results".into()),
        };
        for files in [ResultFiles::default(), unwritable] {
            assert_eq!(
                files.shorten(&call, "abcdef".to_owned(), 3).await.text,
                "abc\n... (truncated)"
            );
        }
    }
}
