//! Replays the recorded turns of a session with this program's code, offline and without effects.
//!
//! Decision: the whole [`Agent`](nanobot_agent_core::Agent) runs, with engine, registry and
//! journal; only its boundaries are replaced. The model gives the recorded answers, the tools give
//! the recorded results, people send the same messages in the middle of a turn, and a turn that was
//! stopped or interrupted is stopped or interrupted at the same step. The new journal is then
//! compared with the log.
//!
//! A replay tests what this program does with its input, never what a model or a tool would say
//! today. Attached files are not read. The text of a failed model call is not recorded and
//! therefore not compared. A restart that left no trace in the log is not replayed.

mod bundle;
mod compare;
mod redact;
mod script;
mod stage;
mod turns;

use std::sync::Arc;

use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_session::SessionView;
use nanobot_types::{SessionKey, ToolSpec, TraceId};

pub use bundle::{Bundle, BundleError};
pub use compare::{Difference, Divergence};
pub use redact::Redactor;

use nanobot_agent_core::TurnOptions;
use turns::RecordedTurn;

/// The turns to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnChoice {
    /// All turns.
    #[default]
    All,
    /// The turn with this number, from 1.
    Number(u64),
    /// The turn with this id.
    Id(TraceId),
}

/// Options of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// The session of the log.
    pub session: SessionKey,
    /// The turns to replay.
    pub turns: TurnChoice,
    /// Number of the first turn in the log.
    pub first_turn: u64,
    /// Options with which turns run. A limit that the recorded turn reached or exceeded is taken
    /// from its record.
    pub turn_options: TurnOptions,
}

impl ReplayOptions {
    /// Creates options for all turns of a log that starts at the beginning of the session, with the
    /// default turn options.
    pub fn new(session: impl Into<SessionKey>) -> Self {
        Self {
            session: session.into(),
            turns: TurnChoice::All,
            first_turn: 1,
            turn_options: TurnOptions::default(),
        }
    }

    /// Returns the number of the turn at `index` in the log.
    fn number(&self, index: usize) -> u64 {
        self.first_turn
            .saturating_add(u64::try_from(index).unwrap_or(u64::MAX))
    }

    fn includes(&self, number: u64, turn: &RecordedTurn<'_>) -> bool {
        match &self.turns {
            TurnChoice::All => true,
            TurnChoice::Number(wanted) => *wanted == number,
            TurnChoice::Id(id) => turn.id() == Some(id),
        }
    }
}

/// The result of replaying one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnReplay {
    /// Number of the turn in the session, from 1.
    pub number: u64,
    /// Id of the turn; `None` if its end is not recorded.
    pub turn: Option<TraceId>,
    /// Number of recorded steps: the messages of the turn and its end.
    pub steps: usize,
    /// The first difference between the new journal and the record; `None` if they are identical.
    pub divergence: Option<Divergence>,
}

impl std::fmt::Display for TurnReplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "turn {}", self.number)?;
        match &self.divergence {
            None => write!(f, ": identical ({} steps)", self.steps),
            Some(divergence) => {
                if let Some(turn) = &self.turn {
                    write!(f, " ({turn})")?;
                }
                write!(f, ": {divergence}")
            }
        }
    }
}

/// Replays turns of a session. `view` is its log, read from the beginning or from the first record
/// that the first chosen turn needs. `specs` are the available tools. A tool that a recorded turn
/// ran and that is not among them accepts any arguments. The result is empty if the log has no such
/// turn.
///
/// No file of the workspace is read, and nothing is written, sent or run. Each turn costs as much
/// as the local part of its model calls, so the time for a long conversation grows with the square
/// of its length.
pub async fn replay_session(
    view: &SessionView,
    options: &ReplayOptions,
    specs: &[ToolSpec],
) -> Vec<TurnReplay> {
    let context = Arc::new(no_context());
    let mut replays = Vec::new();
    for (index, turn) in turns::turns(&view.records).into_iter().enumerate() {
        let number = options.number(index);
        if !options.includes(number, &turn) {
            continue;
        }
        let journal = stage::play(&turn, options, specs, context.clone()).await;
        replays.push(TurnReplay {
            number,
            turn: turn.id().cloned(),
            steps: turn.messages.len() + usize::from(turn.end.is_some()),
            divergence: compare::first_divergence(&turn, &journal),
        });
    }
    replays
}

/// Returns a context without files: its folder does not exist.
fn no_context() -> ContextBuilder {
    let nowhere = std::env::temp_dir().join(format!("nanobot-replay-{}", uuid::Uuid::new_v4()));
    let memory = Arc::new(MarkdownStore::new(nowhere.join("memory")));
    ContextBuilder::new(ContextSettings::new(nowhere), memory)
}
