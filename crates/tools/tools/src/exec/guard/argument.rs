//! Words of a command, with the known variables filled in.

use std::path::Path;

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

    /// Returns the path of `name` in the folder that the argument names.
    pub(super) fn join(&self, name: &str) -> Self {
        let known = match self.is_literal() {
            true => self.text.len() + 1 + name.len(),
            false => self.known,
        };
        let text = format!("{}/{name}", self.text);
        Self { text, known }
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

/// Known variables of the shell.
pub(super) struct Variables<'a> {
    pub(super) home: Option<&'a Path>,
    pub(super) directory: &'a Path,
}

impl Variables<'_> {
    /// Fills in a word.
    pub(super) fn expand(&self, word: &Word) -> Argument {
        let mut text = String::new();
        let mut known = None;
        for part in &word.parts {
            let value = match part {
                WordPart::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                WordPart::Home => (self.home, "~".to_owned()),
                WordPart::Variable(name) if name == "HOME" => (self.home, "$HOME".to_owned()),
                WordPart::Variable(name) if name == "PWD" => (Some(self.directory), String::new()),
                WordPart::Variable(name) => (None, format!("${name}")),
                WordPart::Glob(mark) => (None, mark.to_string()),
                WordPart::Unknown => (None, "…".to_owned()),
            };
            match value {
                (Some(path), _) => text.push_str(&path.to_string_lossy()),
                (None, written) => {
                    known.get_or_insert(text.len());
                    text.push_str(&written);
                }
            }
        }
        Argument {
            known: known.unwrap_or(text.len()),
            text,
        }
    }
}
