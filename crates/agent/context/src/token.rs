//! How many tokens a request takes, before a vendor counts it.
//!
//! Decision: no vocabulary is shipped. What a tokenizer would say is estimated from the kinds of
//! characters ([`estimate_tokens`]), and every count that comes back from a vendor corrects the
//! estimates of that model and of that session ([`Calibrator`]). The price: the first request of
//! a new model may be off by a quarter, which the reserve of the budget covers.

mod calibration;
mod message;
mod text;

pub use calibration::Calibrator;
pub use message::{estimate_message, estimate_tools};
pub use text::estimate_tokens;
