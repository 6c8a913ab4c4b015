//! The clients against a scripted model server, the fault corpus, and the demo model.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failing test may panic, and says where"
)]

#[path = "providers/anthropic.rs"]
mod anthropic;
#[path = "providers/corpus.rs"]
mod corpus;
#[path = "providers/demo.rs"]
mod demo;
#[path = "providers/discover.rs"]
mod discover;
#[path = "providers/local_window.rs"]
mod local_window;
#[path = "providers/openai.rs"]
mod openai;
#[path = "providers/prefix.rs"]
mod prefix;
#[path = "providers/responses.rs"]
mod responses;
#[path = "providers/rows.rs"]
mod rows;
#[path = "providers/settings.rs"]
mod settings;
#[path = "providers/sign_in.rs"]
mod sign_in;
#[path = "providers/speech.rs"]
mod speech;
#[path = "providers/support.rs"]
mod support;
