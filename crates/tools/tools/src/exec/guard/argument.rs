//! Words of a command, with the known variables filled in.

use std::path::PathBuf;

use super::Inspection;
use crate::exec::shell::{Word, WordPart};

/// A word as the shell would pass it on, as far as its value is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    /// The text; unknown variables appear as `$NAME`.
    pub(super) text: String,
    /// Length of the prefix that is certain, in bytes.
    known: usize,
}

impl Argument {
    /// Creates an argument that is certain.
    pub(super) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            known: text.len(),
            text,
        }
    }

    /// `true` if the whole text is certain.
    pub(super) const fn is_literal(&self) -> bool {
        self.known == self.text.len()
    }

    /// Returns the argument from byte `start` on.
    pub(super) fn from(&self, start: usize) -> Self {
        let text = self.text.get(start..).unwrap_or_default().to_owned();
        Self {
            known: self.known.saturating_sub(start).min(text.len()),
            text,
        }
    }

    /// Returns the path that the argument names if it is certain, else the folder that the path is
    /// certainly in; `None` if not even that is known.
    pub(super) fn certain_path(&self) -> Option<&str> {
        if self.is_literal() {
            return Some(&self.text);
        }
        let certain = self.text.get(..self.known)?;
        let slash = certain.rfind('/')?;
        certain.get(..=slash)
    }

    /// Returns the program name, if this is a command: without folder and `.exe`, in lower case.
    pub(super) fn program(&self) -> String {
        let name = self
            .text
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        name.strip_suffix(".exe").unwrap_or(&name).to_owned()
    }
}

impl Inspection<'_> {
    pub(super) fn expand(&self, word: &Word) -> Argument {
        let mut text = String::new();
        let mut known = None;
        for part in &word.parts {
            match part {
                WordPart::Text(piece) => text.push_str(piece),
                WordPart::Home => self.home(&mut text, &mut known, "~"),
                WordPart::Variable(name) if name == "HOME" => {
                    self.home(&mut text, &mut known, "$HOME");
                }
                WordPart::Variable(name) if name == "PWD" => {
                    text.push_str(&self.directory.to_string_lossy());
                }
                WordPart::Variable(name) => {
                    known.get_or_insert(text.len());
                    text.push('$');
                    text.push_str(name);
                }
                WordPart::Glob(mark) => {
                    known.get_or_insert(text.len());
                    text.push(*mark);
                }
                WordPart::Unknown => {
                    known.get_or_insert(text.len());
                    text.push('…');
                }
            }
        }
        Argument {
            known: known.unwrap_or(text.len()),
            text,
        }
    }

    fn home(&self, text: &mut String, known: &mut Option<usize>, written: &str) {
        if let Some(home) = self.guard.policy.home() {
            text.push_str(&home.to_string_lossy());
        } else {
            known.get_or_insert(text.len());
            text.push_str(written);
        }
    }

    /// Resolves `path` against the shell's current directory.
    pub(super) fn absolute(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }
}
