//! The promises about tool files, in the real sandbox.
#![cfg(target_os = "linux")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and say what they counted or skipped"
)]

mod calls;
mod changes;
mod corpus;
mod definitions;
mod fixture;
mod programs;
