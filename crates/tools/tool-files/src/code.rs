//! The code of a tool, as it was read and checked.

/// What runs a tool.
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
