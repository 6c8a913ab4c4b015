//! Reads the workspace files that shape the assistant (`AGENTS.md`, `SOUL.md`, …) for the prompt.

use std::path::Path;

use crate::read::read_text;
use crate::template::is_untouched;

/// Bootstrap files in prompt order. All but the last come with the workspace template.
const FILES: [&str; 5] = ["AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "IDENTITY.md"];

/// Maximum size of one file in the prompt, in bytes.
const FILE_LIMIT: usize = 16 * 1024;

/// File that is left out while it is still the unfilled template: an empty form says nothing.
const FORM: &str = "USER.md";

/// Returns the contents of the files that exist, each under a heading with its name.
pub(crate) fn bootstrap(workspace: &Path) -> String {
    let parts: Vec<String> = FILES
        .iter()
        .filter_map(|name| part(workspace, name))
        .collect();
    parts.join("\n\n")
}

fn part(workspace: &Path, name: &str) -> Option<String> {
    let path = workspace.join(name);
    let content = match read_text(&path, FILE_LIMIT) {
        Ok(None) => return None,
        Ok(Some(excerpt)) if excerpt.cut => {
            tracing::warn!(path = %path.display(), limit = FILE_LIMIT, "workspace file is too large for the prompt; truncated");
            format!(
                "{}\n\n[{name} goes on; read the rest with read_file.]",
                excerpt.text.trim()
            )
        }
        Ok(Some(excerpt)) if name == FORM && is_untouched(name, &excerpt.text) => return None,
        Ok(Some(excerpt)) => excerpt.text.trim().to_owned(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read workspace file");
            format!("[{name} could not be read: {error}]")
        }
    };
    (!content.is_empty()).then(|| format!("## {name}\n\n{content}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_files_are_ordered_and_errors_shown() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            std::fs::write(directory.path().join(name), content).unwrap();
        };
        assert_eq!(bootstrap(directory.path()), "");

        write("IDENTITY.md", b"five");
        write("USER.md", b"three \xff\n");
        write("AGENTS.md", b"one\n");
        write("SOUL.md", b" \n");
        std::fs::create_dir(directory.path().join("TOOLS.md")).unwrap();
        assert_eq!(
            bootstrap(directory.path()),
            "## AGENTS.md\n\none\n\n## USER.md\n\nthree \u{fffd}\n\n\
             ## TOOLS.md\n\n[TOOLS.md could not be read: not a regular file]\n\n## IDENTITY.md\n\nfive"
        );
    }

    #[test]
    fn a_large_file_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("SOUL.md"), "記".repeat(FILE_LIMIT)).unwrap();
        let text = bootstrap(directory.path());
        assert!(
            text.len() < FILE_LIMIT + 100
                && text.ends_with("記\n\n[SOUL.md goes on; read the rest with read_file.]")
        );
    }
}
