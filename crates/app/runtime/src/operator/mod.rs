//! Inspection and maintenance of a home from outside, next to a running gateway or without one.

pub(crate) mod backlogs;
pub(crate) mod channel_login;
pub(crate) mod channel_status;
pub(crate) mod channel_test;
pub(crate) mod config_edit;
pub(crate) mod conversations;
pub mod doctor;
pub(crate) mod inbox;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod onboard;
pub(crate) mod provider_login;
pub(crate) mod remote;
pub(crate) mod replay;
pub(crate) mod session_editor;
pub(crate) mod setup;
pub(crate) mod spending;
pub(crate) mod status;
pub(crate) mod tool_files;
pub(crate) mod update;
