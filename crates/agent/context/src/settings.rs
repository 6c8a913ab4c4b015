//! What a context is built from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{Local, NaiveDate};
use nanobot_skill::{NoSkills, SkillSource};
use nanobot_types::ToolName;

use crate::{Digest, identity};

/// Whose prompts are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The assistant's: everything that is known about itself, the person and the past.
    #[default]
    Assistant,
    /// Of a subagent, which does one task and talks to nobody: where it works, and the skills.
    Subagent,
}

/// The settings of a [`ContextBuilder`](crate::ContextBuilder).
#[derive(Clone, Debug)]
pub struct ContextSettings {
    /// The workspace, as an absolute path.
    pub workspace: PathBuf,
    /// What the assistant is called.
    pub bot_name: String,
    /// Whose prompts are built.
    pub purpose: Purpose,
    /// Names of the assistant's own tools, for an overview; empty for none.
    pub tools: Vec<ToolName>,
    /// `true` if relative paths of tools start in a folder of the session.
    pub session_folders: bool,
    /// Who knows skills.
    pub skills: Arc<dyn SkillSource>,
    /// How long a session may be silent before its prompt is built anew; by then vendors have
    /// forgotten the old one.
    pub cold_after: Duration,
    /// Most sessions whose prompts are kept; at least 1.
    pub sessions_kept: usize,
    /// Most bytes of rendered images that are kept.
    pub image_cache_bytes: usize,
    /// Which day it is; asked when a prompt is built, for the note of the day.
    pub today: fn() -> NaiveDate,
}

impl ContextSettings {
    /// The settings of a workspace, with the defaults for everything else: no skills,
    /// prompts kept for 256 sessions and an hour of silence, 16 MiB of images.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            bot_name: "nanobot".to_owned(),
            purpose: Purpose::Assistant,
            tools: Vec::new(),
            session_folders: false,
            skills: Arc::new(NoSkills),
            cold_after: Duration::from_secs(3600),
            sessions_kept: 256,
            image_cache_bytes: 16 * 1024 * 1024,
            today: || Local::now().date_naive(),
        }
    }

    /// Of everything that a prompt takes from the settings themselves: when it changes, a prompt
    /// that was built before is not used again.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = Digest::of(identity::identity(self));
        digest.feed(self.skills.configuration().as_bytes());
        digest
    }
}
