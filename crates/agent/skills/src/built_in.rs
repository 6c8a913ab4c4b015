//! The skills that ship with the program.
//!
//! The compiled-in text is authoritative. The copies on disk exist only for file tools, which read
//! a skill at its location.

use std::io;
use std::path::Path;

use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};

use crate::load::SKILL_FILE;

/// Name and text of each skill, sorted by name.
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

/// Writes the built-in skills that are missing or different below `root`.
pub(crate) fn write_built_in(root: &Path) -> io::Result<()> {
    for (name, text) in BUILT_IN {
        let folder = root.join(name);
        let file = folder.join(SKILL_FILE);
        if std::fs::read(&file).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        std::fs::create_dir_all(&folder)?;
        replace_file(
            &LocalDisk,
            &file,
            text.as_bytes(),
            FileDraft::Random,
            Durability::Disk,
        )?;
        // Unix only: on other systems a read-only file could not be replaced later.
        if cfg!(unix) {
            let mut permissions = std::fs::metadata(&file)?.permissions();
            permissions.set_readonly(true);
            std::fs::set_permissions(&file, permissions)?;
        }
    }
    Ok(())
}
