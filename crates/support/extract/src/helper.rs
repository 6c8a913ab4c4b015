//! The helper process: how it is started and asked, and its own side.

mod limits;
mod pool;
mod process;
mod serving;

use std::{
    env,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

pub use self::pool::HelperProcess;

/// The hidden argument under which a program is its own helper.
const ARGUMENT: &str = "__read-documents";

/// The largest document, in bytes.
const MAX_DOCUMENT: usize = 64 << 20;
/// Room for the facts of a request or an answer, in bytes.
const MAX_FACTS: usize = 2 << 20;

/// `true` once [`enter`] was called: then starting this program again starts a helper, and without
/// it would start the whole program a second time. It is a fact about `main`, so it is global.
static HAS_ENTRY: AtomicBool = AtomicBool::new(false);

/// Call this first in `main`, before arguments are parsed and threads started. In a helper process it
/// serves until the pipe is closed and returns the exit code, which `main` then returns. Anywhere
/// else it returns `None`.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|argument| argument == ARGUMENT)
        && arguments.next().is_none()
    {
        return Some(serving::serve());
    }
    HAS_ENTRY.store(true, Ordering::Relaxed);
    None
}
