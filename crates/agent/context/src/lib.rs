//! Builds what a model is told before and around a conversation.
//!
//! Decision: the system prompt holds nothing that changes from turn to turn, and one snapshot of
//! it is kept per session, so that vendors can reuse what they have read. The clock and the chat
//! stand behind the newest message ([`runtime_block`]), and images are read from disk into the
//! same bytes at every request ([`ContextBuilder::render`]).
//!
//! What a request costs is estimated here too ([`estimate_tokens`] and its neighbours), because the
//! same code knows what a request shows.
//!
//! It stores no conversations, and it never fails: what cannot be read is said in the prompt,
//! because the model can tell the person.

mod bootstrap;
mod builder;
mod digest;
mod epoch;
mod error;
mod identity;
mod image;
mod prompt;
mod read;
mod recall;
mod render;
mod runtime;
mod settings;
mod skill;
mod snapshot;
mod store;
mod template;
mod token;

pub use builder::ContextBuilder;
pub use digest::Digest;
pub use epoch::{Epoch, Renewal, Renewed, SessionFacts};
pub use error::ContextError;
pub use prompt::{Difference, EpochPart, FrozenPart, Section, Stability, SystemPrompt};
pub use render::Rendered;
pub use runtime::{RUNTIME_CLOSE, RUNTIME_OPEN, runtime_block, zone_label};
pub use settings::{ContextSettings, Purpose};
pub use store::{NoNotes, Note, PromptFiles, PromptStore};
pub use template::sync_templates;
pub use token::{Calibrator, estimate_message, estimate_tokens, estimate_tools};
