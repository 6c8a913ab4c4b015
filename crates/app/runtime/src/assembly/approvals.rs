//! Approvals of a home: their file, who is asked, and which texts are private.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_agent_core::{Outbox, OutboxAsker};
use nanobot_approvals::{ApprovalStore, Approvals, PrivateTexts};
use nanobot_config::Config;
use nanobot_redact::Secrets;

use crate::assembly::audit::AuditLog;
use crate::{RuntimeError, memory_store};

/// Maximum number of bytes of one private file that are searched for.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of private files.
const MAX_FILES: usize = 200;
/// Minimum length of a line that counts as private, in characters. Shorter ones occur by chance.
const MIN_LINE: usize = 16;

/// Returns the file of approvals of a home.
#[must_use]
pub fn approval_store(config: &Config) -> ApprovalStore {
    ApprovalStore::at(&config.paths().data_dir.join("approvals.json"))
}

/// Builds the approvals of an assistant. Questions go through `outbox`.
pub(crate) fn approvals(
    config: &Config,
    workspace: &Path,
    outbox: Arc<dyn Outbox>,
    audit: Arc<AuditLog>,
    secrets: &Secrets,
) -> Result<Arc<Approvals>, RuntimeError> {
    let asker = Arc::new(OutboxAsker::new(outbox));
    let private = RememberedTexts {
        profile: workspace.join("USER.md"),
        memory: memory_store(config)?.folders().root().to_owned(),
    };
    let settings = config.section("tools.approvals")?;
    let approvals = Approvals::new(settings, approval_store(config), asker)
        .watched(audit)
        .with_secrets(secrets.clone())
        .guarding(Arc::new(private));
    Ok(Arc::new(approvals))
}

/// The profile of the user and the memory of the assistant.
#[derive(Debug)]
struct RememberedTexts {
    profile: PathBuf,
    memory: PathBuf,
}

impl RememberedTexts {
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.profile.clone()];
        let mut folders = vec![self.memory.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(folder) else {
                continue;
            };
            for entry in entries.flatten() {
                // Links are not followed: a loop would never end.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() && files.len() < MAX_FILES => {
                        files.push(entry.path());
                    }
                    _ => {}
                }
            }
        }
        files
    }
}

impl PrivateTexts for RememberedTexts {
    fn found_in(&self, text: &str) -> Option<String> {
        // Forms of web pages write a blank as a plus sign.
        let spaced = text.replace('+', " ");
        self.files().into_iter().find_map(|file| {
            let lines = Secrets::new(private_lines(&file));
            let repeats = |text: &str| *lines.redact(text) != *text;
            let name = || {
                file.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            };
            (repeats(text) || repeats(&spaced)).then(name).flatten()
        })
    }
}

/// Returns the lines of a file that are long enough to be recognised, without their markup.
fn private_lines(file: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_markup = |c: char| c.is_whitespace() || "#*->_[]()`".contains(c);
    let lines = text.lines().map(|line| line.trim_matches(is_markup));
    lines
        .filter(|line| line.chars().count() >= MIN_LINE)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_lines_are_found_in_any_encoding() {
        let home = tempfile::tempdir().unwrap();
        let memory = home.path().join("memory");
        fs::create_dir(&memory).unwrap();
        let profile = home.path().join("USER.md");
        fs::write(&profile, "# User\n\n- **Name**: Ann Example of Berlin\n").unwrap();
        let fact = "Ann is allergic to peanuts.";
        fs::write(memory.join("MEMORY.md"), format!("- {fact}\n")).unwrap();
        let texts = RememberedTexts { profile, memory };
        let encoded = "https://c.example/?k=Ann%20is%20allergic%20to%20peanuts.";
        for (text, expected) in [
            ("See: Ann is allergic to peanuts. Bye", Some("MEMORY.md")),
            (encoded, Some("MEMORY.md")),
            (
                "https://c.example/?k=Ann+is+allergic+to+peanuts.",
                Some("MEMORY.md"),
            ),
            ("QW5uIGlzIGFsbGVyZ2ljIHRvIHBlYW51dHMu", Some("MEMORY.md")),
            ("Name**: Ann Example of Berlin", Some("USER.md")),
            ("https://weather.example/berlin", None),
            ("Ann", None),
        ] {
            assert_eq!(texts.found_in(text).as_deref(), expected, "{text}");
        }
    }
}
