//! Builds the assistant from its configuration, supervises it, and shuts it down.
//!
//! Decision: this is the only crate that knows names: the key of the configuration that belongs
//! to each part, the shipped platforms and vendors. Binaries on top of it parse arguments and
//! print; everything below it knows nothing of configuration files.
//!
//! A program starts with [`Runtime::builder`], adds its own channels, tools and providers, and
//! hands the [`Runtime`] to a [`Gateway`] or a [`Terminal`]. The crate has four modules, each using
//! those before it: `assembly` makes the parts, `gateway` runs them, `operator` inspects and
//! maintains a home from outside, and `terminal` is the conversation at a prompt.
//!
//! ```
//! use nanobot_runtime::{LoadOptions, Runtime, Status};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # nanobot_runtime::install_tls();
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("config.json");
//! std::fs::write(&file, r#"{"channels": {"websocket": {"enabled": false}}}"#)?;
//! let options = LoadOptions { config: Some(file), ..LoadOptions::default() };
//! let runtime = Runtime::builder(options)
//!     .observer(|event| println!("{event:?}"))
//!     .build()?;
//! let status = Status::of(&runtime, false).await?;
//! assert_eq!(status.channels.len(), 1);
//! # Ok(())
//! # }
//! ```

mod assembly;
mod error;
mod gateway;
mod operator;
mod terminal;

pub use assembly::access::{HomeAccess, Revoked};
pub use assembly::approvals::approval_store;
pub use assembly::audit::{AuditReport, BrokenLine, audit_lines, verify_audit};
pub use assembly::budget::WindowSource;
pub use assembly::cron::JobScheduling;
pub use assembly::extensions::EventObserver;
pub use assembly::first_run::FirstRun;
pub use assembly::load::{LoadOptions, install_tls};
pub use assembly::memory::{memory_store, search_index};
pub use assembly::model::{ModelChoice, ModelSource};
pub use assembly::model_presets::{FallbackModel, ModelPreset};
pub use assembly::older_tasks::OlderTasks;
pub use assembly::paths::{gateway_log, session_store};
pub use assembly::process::{enter, harden_process, tighten};
pub use assembly::prompts::last_miss;
pub use assembly::provider_sections::{ProviderAccess, shell_variables};
pub use assembly::rotating_file::{LogSettings, RotatingFile};
pub use assembly::runtime::{Runtime, RuntimeBuilder};
pub use assembly::sandbox::sandbox_warning;
pub use assembly::secrets::{RedactedWriter, secrets};
pub use assembly::settings::{AgentDefaults, LifecycleNotices, RetentionSettings};
pub use assembly::shipped::shipped_platforms;
pub use assembly::skills::{skills, unagreed_skills};
pub use error::{MAKE_ROOM, RuntimeError, chain, disk_failure, is_disk_failure};
pub use gateway::commands::{command_infos, is_command};
pub use gateway::{Gateway, GatewayEnd};
pub use operator::channel_login::{ChannelLogin, PendingKey};
pub use operator::channel_status::{ChannelReport, Probed, channels_status};
pub use operator::channel_test::{ChannelTest, TestOutcome};
pub use operator::config_edit::{EffectTime, check_edit};
pub use operator::conversations::{
    ConversationFilter, ConversationName, ConversationNameError, ConversationSummary,
    ShownExchange, check_conversation_name, conversation_keys, conversations,
    deleted_conversation_keys, last_exchange, last_reply,
};
pub use operator::doctor;
pub use operator::inbox::Inbox;
pub use operator::mcp::{McpHome, McpReport, McpTest, McpToolReport};
pub use operator::models::{ConfiguredModel, ModelRoute, configured_models, model_route};
pub use operator::onboard::{
    OnboardMode, OnboardPlan, OnboardReport, has_open_profile, onboard, plan_onboarding,
};
pub use operator::provider_login::{ProviderLogin, ProviderLogins};
pub use operator::remote::RemoteGateway;
pub use operator::replay::replay_options;
pub use operator::session_editor::session_editor;
pub use operator::setup::{
    OfferedProvider, ProviderAnswer, ProviderTrial, SetupChoices, configured_provider,
    offered_servers, offered_vendors, platforms, try_provider,
};
pub use operator::spending::{SpendGroup, SpendRow, spending};
pub use operator::status::Status;
pub use operator::tool_files::{ToolFileCall, ToolFilesHome};
pub use operator::update::{Release, UpdateError, latest_release};
pub use terminal::{
    Terminal, TerminalMessage, TerminalOptions, TerminalProgress, TerminalReply, ask, starts_turn,
};

pub use nanobot_agent_core::is_subagent_session;
pub use nanobot_approvals::{ApprovalError, ApprovalStore, Grant, GrantId, OpenQuestion};
pub use nanobot_bus as bus;
pub use nanobot_channel::{Credential, SendRecovery, SignInPrompt, async_trait};
pub use nanobot_channels::{
    AccessNotice, AccessRules, PairingError, PairingStore, Pairings, PendingPairing, Person, Weight,
};
pub use nanobot_control::{
    ChannelState, GatewayInfo, SessionEditError, SessionEditor, SubagentName, TerminalEvent,
    UndoneExchange,
};
pub use nanobot_cron as jobs;
pub use nanobot_memory as memory;
pub use nanobot_redact::{Secrets, without_secrets};
pub use nanobot_replay::{Bundle, Redactor, TurnChoice, TurnReplay, replay_session};
pub use nanobot_session as session;
pub use nanobot_skills::{
    Blocker, Consent, ConsentPlan, InstallEffect, InstallPlan, Package, Skill, SkillEntry,
    SkillFinding, SkillOrigin, SkillStatus, Skills, SkillsError,
};
pub use nanobot_tool_files::{ToolFileState, ToolFileStatus};
pub use nanobot_types as types;

use assembly::paths::{control_socket, ledger_durability};
