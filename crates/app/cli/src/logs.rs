//! The log: text or JSON on standard error, and a bounded file for the gateway.
//!
//! Decision: a filter in `RUST_LOG` replaces the default one, by which the program's own crates log
//! in detail and others only warn. The filter names targets and levels (`warn,nanobot=debug`);
//! filters by spans and fields would bring regular expressions into a program that needs none.
//!
//! One library is always silent: it logs whole model responses that it cannot parse, and the
//! content of conversations must not be in a log.

use std::io;
use std::sync::Mutex;

use nanobot_runtime::{RedactedWriter, RotatingFile, Secrets};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::{self, Palette};

/// Log target of the library that logs contents.
const SILENT: &str = "async_openai";

/// Level of detail of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// For operators.
    Usual,
    /// For developers.
    Full,
}

fn filter(detail: Detail) -> Targets {
    let configured = std::env::var("RUST_LOG")
        .ok()
        .filter(|configured| !configured.trim().is_empty());
    let configured = configured.and_then(|configured| configured.parse::<Targets>().ok());
    let ours = || {
        let level = match detail {
            Detail::Usual => LevelFilter::INFO,
            Detail::Full => LevelFilter::DEBUG,
        };
        Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("nanobot", level)
    };
    configured
        .unwrap_or_else(ours)
        .with_target(SILENT, LevelFilter::OFF)
}

/// Logs to standard error for the rest of the process.
pub(crate) fn to_stderr(secrets: &Secrets, detail: Detail) {
    output::hide(secrets);
    let secrets = secrets.clone();
    let writer = move || RedactedWriter::new(EscapingWriter::text(io::stderr()), secrets.clone());
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(is_coloured());
    tracing_subscriber::registry()
        .with(layer.with_filter(filter(detail)))
        .init();
}

/// Logs to standard error and to a file for the rest of the process.
///
/// # Errors
/// Returns an error if the file cannot be opened; no log is set up then.
pub(crate) fn of_gateway(
    mut file: RotatingFile,
    secrets: &Secrets,
    detail: Detail,
    json: bool,
) -> io::Result<()> {
    output::hide(secrets);
    file.open()?;
    let file = Mutex::new(RedactedWriter::new(
        EscapingWriter::text(file),
        secrets.clone(),
    ));
    let to_file = tracing_subscriber::fmt::layer()
        .with_writer(file)
        .with_ansi(false);
    let secrets = secrets.clone();
    let layer = tracing_subscriber::fmt::layer();
    let shown = if json {
        let writer =
            move || RedactedWriter::new(EscapingWriter::json(io::stderr()), secrets.clone());
        layer.json().with_writer(writer).boxed()
    } else {
        let writer =
            move || RedactedWriter::new(EscapingWriter::text(io::stderr()), secrets.clone());
        layer.with_writer(writer).with_ansi(is_coloured()).boxed()
    };
    tracing_subscriber::registry()
        .with(to_file.with_filter(filter(detail)))
        .with(shown.with_filter(filter(detail)))
        .init();
    Ok(())
}

/// Escapes hidden characters in a log. The subscriber writes each line at once, and has already
/// escaped control characters.
struct EscapingWriter<W> {
    writer: W,
    escape: fn(&str) -> String,
}

impl<W> EscapingWriter<W> {
    fn text(writer: W) -> Self {
        Self {
            writer,
            escape: nanobot_escape::visible,
        }
    }

    fn json(writer: W) -> Self {
        Self {
            writer,
            escape: nanobot_escape::visible_json,
        }
    }
}

impl<W: io::Write> io::Write for EscapingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.writer
            .write_all((self.escape)(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn is_coloured() -> bool {
    Palette::of_errors() == Palette::Colours
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped_in_logs() {
        let mut text = EscapingWriter::text(Vec::new());
        text.write_all("name=\u{202e}gpj.exe\n".as_bytes()).unwrap();
        assert_eq!(text.writer, b"name=\\u{202e}gpj.exe\n");
        let mut json = EscapingWriter::json(Vec::new());
        json.write_all("{\"name\":\"\u{202e}\"}\n".as_bytes())
            .unwrap();
        assert_eq!(json.writer, b"{\"name\":\"\\u202e\"}\n");
    }
}
