//! Behaviour of the built-in tools, called the way an agent calls them: through the registry.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up has failed"
)]

#[path = "tools/exec.rs"]
mod exec;
#[path = "tools/exec_corpus.rs"]
mod exec_corpus;
#[path = "tools/files.rs"]
mod files;
#[path = "tools/fixture.rs"]
mod fixture;
#[path = "tools/web.rs"]
mod web;
