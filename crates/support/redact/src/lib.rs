//! What looks like a secret, and texts and values without it.
//!
//! Decision: one place knows, because configuration, bundles and logs have to agree on it. A secret
//! is recognised by its name and its look, and [`Secrets`] by their exact values.

mod exact;
mod text;
mod value;

pub use exact::{SHORTEST, SecretStream, Secrets};
pub use text::{KEY_PREFIXES, is_secret_name, without_secrets};
pub use value::{hidden, redacted};

/// What stands in place of a secret.
pub const HIDDEN: &str = "***";
