//! Kills an assistant at random moments, and checks what is left.
//!
//! Decision: the program under test is a real process that is killed with SIGKILL; the chat
//! platform and the model are fakes in this process, so they outlive it and remember everything.
//! What they see goes into one history file per round, and the properties are checked afterwards
//! from that file and from copies of what was on disk after each kill. The checker shares no code
//! with the program it judges but the reader of its session files.
//!
//! A run is a number of *rounds*. A round is a throw-away home, a seed, and some kills; it is
//! decided by the seed as far as the timing of processes allows. Other programs are put under the
//! same test by implementing [`System`].
//!
//! It does not model the loss of power: what a killed process wrote is still in the page cache.

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
mod round;
mod script;
mod stage;
mod suite;
mod system;
mod world;

pub use check::check;
pub use error::SuiteError;
pub use evidence::Evidence;
pub use history::{Continuation, Event, read_history};
pub use nanobot::Nanobot;
pub use report::{Failure, Property, Report, Tally};
pub use suite::{Options, run};
pub use system::{Checkpoint, Deed, Endpoints, Row, SessionLog, Standing, Step, System};
