//! Tests of the built binary, each with a home of its own and models on loopback.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod backlog;
mod basics;
#[cfg(unix)]
mod channels;
#[cfg(unix)]
mod commands;
mod configuration;
mod conversation;
#[cfg(unix)]
mod cron;
#[cfg(unix)]
mod cuts;
#[cfg(unix)]
mod day;
mod doctor;
#[cfg(unix)]
mod documents;
#[cfg(unix)]
mod doors;
#[cfg(unix)]
mod endless;
mod faults;
mod fences;
#[cfg(unix)]
mod gateway;
mod heartbeat;
mod import;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod lifecycle;
mod long_results;
mod memory;
mod models;
#[cfg(unix)]
mod pairing;
#[cfg(unix)]
mod places;
#[cfg(unix)]
mod poison;
#[cfg(unix)]
mod prompt;
mod replay;
mod secrets;
mod session_folders;
mod skills;
#[cfg(unix)]
mod subagents;
mod support;
#[cfg(unix)]
mod telegram;
mod weight;
