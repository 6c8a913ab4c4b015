//! Results that are too long for a prompt.
//!
//! Decision: the whole result goes into a file that `read_file` may read, in lines that it can page
//! through, and what is sent and recorded is its beginning (or what the tool shows of it) with a
//! note that says where the rest is. A file is named after what is in it: the same result of a call
//! that is made again is the same file and the same text. What `read_file` itself gave is in a file
//! already.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nanobot_types::{ToolCall, WholeText};

use super::readable::Readable;

/// Put behind a result that was cut.
pub(crate) const CUT: &str = "\n... (truncated)";
/// The tool that reads files, whose results are lines `N| text`.
const READ_FILE: &str = "read_file";
/// Bytes of a result that are kept.
const MOST_KEPT: usize = 4 << 20;
/// Put at the end of a file that would have had more.
const END_MISSING: &str = "\n\n... (the rest is not kept) ...\n";
/// Characters of a line in a file, at least and at most.
const LINE: (usize, usize) = (80, 1000);

/// Cuts results, and keeps them whole where it has a folder to do so.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResultFiles {
    /// `None`: the rest of a long result is lost.
    pub(crate) folder: Option<PathBuf>,
}

impl ResultFiles {
    /// A result with at most `limit` characters and a note about the rest.
    pub(crate) async fn shorten(&self, call: &ToolCall, text: String, limit: usize) -> String {
        let Some(mut head) = beginning(&text, limit) else {
            return text;
        };
        if call.name.as_str() == READ_FILE {
            let note = read_on(&head);
            return format!("{head}{CUT}{note}");
        }
        head.push_str(CUT);
        let whole = WholeText {
            text,
            shown: limit,
            is_complete: true,
        };
        self.with_note(call, head, whole, limit).await
    }

    /// The same for a result that is itself a part of `whole`.
    pub(crate) async fn keep(
        &self,
        call: &ToolCall,
        text: String,
        whole: WholeText,
        limit: usize,
    ) -> String {
        let Some(head) = beginning(&text, limit) else {
            return self.with_note(call, text, whole, limit).await;
        };
        // What is left of it need not be the beginning.
        self.with_note(
            call,
            format!("{head}{CUT}"),
            WholeText { shown: 0, ..whole },
            limit,
        )
        .await
    }

    /// Keeps `whole` and adds to `text` where it is.
    async fn with_note(
        &self,
        call: &ToolCall,
        mut text: String,
        whole: WholeText,
        limit: usize,
    ) -> String {
        let Some(folder) = self.folder.clone() else {
            return text;
        };
        let name: String = call
            .name
            .as_str()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .take(40)
            .collect();
        let kept =
            tokio::task::spawn_blocking(move || keep(&folder.join(name), &whole, limit)).await;
        match kept.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(note) => text.push_str(&note),
            Err(error) => {
                tracing::warn!(tool = %call.name, %error, "a long result could not be kept")
            }
        }
        text
    }
}

/// The first characters of a text that is longer than `limit`.
fn beginning(text: &str, limit: usize) -> Option<String> {
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
            "\n\n(Cut behind line {line}. Use offset={} and a smaller limit to continue.)",
            line + 1
        ),
        None => "\n\n(Cut within its first line.)".to_owned(),
    }
}

/// Writes a text into a file whose name begins with `prefix`; says where it is and how to read on.
fn keep(prefix: &Path, whole: &WholeText, limit: usize) -> io::Result<String> {
    let width = (limit / 2).clamp(LINE.0, LINE.1);
    let mut kept = Readable::new(&whole.text, whole.shown, width, MOST_KEPT);
    let characters = kept.text.chars().count();
    if kept.is_cut {
        kept.text.push_str(END_MISSING);
    }
    let mut file = prefix.as_os_str().to_owned();
    file.push(format!("-{:016x}.txt", fingerprint(&kept.text)));
    let file = PathBuf::from(file);
    write(&file, &kept.text)?;
    let lines = kept.lines;
    let what = match whole.is_complete && !kept.is_cut {
        true => format!("The whole result has {characters} characters in {lines} lines and is"),
        false => format!(
            "The result was too long to keep all of it; {characters} characters in {lines} lines are"
        ),
    };
    // Room for the numbers that lines are shown with.
    let fitting = limit / (characters / lines.max(1) + 8);
    let broken = if kept.is_broken {
        format!(" Lines are broken after {width} characters.")
    } else {
        String::new()
    };
    Ok(format!(
        "\n\n[{what} kept in {}. To read on, call {READ_FILE} with that path, offset={} and limit={}.{broken}]",
        file.display(),
        kept.next_line,
        fitting.clamp(1, 2000),
    ))
}

/// FNV-1a: stable over programs and versions, which `std`'s hasher is not.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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
        let files = ResultFiles {
            folder: Some(folder.path().join("results")),
        };
        let call = ToolCall::new("1", "exec", "{}");
        let text: String = (1..=1000).map(|line| format!("line {line} 很\n")).collect();
        let cut = files.shorten(&call, text.clone(), 200).await;
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
            files.shorten(&call, text, 200).await,
            cut,
            "the same again is the same text"
        );
        assert_eq!(
            std::fs::read_dir(folder.path().join("results"))
                .unwrap()
                .count(),
            1
        );
        assert_eq!(files.shorten(&call, "short".to_owned(), 200).await, "short");
    }

    #[tokio::test]
    async fn what_was_read_from_a_file_is_not_kept_a_second_time() {
        let files = ResultFiles {
            folder: Some("/nowhere".into()),
        };
        let call = ToolCall::new("1", "read_file", "{}");
        let text: String = (1..=100)
            .map(|line| format!("{line}| text of it\n"))
            .collect();
        let cut = files.shorten(&call, text, 100).await;
        assert!(
            cut.ends_with("(Cut behind line 7. Use offset=8 and a smaller limit to continue.)"),
            "{cut}"
        );
    }

    #[tokio::test]
    async fn a_part_names_the_line_after_which_it_has_a_gap() {
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
        let told = files
            .keep(
                &call,
                "line 0001 … line 1000".to_owned(),
                whole.clone(),
                200,
            )
            .await;
        assert!(told.starts_with(
            "line 0001 … line 1000\n\n[The whole result has 10000 characters in 1000 lines and is"
        ));
        assert!(
            told.ends_with(
                ".txt. To read on, call read_file with that path, offset=11 and limit=11.]"
            ),
            "{told}"
        );
        let partial = WholeText {
            is_complete: false,
            ..whole
        };
        let cut = files
            .keep(&call, "line 0001 … line 1000".to_owned(), partial, 9)
            .await;
        assert!(cut.starts_with(
            "line 0001\n... (truncated)\n\n[The result was too long to keep all of it; 10000 "
        ));
        assert!(cut.ends_with(", offset=1 and limit=1.]"), "{cut}");
    }

    #[tokio::test]
    async fn a_file_has_an_end_and_short_lines() {
        let folder = tempfile::tempdir().unwrap();
        let files = ResultFiles {
            folder: Some(folder.path().to_owned()),
        };
        let call = ToolCall::new("1", "../any tool", "{}");
        let told = files.shorten(&call, "很".repeat(MOST_KEPT), 16_000).await;
        assert!(
            told.contains("too long to keep all of it; ")
                && told.contains(" Lines are broken after 1000 characters.")
        );
        let path = told
            .split("kept in ")
            .nth(1)
            .unwrap()
            .split(". To read on")
            .next()
            .unwrap();
        assert!(path.contains("/anytool-"), "{path}");
        let kept = std::fs::read_to_string(path).unwrap();
        assert!(
            kept.len() <= MOST_KEPT + END_MISSING.len() && kept.ends_with(END_MISSING),
            "{}",
            kept.len()
        );
        assert_eq!(
            kept.lines().map(|line| line.chars().count()).max(),
            Some(1000)
        );
    }

    #[tokio::test]
    async fn without_a_place_the_rest_is_lost() {
        let call = ToolCall::new("1", "exec", "{}");
        let unwritable = ResultFiles {
            folder: Some("/dev/null/results".into()),
        };
        for files in [ResultFiles::default(), unwritable] {
            assert_eq!(
                files.shorten(&call, "abcdef".to_owned(), 3).await,
                "abc\n... (truncated)"
            );
        }
    }
}
