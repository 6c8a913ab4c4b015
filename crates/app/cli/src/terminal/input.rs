//! The message of a command line: its text, what is piped in, and its files.
//!
//! Decision: a pipe is read until its end, because nothing else says that all of it was read. Then
//! `nanobot agent -m … < /dev/null` is for callers whose standard input stays open. The person is
//! told after a while what the program waits for.

use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nanobot_runtime::TerminalMessage;
use tokio::sync::oneshot;

use crate::failure::CommandFailure;
use crate::output;

/// Maximum size of standard input, in bytes.
const MAX_INPUT: usize = 4 << 20;
/// Time after which the person is told that the program waits for standard input.
const WAITING_NOTICE: Duration = Duration::from_secs(5);

/// The parts of a message.
#[derive(Debug)]
pub(crate) struct MessageInput {
    /// Text of the command line.
    pub(crate) text: Option<String>,
    /// Files to attach.
    pub(crate) files: Vec<PathBuf>,
    /// `true` if standard input belongs to the message.
    pub(crate) reads_input: bool,
}

impl MessageInput {
    /// Reads standard input if it belongs to the message, and joins the parts.
    ///
    /// # Errors
    /// Returns a failure of usage if standard input is too large or cannot be read, or if there is
    /// no text at all.
    pub(super) async fn read(self, is_quiet: bool) -> Result<TerminalMessage, CommandFailure> {
        let piped = match self.reads_input {
            true => standard_input(is_quiet).await,
            false => Ok(String::new()),
        };
        let piped = match (piped, &self.text) {
            (Ok(piped), _) => piped,
            (Err(InputError::TooLarge), _) => {
                return Err(CommandFailure::usage(
                    format!("standard input is larger than {} MiB", MAX_INPUT >> 20),
                    "Save it to a file, and attach that with --file FILE.",
                ));
            }
            // Nothing can be read, for example from a closed descriptor.
            (Err(InputError::Io(error)), Some(_)) => {
                tracing::debug!(%error, "cannot read standard input");
                String::new()
            }
            (Err(InputError::Io(error)), None) => {
                return Err(CommandFailure::usage(
                    format!("cannot read standard input: {error}"),
                    "Give the message with --message TEXT.",
                ));
            }
        };
        let text = join(self.text.as_deref(), &piped);
        if text.trim().is_empty() && self.files.is_empty() {
            return Err(CommandFailure::usage(
                "the message is empty: standard input has no text",
                "Give the message with --message TEXT, or pipe it in.",
            ));
        }
        Ok(TerminalMessage {
            text,
            files: self.files,
        })
    }
}

/// Joins the text of the command line and piped text, which is marked as such.
fn join(text: Option<&str>, piped: &str) -> String {
    let piped = piped.trim_end();
    match text {
        None => piped.to_owned(),
        Some(text) if piped.trim().is_empty() => text.to_owned(),
        Some(text) => format!("{text}\n\n[Standard input:]\n{piped}"),
    }
}

/// Reason why standard input cannot be a message.
#[derive(Debug)]
enum InputError {
    TooLarge,
    Io(io::Error),
}

/// Reads standard input to its end, in a thread that a signal need not wait for.
async fn standard_input(is_quiet: bool) -> Result<String, InputError> {
    let (sender, mut receiver) = oneshot::channel();
    thread::spawn(move || drop(sender.send(read_bounded(io::stdin().lock(), MAX_INPUT))));
    let gone = |_| InputError::Io(io::ErrorKind::UnexpectedEof.into());
    tokio::select! {
        biased;
        read = &mut receiver => return read.map_err(gone)?,
        () = tokio::time::sleep(WAITING_NOTICE), if !is_quiet => {}
    }
    output::note("Reading standard input to its end; without any, add `< /dev/null`.");
    receiver.await.map_err(gone)?
}

/// Reads at most `limit` bytes as text. Invalid UTF-8 is replaced.
fn read_bounded(source: impl Read, limit: usize) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    source
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(InputError::Io)?;
    if bytes.len() > limit {
        return Err(InputError::TooLarge);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_follows_the_message() {
        for (text, piped, expected) in [
            (None, " a\nb \n\n", " a\nb"),
            (Some("explain"), "", "explain"),
            (Some("explain"), " \n", "explain"),
            (
                Some("explain"),
                "a\nb\n",
                "explain\n\n[Standard input:]\na\nb",
            ),
        ] {
            assert_eq!(join(text, piped), expected);
        }
    }

    #[test]
    fn input_is_bounded_and_decoded() {
        assert_eq!(
            read_bounded(&b"\xef\xbb\xbfa\xffb"[..], 9).unwrap(),
            "a\u{fffd}b"
        );
        assert!(matches!(
            read_bounded(io::repeat(b'a'), 9),
            Err(InputError::TooLarge)
        ));
    }
}
