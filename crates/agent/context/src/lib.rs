//! Builds the system prompt and renders messages for a model.
//!
//! Decision: the system prompt holds nothing that changes from turn to turn, and one snapshot of it
//! is kept per session, so that providers can reuse their prompt cache. The clock and the chat come
//! after the newest message ([`runtime_block`]), and images are read from disk into the same bytes
//! at every request ([`ContextBuilder::render`]).
//!
//! This crate also estimates the tokens of a request ([`estimate_tokens`], [`estimate_message`],
//! [`estimate_tools`]), because the same code knows what a request shows.
//!
//! It stores no conversations, and building a prompt never fails: the prompt mentions what cannot
//! be read, so that the model can report it to the user.

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
pub use render::RenderedTranscript;
pub use runtime::{RUNTIME_CLOSE, RUNTIME_OPEN, runtime_block, zone_label};
pub use settings::{ContextSettings, PromptProfile, Purpose};
pub use store::{FilePromptStore, NoPromptStore, PromptRecord, PromptStore};
pub use template::{fill_profile, is_profile_open, sync_templates};
pub use token::{Calibrator, estimate_message, estimate_tokens, estimate_tools};
