//! Files that a message at the prompt names: `@path`, or `@"path with spaces"`.
//!
//! Decision: hidden files and files in hidden folders are not attached, because a pasted text may
//! come from a stranger and name a key or a password file. `--file` attaches them.

use std::path::{Component, Path, PathBuf};

use crate::output::sanitize;

/// The files that a message names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedFiles {
    /// Files to attach, each once.
    pub(super) files: Vec<PathBuf>,
    /// What the person is told about them, one line each.
    pub(super) notes: Vec<String>,
}

impl NamedFiles {
    /// Finds the files that a text names. Relative paths begin at `folder`. Words that name no file
    /// remain words.
    pub(super) fn of(text: &str, folder: &Path) -> Self {
        let mut named = Self::default();
        for word in named_paths(text) {
            // A sentence may end after the path.
            let shorter = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
            let found = [word, shorter]
                .into_iter()
                .map(|path| resolve(path, folder))
                .find(|path| path.is_file());
            match found {
                Some(path) => named.add(path, folder),
                None if is_path_like(shorter) && !resolve(shorter, folder).exists() => {
                    let note = format!(
                        "There is no file {}; the text is sent as it is.",
                        sanitize(word)
                    );
                    named.notes.push(note);
                }
                None => {}
            }
        }
        named
    }

    fn add(&mut self, path: PathBuf, folder: &Path) {
        if self.files.contains(&path) {
            return;
        }
        let shown = sanitize(&path.display().to_string());
        if is_hidden(&path, folder) {
            self.notes.push(format!(
                "Not attached, because it is hidden: {shown}. `nanobot agent --file` attaches it."
            ));
            return;
        }
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        self.notes
            .push(format!("Attached {shown} ({}).", readable_size(size)));
        self.files.push(path);
    }
}

/// Returns the path that a word after `@` means. `~/` is the home folder.
pub(super) fn resolve(path: &str, folder: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
        None => folder.join(path),
    }
}

/// Returns where the path begins that ends with the text, after its `@` or `@"`; `None` if the text
/// ends with another word.
pub(super) fn open_path(text: &str) -> Option<usize> {
    let mut open = None;
    let mut rest = 0;
    while let Some(at) = next_mention(text, rest) {
        let (path, end) = mention(text, at);
        open = (end == text.len() && !text.ends_with(char::is_whitespace)).then_some(path.start);
        rest = end;
    }
    open.filter(|_| rest == text.len())
}

fn named_paths(text: &str) -> Vec<&str> {
    let mut paths = Vec::new();
    let mut rest = 0;
    while let Some(at) = next_mention(text, rest) {
        let (path, end) = mention(text, at);
        paths.extend(text.get(path).filter(|path| !path.is_empty()));
        rest = end;
    }
    paths
}

/// Returns the position of the next `@` at the beginning of a word.
fn next_mention(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    rest.match_indices('@').map(|(at, _)| from + at).find(|at| {
        let before = text
            .get(..*at)
            .and_then(|before| before.chars().next_back());
        before.is_none_or(char::is_whitespace)
    })
}

/// Returns the path after an `@`, and where the mention ends. An unclosed quote ends with the text.
fn mention(text: &str, at: usize) -> (std::ops::Range<usize>, usize) {
    let start = at + 1;
    let rest = text.get(start..).unwrap_or_default();
    if let Some(quoted) = rest.strip_prefix('"') {
        let start = start + 1;
        return match quoted.find('"') {
            Some(length) => (start..start + length, start + length + 1),
            None => (start..text.len(), text.len()),
        };
    }
    let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
    (start..start + length, start + length)
}

/// `true` if a word is meant as a path rather than as a name.
fn is_path_like(word: &str) -> bool {
    word.contains('/') || Path::new(word).extension().is_some()
}

/// `true` if a part of the real path begins with a dot. A hidden folder that the prompt runs in is
/// not counted.
fn is_hidden(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (path, folder) = (real(path), real(folder));
    let inside = path.strip_prefix(&folder).unwrap_or(&path);
    inside.components().any(|part| match part {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    })
}

fn readable_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_words_with_an_at_sign() {
        for (text, expected) in [
            ("look at @a.md and @b/c", &["a.md", "b/c"][..]),
            ("@\"my file.pdf\", @x", &["my file.pdf", "x"]),
            ("mail me@example.org", &[]),
            ("@ @\"\"", &[]),
            ("@日本.txt\n@\"open", &["日本.txt", "open"]),
        ] {
            assert_eq!(named_paths(text), expected, "{text:?}");
        }
    }

    #[test]
    fn open_path_is_the_last_word() {
        for (text, expected) in [
            ("look @no", Some(6)),
            ("@\"my fi", Some(2)),
            ("@a b", None),
            ("@a ", None),
            ("@\"a b\" c", None),
            ("me@x", None),
            ("@", Some(1)),
        ] {
            assert_eq!(open_path(text), expected, "{text:?}");
        }
    }

    #[test]
    fn named_files_are_attached_unless_hidden() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".work");
        std::fs::create_dir_all(folder.join(".ssh")).unwrap();
        std::fs::create_dir_all(root.path().join(".other")).unwrap();
        for name in ["a.md", "my file", ".ssh/id", "../.other/x", "../plain"] {
            std::fs::write(folder.join(name), "12345").unwrap();
        }
        let named = |text: &str| NamedFiles::of(text, &folder);
        let found = named("compare @a.md, @a.md and @\"my file\".");
        assert_eq!(found.files, [folder.join("a.md"), folder.join("my file")]);
        assert!(found.notes[0].ends_with("a.md (5 bytes)."), "{found:?}");
        for text in ["@.ssh/id", "@../.other/x"] {
            let found = named(text);
            assert!(found.files.is_empty(), "{text}");
            assert!(found.notes[0].contains("hidden"), "{found:?}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.join(".ssh/id"), folder.join("link")).unwrap();
            assert!(named("@link").files.is_empty());
        }
        let missing = named("@missing/x.md @name @.ssh @/dev/null");
        assert_eq!(missing.files, Vec::<PathBuf>::new());
        assert_eq!(missing.notes.len(), 1, "{missing:?}");
    }
}
