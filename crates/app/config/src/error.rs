//! What stops a configuration from being used or written.
//!
//! Every message says what failed and where; [`ConfigError::remedy`] says what to try. No message
//! holds the value of a secret.

use std::io;
use std::path::PathBuf;

use crate::Origin;

/// Why the configuration cannot be used or written. The file on disk is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file was named explicitly and is not there.
    #[error("{}: there is no such file", path.display())]
    Missing {
        /// The file that was asked for.
        path: PathBuf,
    },
    /// Neither `NANOBOT_HOME` nor the person's home directory is known.
    #[error("no home directory: neither NANOBOT_HOME nor HOME is set")]
    NoHome,
    /// The file is there but cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not UTF-8 text.
    #[error("{}:{line}:{column}: this is not UTF-8 text", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Line of the first wrong byte, from 1.
        line: u32,
        /// Column of the first wrong byte in characters, from 1.
        column: u32,
    },
    /// The file is not JSON.
    #[error("{}:{line}:{column}: not valid JSON: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What the parser said.
        reason: String,
    },
    /// The file holds a list or a single value.
    #[error("{}: the file holds {found}, but an object {{…}} is wanted", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// One key is said twice, and not with the same value.
    #[error(
        "{}: `{key}` is set twice with different values: `{first}` in line {first_line} and `{second}` in line {second_line}",
        path.display()
    )]
    Conflict {
        /// The file.
        path: PathBuf,
        /// The key in its canonical spelling.
        key: String,
        /// The first spelling.
        first: String,
        /// Line of the first, from 1.
        first_line: u32,
        /// The second spelling.
        second: String,
        /// Line of the second, from 1.
        second_line: u32,
    },
    /// A value does not have the type that its section wants.
    #[error("{origin}: `{key}` is {found}, but {wanted} is wanted")]
    WrongType {
        /// Full path of the key.
        key: String,
        /// Who said it.
        origin: Origin,
        /// What was found (never a secret).
        found: String,
        /// What is wanted.
        wanted: String,
    },
    /// A section refuses a value for a reason of its own.
    #[error("{origin}: `{key}` is not acceptable: {reason}")]
    Unacceptable {
        /// Full path of the key.
        key: String,
        /// Who said it.
        origin: Origin,
        /// What the section says.
        reason: String,
    },
    /// A reference inside a reference.
    #[error("{origin}: `{key}` has a reference inside another one, `{text}`")]
    NestedReference {
        /// The outer reference, up to the first closing brace.
        text: String,
        /// Full path of the key.
        key: String,
        /// The layer that holds it.
        origin: Origin,
    },
    /// A `${VARIABLE}` reference to a variable that is not set.
    #[error("{origin}: `{key}` refers to ${{{variable}}}, which is not set in the environment")]
    UnsetVariable {
        /// The variable.
        variable: String,
        /// Full path of the key.
        key: String,
        /// Who refers to it.
        origin: Origin,
    },
    /// A key that was asked for by name does not exist.
    #[error("there is no key `{key}`{}", crate::error::meant(nearest.as_deref()))]
    UnknownKey {
        /// The key.
        key: String,
        /// The existing key that was most likely meant.
        nearest: Option<String>,
    },
    /// Text that cannot be a path of keys.
    #[error("`{key}` is not a key: {reason}")]
    BadKey {
        /// The text.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A section registered defaults that no configuration can hold: a mistake in the program.
    #[error("the defaults of section `{section}` are unusable: {reason}")]
    Defaults {
        /// The section.
        section: String,
        /// Why.
        reason: String,
    },
    /// The file changed on disk since it was read; writing would lose that change.
    #[error("{}: changed on disk since it was read, so it was not written", path.display())]
    ChangedOnDisk {
        /// The file.
        path: PathBuf,
    },
    /// The file or its backup cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ConfigError {
    /// What a person can try, as one sentence.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing { .. } => {
                "Check the path given with --config, or run `nanobot onboard` to create the file.".to_owned()
            }
            Self::NoHome => "Set NANOBOT_HOME to the directory for nanobot's files.".to_owned(),
            Self::Read { .. } => "Check that the file is a file and that you may read it.".to_owned(),
            Self::NotUtf8 { .. } => "Save the file as UTF-8 in your editor.".to_owned(),
            Self::Syntax { .. } => "Look for a missing quote or brace, a comma too many or a comment near that place; \
                 a `config.json.bak-…` beside the file is an older version."
                .to_owned(),
            Self::NotAnObject { .. } => "Put the settings between { and }.".to_owned(),
            Self::Conflict { .. } => "Remove one of the two lines.".to_owned(),
            Self::WrongType { key, .. } | Self::Unacceptable { key, .. } => {
                format!(
                    "Correct the value, or remove it to use the default; `nanobot config explain {key}` shows both."
                )
            }
            Self::UnsetVariable { variable, .. } => {
                format!("Set {variable} in the environment of nanobot, or write the value itself.")
            }
            Self::NestedReference { .. } => {
                "Name one variable between the braces, and set it to the whole value.".to_owned()
            }
            Self::UnknownKey { .. } => "`nanobot config show` lists the keys.".to_owned(),
            Self::BadKey { .. } => "Write keys with dots between them, as in agents.defaults.model.".to_owned(),
            Self::Defaults { .. } => "This is a mistake in the program; please report it.".to_owned(),
            Self::ChangedOnDisk { .. } => "Run the command again.".to_owned(),
            Self::Write { .. } => {
                "Check that the directory exists, that you may write to it, and that the disk is not full.".to_owned()
            }
        }
    }
}

/// The tail of a message about a key that does not exist.
pub(crate) fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}
