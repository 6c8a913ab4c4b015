//! Tools in files of the workspace: the assistant writes them, and they are there with its next
//! message.
//!
//! Decision: a tool file is untrusted code. It never runs in this process: a
//! Python file runs in a small host (`host.py`), a folder with a `tool.toml` runs its program, and
//! both run in the operating-system sandbox, with less access than commands have: the workspace for
//! reading, [`ToolFilesConfig::allowed_dirs`] in it for writing, no network, no variable with a
//! secret. Without a sandbox, or without Python, the tools are unavailable. The scan of a Python
//! file is a lint with reasons for its author and not a boundary.
//!
//! [`ToolFiles`] is a [`ToolFeed`](nanobot_tool::ToolFeed): it compares names, sizes and times of
//! the folder before a turn and reads it only after a change. A process starts with the first call
//! of its tool and ends when it is idle, so tools that nobody calls cost nothing.

mod check_tools;
mod code;
mod config;
mod confinement;
mod definition;
mod describe;
mod error;
mod files;
mod folder;
mod host;
mod manifest;
mod process;
mod tool;

pub use check_tools::{CheckArguments, CheckTools};
pub use config::{ScanMode, ToolFilesConfig};
pub use error::ToolFileError;
pub use files::{ToolFileState, ToolFileStatus, ToolFiles, ToolFilesSettings};
pub use folder::FOLDER;
