//! Kills an assistant at random moments, and checks the state that is left.
//!
//! Decision: the program under test is a real process that is killed with SIGKILL. The chat
//! platform and the model are fakes in this process, so they outlive it and record everything.
//! Their observations go into one history file per round. The properties are checked afterwards
//! from that file and from copies of the state on disk after each kill. The only code that the
//! checker shares with the program under test is the reader of its session files.
//!
//! A run is a number of *rounds*. A round is a throw-away home, a seed, and some kills; the seed
//! determines it as far as the timing of processes allows. Other programs can be tested the same
//! way by implementing [`System`].
//!
//! Power loss is not modelled: data written by a killed process is still in the page cache.

mod check;
mod disk;
mod error;
mod evidence;
mod fork;
mod history;
mod nanobot;
mod process;
mod progress;
mod random;
mod report;
mod rest;
mod round;
mod script;
mod stage;
mod suite;
mod system;
mod world;

pub use check::check;
pub use error::SuiteError;
pub use evidence::Evidence;
pub use history::{Continuation, HistoryEvent, read_history};
pub use nanobot::Nanobot;
pub use report::{Property, SuiteFailure, SuiteReport, Tally};
pub use suite::{Options, run};
pub use system::{
    Checkpoint, Endpoints, LedgerState, SessionLog, StateRow, System, SystemStep, ToolAction,
};
