//! Settings of a context builder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{Local, NaiveDate};
use nanobot_skill::{NoSkills, SkillSource};
use nanobot_types::ToolName;

/// Kind of agent a prompt is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The assistant: its identity, everything known about the user, and the past.
    #[default]
    Assistant,
    /// A subagent, which does one task and talks to no one: only its workspace and the skills.
    Subagent,
}

/// Extent of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptProfile {
    /// All sections.
    #[default]
    Full,
    /// For a small window: fewer guidelines, and only the names of skills.
    Lean,
}

/// The settings of a [`ContextBuilder`](crate::ContextBuilder).
#[derive(Clone, Debug)]
pub struct ContextSettings {
    /// The workspace, as an absolute path.
    pub workspace: PathBuf,
    /// Name of the assistant.
    pub bot_name: String,
    /// Kind of agent the prompts are built for.
    pub purpose: Purpose,
    /// Names of the assistant's own tools, for an overview in the prompt; empty for no overview.
    pub tools: Vec<ToolName>,
    /// Those of them that a request with a lean prompt lists.
    pub core_tools: Vec<ToolName>,
    /// `true` if relative paths of tools start in a per-session folder.
    pub session_folders: bool,
    /// Source of the skills.
    pub skills: Arc<dyn SkillSource>,
    /// Silence after which a session's prompt is rebuilt; by then providers' caches of it have
    /// expired.
    pub cold_after: Duration,
    /// Maximum number of sessions whose prompts are kept in memory; at least 1.
    pub sessions_kept: usize,
    /// Maximum size of the cache of rendered images, in bytes.
    pub image_cache_bytes: usize,
    /// Returns the current date; called when a prompt is built, for the day's note.
    pub today: fn() -> NaiveDate,
}

impl ContextSettings {
    /// Returns the settings of a workspace, with defaults for the rest: no skills, prompts kept for
    /// 256 sessions and one hour of silence, and 16 MiB of images.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            bot_name: "nanobot".to_owned(),
            purpose: Purpose::Assistant,
            tools: Vec::new(),
            core_tools: Vec::new(),
            session_folders: false,
            skills: Arc::new(NoSkills),
            cold_after: Duration::from_secs(3600),
            sessions_kept: 256,
            image_cache_bytes: 16 * 1024 * 1024,
            today: || Local::now().date_naive(),
        }
    }
}
