//! Errors of loading and saving a configuration.
//!
//! Every message names the problem and its location; [`ConfigError::remedy`] suggests a solution.
//! No message contains the value of a secret.

use std::io;
use std::path::PathBuf;

use crate::ValueOrigin;

/// Error of loading or saving the configuration. The file on disk is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file that was named explicitly does not exist.
    #[error("{}: there is no such file", path.display())]
    Missing {
        /// The requested file.
        path: PathBuf,
    },
    /// Neither `NANOBOT_HOME` nor the user's home directory is known.
    #[error("no home directory: neither NANOBOT_HOME nor HOME is set")]
    NoHome,
    /// The file exists but cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
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
        /// Error of the parser.
        reason: String,
    },
    /// The file contains a list or a single value.
    #[error("{}: the file holds {found}, but an object {{…}} is wanted", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Description of its content.
        found: String,
    },
    /// One key is set twice, with different values.
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
    /// A value does not have the type that its section expects.
    #[error("{origin}: `{key}` is {found}, but {wanted} is wanted")]
    WrongType {
        /// Full path of the key.
        key: String,
        /// Origin of the value.
        origin: ValueOrigin,
        /// Description of the value (never a secret).
        found: String,
        /// Description of the expected type.
        wanted: String,
    },
    /// A section rejects a value for another reason.
    #[error("{origin}: `{key}` is not acceptable: {reason}")]
    Unacceptable {
        /// Full path of the key.
        key: String,
        /// Origin of the value.
        origin: ValueOrigin,
        /// Error of the section.
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
        origin: ValueOrigin,
    },
    /// A `${VARIABLE}` reference to a variable that is not set.
    #[error("{origin}: `{key}` refers to ${{{variable}}}, which is not set in the environment")]
    UnsetVariable {
        /// The variable.
        variable: String,
        /// Full path of the key.
        key: String,
        /// Origin of the reference.
        origin: ValueOrigin,
    },
    /// A `file:` or `exec:` reference that cannot be resolved.
    #[error("{origin}: the secret of `{key}` cannot be read: {reason}")]
    ExternalSecret {
        /// Full path of the key.
        key: String,
        /// Origin of the reference.
        origin: ValueOrigin,
        /// The problem (never a secret).
        reason: String,
    },
    /// A key that was requested by name does not exist.
    #[error("there is no key `{key}`{}", crate::error::meant(nearest.as_deref()))]
    UnknownKey {
        /// The key.
        key: String,
        /// The existing key that was most likely meant.
        nearest: Option<String>,
    },
    /// A key that cannot be changed as requested.
    #[error("`{key}` was not changed: {reason}")]
    NotSettable {
        /// The key.
        key: String,
        /// Reason for the refusal (never a secret).
        reason: String,
    },
    /// The text is not a valid key path.
    #[error("`{key}` is not a key: {reason}")]
    BadKey {
        /// The text.
        key: String,
        /// Problem with the text.
        reason: &'static str,
    },
    /// The defaults registered for a section cannot be represented in a configuration, which is a
    /// bug in the program.
    #[error("the defaults of section `{section}` are unusable: {reason}")]
    Defaults {
        /// The section.
        section: String,
        /// Problem with the defaults.
        reason: String,
    },
    /// The file changed on disk since it was read; writing would lose that change.
    #[error("{}: changed on disk since it was read, so it was not written", path.display())]
    ChangedOnDisk {
        /// The file.
        path: PathBuf,
    },
    /// A file that would be replaced was written by another program.
    #[error("{}: was not written by nanobot, so it was not replaced", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file or its backup cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl ConfigError {
    /// Returns a suggested solution for the user, as one sentence.
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
            Self::ExternalSecret { .. } => {
                "Correct the file or the command that the value names; `literal:` before a text keeps it as it is."
                    .to_owned()
            }
            Self::UnknownKey { .. } => "`nanobot config show` lists the keys, and docs/reference.md explains them.".to_owned(),
            Self::NotSettable { key, .. } => {
                format!("`nanobot config explain {key}` shows its type and the allowed values.")
            }
            Self::BadKey { .. } => "Write keys with dots between them, as in agents.defaults.model.".to_owned(),
            Self::Defaults { .. } => "This is a mistake in the program; please report it.".to_owned(),
            Self::ChangedOnDisk { .. } => "Run the command again.".to_owned(),
            Self::NotOurs { .. } => "Rename that file, and run the command again.".to_owned(),
            Self::Write { .. } => {
                "Check that the directory exists, that you may write to it, and that the disk is not full.".to_owned()
            }
        }
    }
}

/// Returns the end of a message about a key that does not exist.
pub(crate) fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}
