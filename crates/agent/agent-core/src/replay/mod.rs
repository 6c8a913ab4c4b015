//! Runs this program's code over the recorded turns of a session, offline and without effects.
//!
//! Decision: the whole [`Agent`](crate::Agent) runs, engine, registry and journal; only its edges
//! are replaced. The model gives the recorded answers, the tools give the recorded results, people
//! say in the middle of a turn what they said then, and a turn that was stopped or interrupted is
//! stopped or interrupted at the same step. What the agent journals now is compared with what is
//! in the log.
//!
//! It judges what this program does with what it is given, never what a model or a tool would say
//! today. Files of messages are not read, and the words of a failed model call, which are not
//! recorded, are not compared. A restart that left no trace in the log is replayed as if it had
//! not been.

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

use crate::TurnOptions;
use turns::RecordedTurn;

/// Which turns are replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnChoice {
    /// All of them.
    #[default]
    All,
    /// The one with this number, from 1.
    Number(u64),
    /// The one with this id.
    Id(TraceId),
}

/// What is replayed and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// The session the log is of.
    pub session: SessionKey,
    /// Which of its turns.
    pub turns: TurnChoice,
    /// The number of the first turn of the log.
    pub first_turn: u64,
    /// How turns are run. Limits that a recorded turn met, or went beyond, are taken from its
    /// record.
    pub turn_options: TurnOptions,
}

impl ReplayOptions {
    /// All turns of a log that begins with the session, run with the default options.
    pub fn new(session: impl Into<SessionKey>) -> Self {
        Self {
            session: session.into(),
            turns: TurnChoice::All,
            first_turn: 1,
            turn_options: TurnOptions::default(),
        }
    }

    /// The number of the turn with this index in the log.
    fn number(&self, index: usize) -> u64 {
        self.first_turn
            .saturating_add(u64::try_from(index).unwrap_or(u64::MAX))
    }

    fn takes(&self, number: u64, turn: &RecordedTurn<'_>) -> bool {
        match &self.turns {
            TurnChoice::All => true,
            TurnChoice::Number(wanted) => *wanted == number,
            TurnChoice::Id(id) => turn.id() == Some(id),
        }
    }
}

/// What came of replaying one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnReplay {
    /// Its number in the session, from 1.
    pub number: u64,
    /// Its id; `None` when its end is not recorded.
    pub turn: Option<TraceId>,
    /// Recorded steps: its messages and its end.
    pub steps: usize,
    /// Where the journal of now first parts from the record; `None` when they are the same.
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

/// Replays turns of a session. `view` is its log, read from its beginning, or from where the
/// first wanted turn has all it needs; `specs` are the tools there are. A tool that a recorded
/// turn ran and that is not among them takes any arguments.
///
/// No file of the workspace is read, and nothing is written, sent or run. Each turn costs what
/// its model calls cost on this side, so that long conversations take time by the square of their
/// length. Empty when the log has no such turn.
pub async fn replay_session(
    view: &SessionView,
    options: &ReplayOptions,
    specs: &[ToolSpec],
) -> Vec<TurnReplay> {
    let context = Arc::new(no_context());
    let mut replays = Vec::new();
    for (index, turn) in turns::turns(&view.records).into_iter().enumerate() {
        let number = options.number(index);
        if !options.takes(number, &turn) {
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

/// A context without files: its folder is one that nobody has made.
fn no_context() -> ContextBuilder {
    let nowhere = std::env::temp_dir().join(format!("nanobot-replay-{}", uuid::Uuid::new_v4()));
    let memory = Arc::new(MarkdownStore::new(nowhere.join("memory")));
    ContextBuilder::new(ContextSettings::new(nowhere), memory)
}
