//! Scripted models, platform fakes and conformance suites: what tests drive the rest with.
//!
//! Fakes speak the real wire on loopback and are as strict as the real thing, so that a client that
//! passes here passes there. Everything a helper cannot do is a [`TestkitError`] that a test unwraps;
//! nothing here asserts, and nothing outside tests depends on it.

mod error;
mod reply;
mod script;
mod sync;

pub mod corpus;
pub mod http;
pub mod model_server;

pub use error::TestkitError;
pub use model_server::ModelServer;
pub use reply::{Reply, ScriptedCall, ScriptedUsage};
pub use sync::WAIT_LIMIT;
