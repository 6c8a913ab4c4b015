//! Stored prompts of a home: the prompt of each session, and its last prompt-cache miss.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_agent_core::Miss;
use nanobot_config::Config;
use nanobot_context::{FilePromptStore, PromptStore};
use nanobot_types::SessionKey;

/// Returns the folder of stored prompts.
pub(crate) fn prompts_folder(config: &Config) -> PathBuf {
    config.paths().data_dir.join("prompts")
}

/// Returns the prompt store of this home.
pub(crate) fn prompt_notes(config: &Config) -> Arc<dyn PromptStore> {
    Arc::new(FilePromptStore::new(prompts_folder(config)))
}

/// Returns the last request of a session that did not extend the one before it, and why; `None` if
/// no such request is recorded in this home.
pub async fn last_miss(config: &Config, session: &SessionKey) -> Option<Miss> {
    nanobot_agent_core::last_miss(&*prompt_notes(config), session).await
}
