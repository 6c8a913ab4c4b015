//! The loader as a program uses it: a home on disk, an environment, sections of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its assumption fails"
)]

mod corpus;
mod external;
mod home;
mod keys;
mod layers;
mod reports;
mod saving;
mod spelling;
