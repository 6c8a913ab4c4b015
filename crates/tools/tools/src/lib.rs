//! The built-in tools: files, shell and web.
//!
//! Every tool asks a guard before it acts: file tools ask the
//! [`PathPolicy`](nanobot_guard::PathPolicy), web tools the [`UrlGuard`](nanobot_guard::UrlGuard),
//! and the shell tool both, after parsing the command. That parsing is advice to the model and not
//! a security boundary: that is the operating-system sandbox of [`SandboxRunner`].
//!
//! Schemas are written by hand and kept short, because every request pays for them. Tools about
//! conversations (`message`, `spawn`, `cron`) are part of the agent and not in this crate.

mod builtin;
mod config;
mod error;
mod exec;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod operation;
mod text;
mod web;

pub use nanobot_sandbox::{Mechanism, SandboxError};

pub use crate::{
    builtin::{BuiltInTools, builtin},
    config::{
        ExecConfig, ExecLimits, FetchConfig, FileConfig, SandboxProfile, SearchConfig,
        SearchEndpoints, ToolsConfig, WebConfig,
    },
    error::ToolsError,
    exec::{CommandRequest, CommandRunner, DirectRunner, PreparedCommand, SandboxRunner},
    web::{DownloadError, DownloadLimits, HttpClients, search_key_variables},
};
