//! `nanobot gateway logs`: shows and follows the gateway's log.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nanobot_runtime::RuntimeBuilder;

use crate::commands::block_on;
use crate::failure::CommandFailure;
use crate::output;
use crate::signals::Signals;

/// Interval between checks for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of bytes that are read from the end of a log.
const MAX_TAIL: u64 = 16 << 20;

/// Prints the last lines, and with `follow` also new ones, until Ctrl-C.
pub(super) fn logs(
    program: &RuntimeBuilder,
    lines: usize,
    follow: bool,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    let path = config.paths().logs.join("gateway.log");
    let unreadable = |error: io::Error| {
        let remedy = "A gateway writes it once it runs: `nanobot gateway`.";
        CommandFailure::new(format!("{}: {error}", path.display()), remedy)
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    for line in last_lines(&mut file, lines).map_err(unreadable)? {
        output::line(&line)?;
    }
    if follow {
        block_on(follow_file(&path, file))
    } else {
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the last lines of a file and leaves it at its end.
fn last_lines(file: &mut File, count: usize) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    let begin = length.saturating_sub(MAX_TAIL);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(length - begin).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines.len().saturating_sub(count);
    Ok(lines.into_iter().skip(kept).map(str::to_owned).collect())
}

/// Prints new lines. Continues with the new file when the log is rotated.
async fn follow_file(path: &Path, file: File) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    loop {
        while reader.read_line(&mut line)? > 0 {
            if line.ends_with('\n') {
                output::line(line.trim_end())?;
                line.clear();
            }
        }
        tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let is_replaced = std::fs::metadata(path).is_ok_and(|now| {
            let position = reader.stream_position().unwrap_or_default();
            now.len() < position
        });
        if is_replaced && let Ok(newer) = File::open(path) {
            reader = BufReader::new(newer);
            line.clear();
        }
    }
}
