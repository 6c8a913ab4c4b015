//! Messages that are too long for a request to the gateway.
//!
//! Decision: requests are small, so that clients cannot fill the gateway's memory. A longer message
//! is kept in a file here, where the assistant keeps its long messages, and the gateway gets the
//! short form.

use nanobot_agent_core::{KeptMessage, keep_long_message};
use nanobot_config::Config;
use nanobot_control::REQUEST_LIMIT;

use crate::RuntimeError;
use crate::assembly::path_rules::results_folder;

/// Maximum length of a message that is sent as it is, in bytes: JSON escapes a byte with up to six.
const MAX_SENT: usize = REQUEST_LIMIT / 8;

/// Keeps a message that a request cannot hold; `None` if the request can.
///
/// # Errors
/// Returns [`RuntimeError::Unkept`] if the file cannot be written.
pub(super) async fn for_gateway(
    config: &Config,
    text: &str,
) -> Result<Option<KeptMessage>, RuntimeError> {
    if text.len() <= MAX_SENT {
        return Ok(None);
    }
    let folder = results_folder(config);
    keep_long_message(&folder, text, 0)
        .await
        .map_err(|source| RuntimeError::Unkept {
            path: folder,
            source,
        })
}
