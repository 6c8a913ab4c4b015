//! Other programs that the prompt uses: the user's editor, and the terminal's clipboard.

use std::io::{self, Read as _, Write as _};
use std::process::Command;

use base64::Engine as _;

use crate::terminal::edit::MAX_INPUT;

/// Opens `text` in `$VISUAL`, `$EDITOR` or `vi`, and returns what was saved.
///
/// # Errors
/// Returns an error if the editor cannot be started or fails, or if the result is no text or too
/// long.
pub(super) fn edit_text(text: &str) -> io::Result<String> {
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|editor| !editor.is_empty())
        .unwrap_or_else(|| "vi".into());
    // Readable by the owner only, and removed at the end.
    let mut file = tempfile::Builder::new()
        .prefix("nanobot-message-")
        .suffix(".md")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // The variable may hold arguments: `code --wait`. The shell must not stay: Ctrl-C would end it
    // and leave the editor.
    let status = Command::new("sh")
        .arg("-c")
        .arg("exec $NANOBOT_EDITOR \"$1\"")
        .arg("sh")
        .arg(file.path())
        .env("NANOBOT_EDITOR", &editor)
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "{} ended with {status}",
            editor.to_string_lossy()
        )));
    }
    // Editors may replace the file, so it is opened again.
    let mut saved = String::new();
    std::fs::File::open(file.path())?
        .take(MAX_INPUT as u64 + 1)
        .read_to_string(&mut saved)?;
    if saved.len() > MAX_INPUT {
        return Err(io::Error::other(format!(
            "the text is longer than {MAX_INPUT} bytes"
        )));
    }
    Ok(saved.trim_end().to_owned())
}

/// Returns the sequence by which a terminal takes a text into its clipboard (OSC 52).
pub(super) fn clipboard_sequence(text: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    format!("\u{1b}]52;c;{encoded}\u{7}")
}
