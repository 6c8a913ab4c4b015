//! The code of a tool, as it was read and checked.

use sha2::{Digest as _, Sha256};

/// Code of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Code {
    /// A Python file. The host receives the source that was read, so a later change of the file
    /// changes nothing.
    Python {
        /// Name of the file.
        file: String,
        /// Its content.
        source: String,
    },
    /// A program in a folder. It is started anew for each call.
    Program {
        /// Name of the folder.
        folder: String,
        /// The program and its arguments. What begins with `./` is in the folder.
        command: Vec<String>,
    },
}

impl Code {
    /// Returns the SHA-256 of a Python file in hexadecimal; `None` for a program, whose files are
    /// not read.
    pub(crate) fn digest(&self) -> Option<String> {
        match self {
            Self::Python { source, .. } => {
                let digest = Sha256::digest(source.as_bytes());
                Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Self::Program { .. } => None,
        }
    }
}
