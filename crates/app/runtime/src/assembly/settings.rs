//! Sections of the configuration that belong to no other crate.

use std::path::PathBuf;

use nanobot_agent_core::TurnOptions;
use nanobot_context::PromptProfile;
use nanobot_provider::Generation;
use nanobot_session::Durability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assembly::model_presets::FallbackModel;

/// `agents.defaults.promptProfile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptProfileSetting {
    /// Lean in a small window.
    #[default]
    Auto,
    /// All sections and tools.
    Full,
    /// For small models and windows.
    Lean,
}

impl PromptProfileSetting {
    /// Returns the profile of all prompts; `None` if it depends on the window.
    pub(crate) fn fixed(self) -> Option<PromptProfile> {
        match self {
            Self::Auto => None,
            Self::Full => Some(PromptProfile::Full),
            Self::Lean => Some(PromptProfile::Lean),
        }
    }
}

/// `agents.defaults`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentDefaults {
    /// The user's folder: memory, sessions, skills, prompt files. `~/.nanobot` means the home,
    /// wherever that is.
    pub workspace: String,
    /// The model, optionally with its provider (`anthropic/claude-opus-4-5`). If it is empty, the
    /// usual model of the vendor whose key is set.
    pub model: String,
    /// The provider of the model, by its name under `providers`; `auto` selects it by the model.
    pub provider: String,
    /// Name of the preset of `modelPresets` to use in place of `model` and its settings.
    pub model_preset: Option<String>,
    /// Models that are asked in this order if the first one fails: names of presets, models with
    /// their provider, or objects as in `modelPresets`.
    pub fallback_models: Vec<FallbackModel>,
    /// Maximum tokens of one response.
    #[schemars(range(min = 1))]
    pub max_tokens: u32,
    /// Context window of the model, in tokens; 0 is no limit. If it is not set, the model's known
    /// window is used.
    pub context_window_tokens: i64,
    /// Number of messages after which a conversation is summarised, if no token window is set.
    pub memory_window: Option<u32>,
    /// Extent of prompts: `full`, or `lean` for small models and windows, with the tools for files,
    /// shell and web listed, the others found by `tool_search`, and skills by name. `auto` is lean
    /// in a window of at most 8,192 tokens.
    pub prompt_profile: PromptProfileSetting,
    /// Summarises messages that do not fit into the window into memory.
    pub consolidate: bool,
    /// Maximum number of requests for a summary without asking first. Only a long conversation that
    /// was never summarised needs more, such as an imported one.
    #[schemars(range(min = 1))]
    pub max_unasked_summary_requests: u32,
    /// Sampling temperature. A local server gets it only if it is set, and uses the model's own
    /// otherwise.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Maximum number of model calls in one turn.
    #[schemars(range(min = 1))]
    pub max_tool_iterations: u32,
    /// Effort of reasoning models, such as `low`, `medium` or `high`. Without the key, the vendor
    /// decides.
    pub reasoning_effort: Option<String>,
    /// Maximum characters of a tool result that the model reads.
    #[schemars(range(min = 1))]
    pub max_tool_result_chars: usize,
    /// Maximum number of concurrent turns; 0 is no limit.
    pub max_concurrent_turns: usize,
    /// Maximum number of concurrent subagents, over all sessions; 0 removes the `spawn` tool.
    pub max_concurrent_subagents: usize,
    /// Maximum number of model calls of one subagent.
    #[schemars(range(min = 1))]
    pub max_subagent_iterations: u32,
    /// Runs pure tools of one response in parallel.
    pub parallel_tools: bool,
    /// Runs tool calls that a model writes into its text.
    pub parse_calls_from_text: bool,
    /// The time zone of jobs, as an IANA name, if `cron.timezone` is not set.
    pub timezone: Option<String>,
    /// Puts the severity of a failed result before its text.
    pub include_severity: bool,
    /// Leaves old results out of requests in the middle of a turn that exceeds its budget.
    pub compact_after_tools: bool,
    /// Name of the assistant.
    pub bot_name: String,
    /// Names of disabled skills; the same as `skills.disabled`.
    pub disabled_skills: Vec<String>,
}

impl Default for AgentDefaults {
    fn default() -> Self {
        Self {
            workspace: "~/.nanobot/workspace".to_owned(),
            model: String::new(),
            provider: "auto".to_owned(),
            model_preset: None,
            fallback_models: Vec::new(),
            max_tokens: 8192,
            context_window_tokens: 65_536,
            memory_window: None,
            prompt_profile: PromptProfileSetting::Auto,
            consolidate: true,
            max_unasked_summary_requests: 8,
            temperature: 0.1,
            max_tool_iterations: 40,
            reasoning_effort: None,
            max_tool_result_chars: 16_000,
            max_concurrent_turns: 256,
            max_concurrent_subagents: 4,
            max_subagent_iterations: 15,
            parallel_tools: false,
            parse_calls_from_text: false,
            timezone: None,
            include_severity: false,
            compact_after_tools: true,
            bot_name: "nanobot".to_owned(),
            disabled_skills: Vec::new(),
        }
    }
}

impl AgentDefaults {
    /// Returns the options of turns, without the token budget.
    pub(crate) fn turn_options(&self) -> TurnOptions {
        TurnOptions {
            parse_calls_from_text: self.parse_calls_from_text,
            include_severity: self.include_severity,
            compact_after_tools: self.compact_after_tools,
            parallel_tool_exec: self.parallel_tools,
            max_iterations: self.max_tool_iterations.max(1),
            max_result_chars: self.max_tool_result_chars.max(1),
            ..TurnOptions::default()
        }
    }

    /// Returns the options of turns of subagents, without the token budget.
    pub(crate) fn subagent_options(&self) -> TurnOptions {
        TurnOptions {
            max_iterations: self.max_subagent_iterations.max(1),
            ..self.turn_options()
        }
    }

    /// Returns the parameters of generation.
    pub(crate) fn generation(&self) -> Generation {
        Generation {
            max_tokens: self.max_tokens.max(1),
            temperature: Some(self.temperature as f32),
            reasoning_effort: self.reasoning_effort.clone(),
        }
    }
}

/// `sessions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionsConfig {
    /// Durability of an accepted message and a recorded step: `disk` survives a power cut, `os` a
    /// crash of the process.
    #[schemars(with = "String", extend("enum" = ["disk", "os"]))]
    pub durability: Durability,
}

/// `skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SkillsConfig {
    /// Read-only folders of skills, in addition to the workspace's own.
    pub library_dirs: Vec<PathBuf>,
    /// Names of skills of the workspace that may be in every prompt.
    pub always: Vec<String>,
    /// Names of disabled skills, wherever they are.
    pub disabled: Vec<String>,
}

/// `channels.lifecycleNotices`: chats that are notified of channels that are down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleNotices {
    /// Chats that are notified, as `channel:chat`. An empty list sends no notices.
    #[serde(alias = "tell")]
    pub tell: Vec<String>,
    /// Minutes that a channel is down before a notice is sent.
    #[serde(alias = "after_minutes")]
    pub after_minutes: u64,
}

impl Default for LifecycleNotices {
    fn default() -> Self {
        Self {
            tell: Vec::new(),
            after_minutes: 5,
        }
    }
}

/// `update`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdateSettings {
    /// The https URL of the release feed that `nanobot update --check` reads; without it, nothing
    /// is requested. The newest release of a project on GitHub or Gitea is such a feed, as is an
    /// object with `version`, `url` and `notes`.
    pub feed: Option<String>,
}

/// `retention`: days after which data is removed; 0 keeps it for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionSettings {
    /// Days that settled messages stay in the ledger, which also serve to recognise duplicates; 0
    /// keeps them for ever.
    pub ledger_days: u32,
    /// Days that files of messages are kept; 0 keeps them for ever.
    pub media_days: u32,
    /// Days that rotated logs are kept; 0 keeps them for ever.
    pub log_days: u32,
    /// Days that sessions of subagents are kept; 0 keeps them for ever.
    pub subagent_days: u32,
    /// Days that results of tools that were too long for a prompt are kept; 0 keeps them for ever.
    pub tool_result_days: u32,
    /// Days that stored prompts of sessions are kept; 0 keeps them for ever. A session without its
    /// stored prompt misses the prompt cache once.
    pub prompt_days: u32,
    /// Deleted sessions, which can be restored until then.
    pub deleted_session_days: u32,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            ledger_days: 30,
            media_days: 30,
            log_days: 14,
            subagent_days: 30,
            tool_result_days: 30,
            prompt_days: 30,
            deleted_session_days: 30,
        }
    }
}
