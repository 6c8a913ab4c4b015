//! What looks like a secret, and texts and values without it.
//!
//! Decision: one place knows, because configuration, bundles and logs have to agree on it. Nothing
//! here knows which secrets are in use: a secret is told by its name and by its look.

mod text;
mod value;

pub use text::{KEY_PREFIXES, is_secret_name, without_secrets};
pub use value::{hidden, redacted};

/// What stands in place of a secret.
pub const HIDDEN: &str = "***";
