//! Memory and its search, as configured.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_agent_core::{AudienceLookup, MemorySearchTool, RememberTool, SessionSearchTool};
use nanobot_config::Config;
use nanobot_memory::{MarkdownStore, MemorySettings, MemoryStore as _};
use nanobot_session::SessionPaths;
use nanobot_state::SearchIndex;
use nanobot_tool::{Tool, Typed};

use crate::assembly::prompts;
use crate::{RuntimeError, session_store};

/// File name of the search index, in the data folder.
const INDEX: &str = "index.db";

/// Returns the memory of a configuration's workspace.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the workspace or `memory` cannot be used.
pub fn memory_store(config: &Config) -> Result<MarkdownStore, RuntimeError> {
    let settings: MemorySettings = config.section("memory")?;
    Ok(MarkdownStore::new(config.workspace()?.join("memory")).with_settings(settings))
}

/// Returns the search over the memory and the sessions of a configuration's workspace. Nothing is
/// opened before the first search.
///
/// # Errors
/// Returns the errors of [`memory_store`].
pub fn search_index(config: &Config) -> Result<SearchIndex, RuntimeError> {
    Ok(SearchIndex::new(
        index_file(config),
        memory_store(config)?.folders().clone(),
        session_paths(config)?,
    ))
}

fn index_file(config: &Config) -> PathBuf {
    config.paths().data_dir.join(INDEX)
}

pub(crate) fn session_paths(config: &Config) -> Result<SessionPaths, RuntimeError> {
    let paths = config.paths();
    Ok(SessionPaths::discover(
        &config.workspace()?,
        &paths.data_dir,
        &paths.home,
    ))
}

/// Returns the paths that no file tool may read: the index, which has everyone's words, and, if
/// memory is divided, what is kept for some people only.
pub(crate) fn private_paths(config: &Config) -> Result<Vec<PathBuf>, RuntimeError> {
    let store = memory_store(config)?;
    let mut private = vec![index_file(config)];
    if store.is_divided() {
        private.extend(store.folders().private());
        private.extend(session_paths(config)?.searched());
        private.push(prompts::prompts_folder(config));
        // The logs hold the arguments of everyone's tool calls.
        private.push(config.paths().logs.clone());
    }
    Ok(private)
}

/// Returns the audiences of sessions.
///
/// # Errors
/// Returns the errors of [`memory_store`].
pub(crate) fn audiences(config: &Config) -> Result<AudienceLookup, RuntimeError> {
    Ok(AudienceLookup::new(
        session_store(config)?,
        memory_store(config)?.is_divided(),
    ))
}

/// Returns the search tools, and the `remember` tool if memory is divided.
pub(crate) fn tools(config: &Config) -> Result<Vec<Arc<dyn Tool>>, RuntimeError> {
    let workspace = config.workspace()?;
    let memory = memory_store(config)?;
    let audiences = audiences(config)?;
    let index = Arc::new(search_index(config)?);
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Typed::new(MemorySearchTool::new(
            index.clone(),
            audiences.clone(),
            &workspace,
        ))),
        Arc::new(Typed::new(SessionSearchTool::new(
            index,
            audiences.clone(),
            &workspace,
        ))),
    ];
    if memory.is_divided() {
        tools.push(Arc::new(Typed::new(RememberTool::new(
            Arc::new(memory),
            audiences,
        ))));
    }
    Ok(tools)
}

/// Rolls up and expires old day notes as configured. A failure is logged and tried again the next
/// time.
pub(crate) async fn roll_up_day_notes(memory: &MarkdownStore) {
    match memory
        .apply_retention(chrono::Local::now().date_naive())
        .await
    {
        Ok(tended) => tracing::debug!(tended.rolled_up, tended.expired, "rolled up old day notes"),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "could not roll up old day notes");
        }
    }
}

/// Does the same as [`roll_up_day_notes`] for an assistant that runs without a gateway.
///
/// # Errors
/// Returns the errors of [`memory_store`].
pub(crate) async fn roll_up_without_gateway(config: &Config) -> Result<(), RuntimeError> {
    roll_up_day_notes(&memory_store(config)?).await;
    Ok(())
}
