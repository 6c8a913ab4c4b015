//! Reasons why a tool file is not used.

/// Reason why a tool file is not a tool now, as its author and the operator read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFileError {
    /// The file or its definition is unusable.
    #[error("{0}")]
    Refused(String),
    /// It is a script and not meant to be a tool.
    #[error("it does not import Tool from tool_api")]
    NotATool,
    /// The scan found what a tool file should not use.
    #[error("the scan refuses {}", .0.join("; "))]
    Scan(Vec<String>),
    /// Tools cannot run here and now.
    #[error("{0}")]
    Unavailable(String),
}
