//! Sections of the configuration that belong to no other crate.

use std::path::PathBuf;

use nanobot_agent_core::TurnOptions;
use nanobot_provider::Generation;
use nanobot_session::Durability;
use serde::{Deserialize, Serialize};

/// `agents.defaults`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentDefaults {
    /// The user's folder. In the default, `~/.nanobot` means the home, wherever that is.
    pub workspace: String,
    /// The model.
    pub model: String,
    /// Its provider, or `auto`.
    pub provider: String,
    /// Maximum tokens of one response.
    pub max_tokens: u32,
    /// Context window of the model, in tokens; 0 is no limit. If it is not set, the model's known
    /// window is used.
    pub context_window_tokens: i64,
    /// Number of messages after which a conversation is summarised, if no token window is set.
    pub memory_window: Option<u32>,
    /// Set when messages that do not fit into the window are summarised into memory.
    pub consolidate: bool,
    /// Sampling temperature.
    pub temperature: f32,
    /// Maximum number of model calls in one turn.
    pub max_tool_iterations: u32,
    /// `low`, `medium`, `high`, or not set.
    pub reasoning_effort: Option<String>,
    /// Maximum characters of a tool result that the model reads.
    pub max_tool_result_chars: usize,
    /// Maximum number of concurrent turns; 0 is no limit.
    pub max_concurrent_turns: usize,
    /// Maximum number of concurrent subagents, over all sessions; 0 removes the `spawn` tool.
    pub max_concurrent_subagents: usize,
    /// Maximum number of model calls of one subagent.
    pub max_subagent_iterations: u32,
    /// Set when pure tools of one response run in parallel.
    pub parallel_tools: bool,
    /// Set when tool calls that a model writes into its text are run.
    pub parse_calls_from_text: bool,
    /// The time zone of jobs if `cron.timezone` is not set.
    pub timezone: Option<String>,
    /// Set when the severity of a failed result is put before its text.
    pub include_severity: bool,
    /// Set when old results are left out of requests in the middle of a turn that exceeds its
    /// budget.
    pub compact_after_tools: bool,
    /// Name of the assistant.
    pub bot_name: String,
    /// Disabled skills; the same as `skills.disabled`.
    pub disabled_skills: Vec<String>,
}

impl Default for AgentDefaults {
    fn default() -> Self {
        Self {
            workspace: "~/.nanobot/workspace".to_owned(),
            model: "anthropic/claude-opus-4-5".to_owned(),
            provider: "auto".to_owned(),
            max_tokens: 8192,
            context_window_tokens: 65_536,
            memory_window: None,
            consolidate: true,
            temperature: 0.1,
            max_tool_iterations: 40,
            reasoning_effort: None,
            max_tool_result_chars: 16_000,
            max_concurrent_turns: 32,
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
            temperature: Some(self.temperature),
            reasoning_effort: self.reasoning_effort.clone(),
        }
    }
}

/// `sessions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionsConfig {
    /// Durability of an accepted message and a recorded step: `disk` survives a power cut, `os` a
    /// crash of the process.
    pub durability: Durability,
}

/// `skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SkillsConfig {
    /// Read-only folders of skills, in addition to the workspace's own.
    pub library_dirs: Vec<PathBuf>,
    /// Skills of the workspace that may be in every prompt.
    pub always: Vec<String>,
    /// Disabled skills, wherever they are.
    pub disabled: Vec<String>,
}

/// `channels.lifecycleNotices`: chats that are notified of channels that are down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleNotices {
    /// Chats as `channel:chat`. Empty sends no notices.
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

/// `retention`: days after which data is removed; 0 keeps it for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionSettings {
    /// Settled messages in the ledger, which also serve to recognise duplicates.
    pub ledger_days: u32,
    /// Files that came with messages.
    pub media_days: u32,
    /// Rotated logs.
    pub log_days: u32,
    /// Sessions that subagents worked in.
    pub subagent_days: u32,
    /// Results of tools that were too long for a prompt.
    pub tool_result_days: u32,
    /// Stored prompts of sessions. A session without its stored prompt misses the prompt cache
    /// once.
    pub prompt_days: u32,
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
        }
    }
}
