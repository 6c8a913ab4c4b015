//! The type of secrets, and their redaction in text and JSON values.
//!
//! Decision: the rules are in one crate, because configuration, bundles and logs have to agree on
//! them. [`without_secrets`] recognizes a secret by its name and its pattern, [`Secrets`] by its
//! exact value.

mod exact;
mod secret;
mod text;
mod value;

pub use exact::{SHORTEST, SecretStream, Secrets, is_searched};
pub use secret::{Secret, serialize_exposed};
pub use text::{begins_like_key, is_secret_name, without_issued_keys, without_secrets};
pub use value::{hidden, redacted};

/// Placeholder for a redacted secret.
pub const HIDDEN: &str = "***";
