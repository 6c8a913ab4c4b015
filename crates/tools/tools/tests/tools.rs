//! Tests of the built-in tools, called through the registry as an agent calls them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up has failed"
)]

#[path = "tools/exec.rs"]
mod exec;
#[path = "tools/exec_corpus.rs"]
mod exec_corpus;
#[path = "tools/exec_sessions.rs"]
mod exec_sessions;
#[path = "tools/files.rs"]
mod files;
#[path = "tools/fixture.rs"]
mod fixture;
#[path = "tools/patch.rs"]
mod patch;
#[path = "tools/path_corpus.rs"]
mod path_corpus;
#[path = "tools/searching.rs"]
mod searching;
#[path = "tools/ssrf.rs"]
mod ssrf;
#[path = "tools/web.rs"]
mod web;
#[path = "tools/web_search.rs"]
mod web_search;
