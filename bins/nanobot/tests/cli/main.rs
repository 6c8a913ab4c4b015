//! Tests of the built binary, each with a home of its own and models on loopback.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

#[cfg(unix)]
mod approvals;
mod basics;
#[cfg(unix)]
mod bounded_memory;
#[cfg(unix)]
mod channels;
#[cfg(unix)]
mod commands;
mod config_keys;
mod config_schema;
mod configuration;
mod consolidation;
mod conversation;
#[cfg(unix)]
mod cron;
#[cfg(unix)]
mod day;
mod doctor;
mod documentation;
#[cfg(unix)]
mod documents;
mod failover;
mod faults;
#[cfg(unix)]
mod gateway;
#[cfg(unix)]
mod hardening;
mod heartbeat;
#[cfg(target_os = "linux")]
mod http2;
mod import;
#[cfg(target_os = "linux")]
mod injection;
mod isolation;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod lifecycle;
mod local_window;
mod long_results;
#[cfg(unix)]
mod matrix;
mod mcp_login;
mod memory;
mod models;
mod money;
#[cfg(unix)]
mod packaging;
mod pairing;
mod pipes;
#[cfg(unix)]
mod platforms;
#[cfg(unix)]
mod prompt;
mod provider_login;
#[cfg(unix)]
mod quarantine;
#[cfg(unix)]
mod reconnect;
mod replay;
mod request_size;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(unix)]
mod screen;
#[cfg(unix)]
mod screen_news;
#[cfg(unix)]
mod screen_turns;
mod secrets;
#[cfg(unix)]
mod session_edits;
mod session_folders;
#[cfg(unix)]
mod setup;
mod skills;
#[cfg(unix)]
mod subagents;
mod support;
#[cfg(unix)]
mod telegram;
#[cfg(target_os = "linux")]
mod tool_files;
#[cfg(unix)]
mod topics;
mod update;
#[cfg(unix)]
mod whatsapp;
