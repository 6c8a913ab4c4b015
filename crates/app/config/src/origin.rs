//! Origins of values.

use std::fmt;
use std::path::PathBuf;

/// The layer that set a value and the position in it. `Display` is for users: `config.json:12:5`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueOrigin {
    /// No layer sets the value; it is built in.
    Default,
    /// The configuration file; line and column count from 1 and point at the key.
    File {
        /// The file.
        path: PathBuf,
        /// Line of the key.
        line: u32,
        /// Column of the key, in characters.
        column: u32,
    },
    /// An environment variable, named as it is set.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// An option of the command line.
    CommandLine {
        /// The key as it was given.
        option: String,
    },
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("built-in default"),
            Self::File { path, line, column } => {
                write!(formatter, "{}:{line}:{column}", path.display())
            }
            Self::Environment { variable } => write!(formatter, "environment variable {variable}"),
            Self::CommandLine { option } => write!(formatter, "command line ({option})"),
        }
    }
}
