//! Runs commands in an operating-system sandbox.
//!
//! A command sees what its [`View`] opens and nothing else: other paths do not exist for it, or
//! cannot be written. It sees no other process, and has no network unless the view grants it. On
//! Linux this is done by bubblewrap (namespaces) where it is installed, otherwise by Landlock, and
//! in both cases with a seccomp filter and resource limits. Other systems have no sandbox here:
//! [`Sandbox::find`] says so, and the caller has to refuse commands.
//!
//! Decision: no process is trusted to be confined before it was seen. [`Sandbox::probe`] starts a
//! process that tries to escape, and compares what it could do with what the view allows.
//!
//! The program that starts commands is also their launcher: inside the sandbox it sets limits and
//! filters on itself and then becomes the shell. Its `main` has to call [`enter`] first:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if let Some(code) = nanobot_sandbox::enter() {
//!         return code;
//!     }
//!     // … the program …
//!     ExitCode::SUCCESS
//! }
//! ```

#[cfg(target_os = "linux")]
mod bubblewrap;
mod error;
mod group;
#[cfg(target_os = "linux")]
mod landlock_rules;
mod launcher;
mod limits;
mod mechanism;
mod placeholder;
mod probe;
mod reader;
mod scratch;
#[cfg(target_os = "linux")]
mod seccomp;
mod system;
mod view;

pub use crate::{
    error::SandboxError,
    group::ProcessGroup,
    launcher::{enter, this_program},
    limits::Limits,
    mechanism::{ConfinedProcess, Mechanism, Sandbox, SandboxedCommand},
    placeholder::Placeholders,
    reader::confine_reader,
    view::{Base, PathAccess, View},
};
