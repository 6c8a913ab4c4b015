//! What prompts leave behind in a home: which one each session has, and where its prefix broke
//! last.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_agent_core::Miss;
use nanobot_config::Config;
use nanobot_context::{PromptFiles, PromptStore};
use nanobot_types::SessionKey;

/// The folder of it.
pub(crate) fn prompts_folder(config: &Config) -> PathBuf {
    config.paths().data_dir.join("prompts")
}

/// What is kept of prompts in this home.
pub(crate) fn prompt_notes(config: &Config) -> Arc<dyn PromptStore> {
    Arc::new(PromptFiles::new(prompts_folder(config)))
}

/// Where a request of a session last did not begin with the one before it, and why; `None` when
/// none did, as far as this home remembers.
pub async fn last_miss(config: &Config, session: &SessionKey) -> Option<Miss> {
    nanobot_agent_core::last_miss(&*prompt_notes(config), session).await
}
