//! Estimates the tokens of a request before a provider counts them.
//!
//! Decision: no tokenizer vocabulary is shipped. The count is estimated from the kinds of
//! characters ([`estimate_tokens`]), and every count that a provider reports corrects the estimates
//! for that model and that session ([`Calibrator`]). The price: the first request to a new model
//! may be off by a quarter, which the budget's reserve covers.

mod calibration;
mod message;
mod text;

pub use calibration::Calibrator;
pub use message::{estimate_message, estimate_tools};
pub use text::estimate_tokens;
