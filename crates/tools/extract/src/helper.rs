//! The helper process: the parent's side and the helper's own.

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
use crate::Parser;

/// Name of the program that reads documents for other programs.
pub const PROGRAM: &str = "nanobot-documents";

/// The only argument of a helper. A change of what the two processes exchange changes it, so that a
/// helper of another version ends instead of misreading a request.
const ARGUMENT: &str = "__read-documents-2";

/// Maximum size of a document, in bytes.
const MAX_DOCUMENT: usize = 64 << 20;
/// Maximum size of the metadata of a request or response, in bytes.
const MAX_FACTS: usize = 2 << 20;

/// Set by [`enter`]. Without that call, starting this program again would not start a helper but
/// run the whole program a second time. This is global because it is a property of `main`.
static HAS_ENTRY: AtomicBool = AtomicBool::new(false);

/// Runs the helper if this process was started as one. Call this first in the `main` of
/// [`PROGRAM`], or of a program that is to be its own helper, before arguments are parsed and
/// threads are started.
///
/// In a helper process this serves requests until the pipe is closed, and returns the exit code
/// that `main` has to return. In any other process it returns `None`.
#[must_use]
pub fn enter(parse: Parser) -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|argument| argument == ARGUMENT)
        && arguments.next().is_none()
    {
        return Some(serving::serve(parse));
    }
    HAS_ENTRY.store(true, Ordering::Relaxed);
    None
}
