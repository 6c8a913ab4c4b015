//! Builds system prompts and keeps one per session.

use std::sync::{Arc, Mutex};

use nanobot_memory::{MemoryStore, Scope};
use nanobot_skill::SkillSource;
use nanobot_types::{SessionKey, Transcript};

use crate::image::InspectionCache;
use crate::skill::{active_skills, might_name, named_skills, skill_list, skill_names};
use crate::snapshot::{SnapshotLookup, Snapshots};
use crate::{
    ContextSettings, Epoch, FrozenPart, NoPromptStore, PromptProfile, PromptRecord, PromptStore,
    Purpose, RenderedTranscript, Renewal, Renewed, SessionFacts, SystemPrompt, bootstrap, identity,
    recall, render,
};

/// Maximum length of a conversation summary in the prompt, in characters.
const SUMMARY_LIMIT: usize = 4_000;

/// Builds everything a model receives besides the conversation itself. There is one builder per
/// assistant, shared by all turns.
#[derive(Debug)]
pub struct ContextBuilder {
    settings: Arc<ContextSettings>,
    memory: Arc<dyn MemoryStore>,
    snapshots: Snapshots,
    notes: Arc<dyn PromptStore>,
    pictures: Arc<Mutex<InspectionCache>>,
}

/// The parts of a prompt that are read from files.
#[derive(Debug)]
struct PromptFileParts {
    bootstrap: String,
    active_skills: String,
    skill_list: String,
}

impl ContextBuilder {
    /// Creates a builder for one workspace. Reads nothing yet.
    pub fn new(settings: ContextSettings, memory: Arc<dyn MemoryStore>) -> Self {
        let snapshots = Snapshots::new(
            settings.sessions_kept,
            settings.cold_after,
            settings.digest(),
        );
        let pictures = Arc::new(Mutex::new(InspectionCache::new(settings.image_cache_bytes)));
        Self {
            settings: Arc::new(settings),
            memory,
            snapshots,
            notes: Arc::new(NoPromptStore),
            pictures,
        }
    }

    /// Adds a store, so that sessions keep their prompts across restarts.
    #[must_use]
    pub fn with_store(mut self, notes: Arc<dyn PromptStore>) -> Self {
        self.notes = notes;
        self
    }

    /// Returns the memory that prompts are built from.
    #[must_use]
    pub fn memory(&self) -> &Arc<dyn MemoryStore> {
        &self.memory
    }

    /// Returns the store that keeps prompts across restarts.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn PromptStore> {
        &self.notes
    }

    /// Returns the current prompt of a session without facts from its log; see [`Self::epoch`].
    pub async fn system(&self, session: &SessionKey) -> Arc<SystemPrompt> {
        self.epoch(session, SessionFacts::default()).await.prompt
    }

    /// Returns the prompt of a session: the same value, and so the same bytes, at every call and in
    /// every process until the session is renewed, its conversation starts at another position, its
    /// audience changes, it has been silent for [`ContextSettings::cold_after`], or the settings
    /// change. Never fails: the prompt itself mentions files that cannot be read.
    pub async fn epoch(&self, session: &SessionKey, facts: SessionFacts<'_>) -> Epoch {
        let mut found = self.snapshots.find(session, facts);
        if matches!(found, SnapshotLookup::Nothing)
            && let Some(saved) = self.notes.load(session, PromptRecord::Prompt).await
        {
            self.snapshots.restore(session, &saved);
            found = self.snapshots.find(session, facts);
        }
        let (older, why) = match found {
            SnapshotLookup::Warm(prompt) => {
                return Epoch {
                    prompt,
                    renewed: None,
                };
            }
            SnapshotLookup::Stale(older, why) => (Some(older), why),
            SnapshotLookup::Nothing => (None, Renewal::Unknown),
        };
        let prompt = self
            .snapshots
            .store(session, self.build(facts).await, facts);
        if let Some(content) = self.snapshots.serialized(session) {
            self.notes
                .save(session, PromptRecord::Prompt, content)
                .await;
        }
        let difference = older.and_then(|older| prompt.difference(&older));
        tracing::debug!(%session, ?why, ?difference, "built the prompt of a session");
        Epoch {
            prompt,
            renewed: Some(Renewed { why, difference }),
        }
    }

    /// Begins a new epoch for a session, as a reset or a compaction does: the next prompt is built
    /// from the files as they are then.
    pub fn renew(&self, session: &SessionKey) {
        self.snapshots.expire(session);
    }

    /// Returns the source of the skills that prompts list.
    #[must_use]
    pub fn skills(&self) -> &Arc<dyn SkillSource> {
        &self.settings.skills
    }

    /// Returns the text of the skills that a user's message names by `$name`, to be stored with
    /// that message; `None` if it names no skill that exists and is available.
    pub async fn named_skills(&self, text: &str) -> Option<String> {
        if !might_name(text) {
            return None;
        }
        let (skills, text) = (Arc::clone(&self.settings.skills), text.to_owned());
        let found =
            tokio::task::spawn_blocking(move || named_skills(&text, &skills.skills())).await;
        found.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read the skills that a message names");
            None
        })
    }

    /// Prepares a transcript for sending: images are read from disk and placed before the text of
    /// their message, and other files are mentioned by name. The same transcript renders to the
    /// same bytes, except for the images listed in [`RenderedTranscript::images_dropped`].
    pub async fn render(&self, transcript: Transcript) -> RenderedTranscript {
        render::render(transcript, &self.pictures).await
    }

    async fn build(&self, facts: SessionFacts<'_>) -> SystemPrompt {
        let (settings, profile) = (Arc::clone(&self.settings), facts.profile);
        let files = tokio::task::spawn_blocking(move || read_files(&settings, profile))
            .await
            .unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read the files of a prompt");
                let bootstrap = "[The files of the workspace could not be read.]".to_owned();
                PromptFileParts {
                    bootstrap,
                    active_skills: String::new(),
                    skill_list: String::new(),
                }
            });
        if self.settings.purpose == Purpose::Subagent {
            return FrozenPart::new()
                .section(identity::name(profile), identity::subagent(&self.settings))
                .epoch()
                .section("skills", files.skill_list)
                .finish();
        }
        let today = (self.settings.today)();
        let memory = recall::recall(&*self.memory, &Scope::Shared, today).await;
        let own_memory = recall::own(&*self.memory, facts.audience, today).await;
        let identity = match profile {
            PromptProfile::Full => identity::identity(&self.settings),
            PromptProfile::Lean => identity::lean(&self.settings),
        };
        FrozenPart::new()
            .section(identity::name(profile), identity)
            .section("bootstrap", files.bootstrap)
            .epoch()
            .section("memory", memory)
            .section(recall::OWN, own_memory)
            .section(
                "summary",
                facts.summary.map(summary_section).unwrap_or_default(),
            )
            .section("active_skills", files.active_skills)
            .section("skills", files.skill_list)
            .finish()
    }
}

/// Formats the summary of the messages that are no longer sent, cut at [`SUMMARY_LIMIT`].
fn summary_section(summary: &str) -> String {
    let summary = summary.trim();
    let (shown, more) = match summary.char_indices().nth(SUMMARY_LIMIT) {
        Some((end, _)) => (summary.get(..end).unwrap_or(summary), " […]"),
        None => (summary, ""),
    };
    if shown.is_empty() {
        String::new()
    } else {
        let shown = nanobot_escape::close_external_text(shown);
        format!("# Earlier in This Conversation\n\n{shown}{more}")
    }
}

fn read_files(settings: &ContextSettings, profile: PromptProfile) -> PromptFileParts {
    let skills = settings.skills.skills();
    PromptFileParts {
        bootstrap: bootstrap::bootstrap(&settings.workspace),
        active_skills: active_skills(&skills),
        skill_list: match profile {
            PromptProfile::Full => skill_list(&skills),
            PromptProfile::Lean => skill_names(&skills),
        },
    }
}
