//! The assistant itself: turns, sessions, lanes.
//!
//! There are three layers, each usable alone. [`TurnEngine`] runs one turn: it alternates between
//! the model and tools until there is a reply. [`Agent`] adds sessions to turns: it reads the log,
//! journals every step, and resumes a turn that a crash interrupted. [`Agent::process_direct`]
//! needs no bus, no configuration file and no channel. [`AgentLoop`] connects an agent to a bus: it
//! routes messages into lanes, runs commands, and publishes replies.
//!
//! `nanobot-replay` runs all of this over a recorded session, offline, and reports where this
//! program diverges from the record.
//!
//! ```
//! use std::sync::Arc;
//!
//! use nanobot_agent_core::{Agent, AgentParts, AgentSettings, DirectRequest};
//! use nanobot_bus::EventFeed;
//! use nanobot_context::{ContextBuilder, ContextSettings};
//! use nanobot_memory::MarkdownStore;
//! use nanobot_provider::{Candidate, Generation, ProviderRouter, RetryPolicy};
//! use nanobot_session::InMemoryStore;
//! use nanobot_tool::Registry;
//! # use nanobot_testkit::{Reply, ScriptedProvider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let workspace = folder.path();
//! # let my_provider = ScriptedProvider::answering(|_| Reply::text("Hello, Ann."));
//! let candidate = Candidate {
//!     provider: Arc::new(my_provider),
//!     model: "any".into(),
//!     generation: Generation::default(),
//! };
//! let memory = Arc::new(MarkdownStore::new(workspace.join("memory")));
//! let parts = AgentParts {
//!     router: Arc::new(ProviderRouter::new([candidate], RetryPolicy::default())),
//!     registry: Arc::new(Registry::new()),
//!     sessions: Arc::new(InMemoryStore::new()),
//!     context: Arc::new(ContextBuilder::new(ContextSettings::new(workspace), memory)),
//!     events: EventFeed::new(),
//! };
//! let agent = Agent::new(parts, AgentSettings::default());
//! let report = agent.process_direct(DirectRequest::new("I am Ann.")).await?;
//! assert_eq!(report.visible.as_deref(), Some("Hello, Ann."));
//! # Ok(())
//! # }
//! ```

mod address;
mod agent;
mod agent_loop;
mod audience;
mod budget;
mod consolidation;
mod engine;
mod error;
mod evidence;
mod locks;
pub mod marks;
mod message_tool;
mod prefix;
mod question;
mod remember_tool;
mod search_tools;
mod signal;
mod subagent;
mod undo;

pub use address::address_of;
pub use agent::{
    Agent, AgentParts, AgentSettings, ContextPart, ContextReport, DirectRequest, ModelMenu,
    SessionReservation, TurnReport, TurnRequest, UsageReport,
};
pub use agent_loop::{
    AgentLoop, Command, CommandContext, CommandReply, CommandTable, CommandTiming,
    DuplicateCommand, HeartbeatFilter, LoopSettings,
};
pub use audience::AudienceLookup;
pub use consolidation::{
    BacklogQuestion, BacklogReport, CompactReport, ConsolidationSettings, NoNotifier, Notifier,
    QuestionOutcome, SummaryProgress, WaitingMessages,
};
pub use engine::{
    AnsweredRequest, EngineReport, Journal, KeptMessage, MAX_MESSAGE_CHARS, RequestObserver,
    Steering, TurnEngine, TurnFacts, TurnIo, TurnOptions, TurnProgress, is_result_file,
    keep_long_message,
};
pub use error::AgentError;
pub use evidence::{StepLog, TurnStep};
pub use message_tool::{MessageTool, Outbox, OutboxError, was_sent_to};
pub use prefix::{Miss, MissEvent, last_miss};
pub use question::OutboxAsker;
pub use remember_tool::{RememberArguments, RememberTool};
pub use search_tools::{MemorySearchTool, SearchArguments, SessionSearchTool};
pub use signal::{Observer, Signal};
pub use subagent::{
    BusSpawner, DirectSpawner, SpawnError, SpawnTool, Spawner, Started, SubagentEnd, SubagentInfo,
    SubagentSettings, SubagentState, SubagentTask, Subagents, is_subagent_session,
};
pub use undo::{UndoReport, redo_last_exchange, undo_last_exchange};
