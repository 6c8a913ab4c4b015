//! Builds prompts and keeps them per session.

use std::sync::{Arc, Mutex};

use nanobot_memory::MemoryStore;
use nanobot_types::{SessionKey, Transcript};

use crate::image::PictureCache;
use crate::skill::{active_skills, discover_skills, skill_list};
use crate::snapshot::Snapshots;
use crate::{ContextSettings, FrozenPart, Rendered, SystemPrompt, bootstrap, identity, recall, render};

/// Everything a model is told beside the conversation. One per assistant, shared by all turns.
#[derive(Debug)]
pub struct ContextBuilder {
    settings: Arc<ContextSettings>,
    memory: Arc<dyn MemoryStore>,
    snapshots: Snapshots,
    pictures: Arc<Mutex<PictureCache>>,
}

/// What a prompt takes from files.
#[derive(Debug)]
struct Files {
    bootstrap: String,
    active_skills: String,
    skill_list: String,
}

impl ContextBuilder {
    /// A builder for one workspace. Reads nothing yet.
    pub fn new(settings: ContextSettings, memory: Arc<dyn MemoryStore>) -> Self {
        let snapshots = Snapshots::new(settings.sessions_kept, settings.cold_after);
        let pictures = Arc::new(Mutex::new(PictureCache::new(settings.image_cache_bytes)));
        Self { settings: Arc::new(settings), memory, snapshots, pictures }
    }

    /// The prompt of a session: the same value, and so the same bytes, at every call until the
    /// session is renewed, falls silent for [`ContextSettings::cold_after`], or is pushed out by
    /// others. Never fails: what cannot be read is said in the prompt.
    pub async fn system(&self, session: &SessionKey) -> Arc<SystemPrompt> {
        match self.snapshots.warm(session) {
            Some(prompt) => prompt,
            None => self.snapshots.keep(session, self.build().await),
        }
    }

    /// Begins a new epoch for a session, as a reset or a compaction does: its next prompt is
    /// built from what the files say then.
    pub fn renew(&self, session: &SessionKey) {
        self.snapshots.expire(session);
    }

    /// Makes a transcript ready to be sent: images are read from disk and stand before the text
    /// of their message, other files are named in it. The same transcript renders to the same
    /// bytes, except where [`Rendered::images_dropped`] says why not.
    pub async fn render(&self, transcript: Transcript) -> Rendered {
        render::render(transcript, &self.pictures).await
    }

    async fn build(&self) -> SystemPrompt {
        let settings = Arc::clone(&self.settings);
        let files = tokio::task::spawn_blocking(move || read_files(&settings)).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the files of a prompt could not be read");
            let bootstrap = "[The files of the workspace could not be read.]".to_owned();
            Files { bootstrap, active_skills: String::new(), skill_list: String::new() }
        });
        let memory = recall::recall(&*self.memory, (self.settings.today)()).await;
        FrozenPart::new()
            .section("identity", identity::identity(&self.settings.bot_name, &self.settings.workspace))
            .section("bootstrap", files.bootstrap)
            .epoch()
            .section("memory", memory)
            .section("active_skills", files.active_skills)
            .section("skills", files.skill_list)
            .finish()
    }
}

fn read_files(settings: &ContextSettings) -> Files {
    let skills = discover_skills(settings);
    Files {
        bootstrap: bootstrap::bootstrap(&settings.workspace),
        active_skills: active_skills(&skills),
        skill_list: skill_list(&skills),
    }
}
