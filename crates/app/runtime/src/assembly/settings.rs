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
    /// The folder of everything a person owns; `~/.nanobot` is the home, wherever that is.
    pub workspace: String,
    /// The model.
    pub model: String,
    /// Its provider, or `auto`.
    pub provider: String,
    /// Most tokens of one answer.
    pub max_tokens: u32,
    /// Tokens that fit into the model's window; 0 is no limit. Where nothing is set, what is known
    /// about the model counts.
    pub context_window_tokens: i64,
    /// Messages beyond which a conversation is summarised, where no window of tokens is set.
    pub memory_window: Option<u32>,
    /// Whether what does not fit into the window is summarised into memory.
    pub consolidate: bool,
    /// Randomness.
    pub temperature: f32,
    /// Most model calls of one turn.
    pub max_tool_iterations: u32,
    /// `low`, `medium`, `high`, or nothing.
    pub reasoning_effort: Option<String>,
    /// Most characters of a tool's result that the model reads.
    pub max_tool_result_chars: usize,
    /// Turns that run at the same time; 0 is no limit.
    pub max_concurrent_turns: usize,
    /// Subagents that work at the same time, those of all sessions together; 0 takes the tool away
    /// that starts them.
    pub max_concurrent_subagents: usize,
    /// Most model calls of one subagent.
    pub max_subagent_iterations: u32,
    /// Whether pure tools of one answer run beside each other.
    pub parallel_tools: bool,
    /// Whether calls that a model writes into its text are run.
    pub parse_calls_from_text: bool,
    /// The time zone of jobs where `cron.timezone` names none.
    pub timezone: Option<String>,
    /// Puts the severity of a failed result before its text.
    pub include_severity: bool,
    /// Leaves old results out of requests in the middle of a turn that outgrows its budget.
    pub compact_after_tools: bool,
    /// What the assistant is called.
    pub bot_name: String,
    /// Skills that are not used; the same as `skills.disabled`.
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
    /// How turns are run, but for what fits into a request.
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

    /// How turns of subagents are run.
    pub(crate) fn subagent_options(&self) -> TurnOptions {
        TurnOptions {
            max_iterations: self.max_subagent_iterations.max(1),
            ..self.turn_options()
        }
    }

    /// How models generate.
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
    /// What an accepted message and a recorded step survive: `disk` a power cut, `os` a crash of the
    /// process.
    pub durability: Durability,
}

/// `skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SkillsConfig {
    /// Read-only folders of skills beside the workspace's own.
    pub library_dirs: Vec<PathBuf>,
    /// Skills of the workspace that may stand in every prompt.
    pub always: Vec<String>,
    /// Skills that are not used, wherever they are.
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

/// `retention`: days after which things are removed; 0 keeps them for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionSettings {
    /// Settled messages in the ledger, which also recognise a repeated message.
    pub ledger_days: u32,
    /// Files that came with messages.
    pub media_days: u32,
    /// Rotated logs.
    pub log_days: u32,
    /// Sessions that subagents worked in.
    pub subagent_days: u32,
    /// Results of tools that were too long for a prompt.
    pub tool_result_days: u32,
    /// Stored prompts of sessions; without its own, the next request of a session misses the cache.
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
