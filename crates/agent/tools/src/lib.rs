//! The built-in tools: files, shell and web.
//!
//! Every tool asks a guard before it acts: files the [`PathPolicy`](nanobot_guard::PathPolicy), the
//! web the [`UrlGuard`](nanobot_guard::UrlGuard), the shell both, by reading the command. The last
//! is advice to the model and no wall, which is why what really starts a process is a
//! [`CommandRunner`] that an operating-system sandbox can stand behind.
//!
//! Schemas are written by hand, because they are paid for in every request. What has to do with
//! conversations (`message`, `spawn`, `cron`) lives with the agent and is not here.

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

pub use crate::{
    builtin::builtin,
    config::{
        ApiKey, ExecConfig, FetchConfig, FileConfig, SearchConfig, SearchEndpoints, ToolsConfig,
        WebConfig,
    },
    error::ToolsError,
    exec::{CommandRunner, DirectRunner},
    web::HttpClients,
};
