//! One binary for all tests of the workspace as a whole.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod layers;
