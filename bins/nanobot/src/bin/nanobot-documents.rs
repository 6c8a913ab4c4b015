//! Reads web pages, mails and PDF for nanobot, which starts it.
//!
//! Decision: the parsers of these formats are in a program of their own. The gateway neither
//! contains nor maps them, and they never share a process with keys and conversations.

use std::io::{self, Write as _};
use std::process::ExitCode;

const ABOUT: &str =
    "nanobot-documents reads web pages, mails and PDF for nanobot, which starts it.";

/// Exit code of a wrong use.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    nanobot_extract::enter(nanobot_formats::read).unwrap_or_else(|| {
        // Without a stderr, the exit code has to be enough.
        drop(writeln!(io::stderr(), "{ABOUT}"));
        ExitCode::from(USAGE)
    })
}
