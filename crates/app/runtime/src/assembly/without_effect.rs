//! Settings that are readable but have no effect, because a part that would use them cannot.
//!
//! Decision: they are warnings, not errors. Nothing that works depends on them, and the part itself
//! notices them only when it is needed.

use nanobot_config::Config;

use crate::RuntimeError;
use crate::assembly::channels::LIFECYCLE_NOTICES;
use crate::assembly::settings::LifecycleNotices;
use crate::assembly::transcription;

/// Returns a message for each setting without effect.
pub(crate) fn settings_without_effect(config: &Config) -> Result<Vec<String>, RuntimeError> {
    let key = format!("channels.{LIFECYCLE_NOTICES}");
    let notices: LifecycleNotices = config.section(&key)?;
    let is_malformed = |chat: &&String| match chat.split_once(':') {
        Some((channel, chat)) => channel.is_empty() || chat.is_empty(),
        None => true,
    };
    let malformed = notices.tell.iter().filter(is_malformed);
    let mut found: Vec<String> = malformed
        .map(|chat| format!("{key}.tell: {chat:?} gets no notices: write it as channel:chat"))
        .collect();
    found.extend(transcription::problem(config)?);
    Ok(found)
}
