//! The skills that come with the program.
//!
//! They are compiled in, and what is compiled in is what counts; the copies on disk are for file
//! tools, which read skills by their location.

use std::io::{self, Write as _};
use std::path::Path;

use crate::load::SKILL_FILE;

/// Name and text, sorted.
pub(crate) const BUILT_IN: [(&str, &str); 7] = [
    ("cron", include_str!("../../../../skills/cron/SKILL.md")),
    ("github", include_str!("../../../../skills/github/SKILL.md")),
    ("memory", include_str!("../../../../skills/memory/SKILL.md")),
    (
        "skill-creator",
        include_str!("../../../../skills/skill-creator/SKILL.md"),
    ),
    (
        "summarize",
        include_str!("../../../../skills/summarize/SKILL.md"),
    ),
    ("tmux", include_str!("../../../../skills/tmux/SKILL.md")),
    (
        "weather",
        include_str!("../../../../skills/weather/SKILL.md"),
    ),
];

/// Writes what is missing or different below `root`.
pub(crate) fn lay_out(root: &Path) -> io::Result<()> {
    for (name, text) in BUILT_IN {
        let folder = root.join(name);
        let file = folder.join(SKILL_FILE);
        if std::fs::read(&file).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        std::fs::create_dir_all(&folder)?;
        let mut written = tempfile::NamedTempFile::new_in(&folder)?;
        written.write_all(text.as_bytes())?;
        written.as_file().sync_all()?;
        // Elsewhere, a file that cannot be written cannot be replaced either.
        if cfg!(unix) {
            let mut permissions = written.as_file().metadata()?.permissions();
            permissions.set_readonly(true);
            written.as_file().set_permissions(permissions)?;
        }
        written.persist(&file)?;
    }
    Ok(())
}
