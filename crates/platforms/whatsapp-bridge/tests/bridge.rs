//! The bridge with shell scripts in place of Node.js, npm and the package; and once with the real
//! ones.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

#[path = "bridge/fixture.rs"]
mod fixture;
#[path = "bridge/install.rs"]
mod install;
#[path = "bridge/orphan.rs"]
mod orphan;
#[path = "bridge/process.rs"]
mod process;
#[path = "bridge/real.rs"]
mod real;
#[path = "bridge/start.rs"]
mod start;
