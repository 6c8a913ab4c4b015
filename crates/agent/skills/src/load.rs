//! Loads a skill from its SKILL.md.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nanobot_skill::{Blocker, Skill, SkillOrigin};

use crate::header::{Header, SkillDocument};
use crate::name;
use crate::requirement::Requirements;

/// The file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// Maximum size of a SKILL.md, in bytes.
pub(crate) const FILE_LIMIT: u64 = 1 << 20;

/// Reason why a folder is not a usable skill.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(
        "its folder's name has characters other than letters, digits, spaces and -_., or more than 64 characters"
    )]
    Folder,
    #[error(
        "the name in its header has characters other than letters, digits, spaces and -_., or more than 64 characters"
    )]
    Name,
    #[error("its file is outside its folder, or its folder is outside the folder of skills")]
    Outside,
    #[error("its file is larger than {FILE_LIMIT} bytes")]
    TooLarge,
    #[error("{0}")]
    Header(String),
    #[error("its file cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// A loaded skill with remarks.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The skill; `always` is still the header's request, without regard to consent.
    pub(crate) skill: Skill,
    /// Remarks for a person.
    pub(crate) notes: Vec<String>,
}

/// Loads a skill from its folder below `root`.
pub(crate) fn load(root: &Path, folder: &str, origin: SkillOrigin) -> Result<Loaded, LoadError> {
    if !name::is_usable(folder) {
        return Err(LoadError::Folder);
    }
    let location = root.join(folder).join(SKILL_FILE);
    let inside = root.join(folder).canonicalize()?;
    if !inside.starts_with(root.canonicalize()?) || !location.canonicalize()?.starts_with(&inside) {
        return Err(LoadError::Outside);
    }
    let bytes = read_bounded(&location, FILE_LIMIT)?.ok_or(LoadError::TooLarge)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut loaded = build_skill(&text, folder, origin, location)?;
    if std::str::from_utf8(&bytes).is_err() {
        loaded
            .notes
            .push("its file is not UTF-8; invalid bytes are replaced".to_owned());
    }
    Ok(loaded)
}

/// Builds a skill from the text of a SKILL.md.
pub(crate) fn build_skill(
    text: &str,
    folder: &str,
    origin: SkillOrigin,
    location: PathBuf,
) -> Result<Loaded, LoadError> {
    let document = SkillDocument::parse(text.trim_start_matches('\u{feff}'));
    let mut notes = Vec::new();
    let skill = Skill {
        name: folder.to_owned(),
        description: folder.to_owned(),
        origin,
        location,
        body: document.body,
        always: false,
        blockers: Vec::new(),
    };
    let skill = match document.header {
        Header::TooLarge(why) => return Err(LoadError::Header(why)),
        Header::Broken(why) => Skill {
            body: String::new(),
            blockers: vec![Blocker::Broken(why)],
            ..skill
        },
        Header::Missing => {
            notes.push("it has no complete header; the folder's name is used".to_owned());
            skill
        }
        Header::Read(fields) => {
            let named = fields.text("name");
            if named.as_deref().is_some_and(|name| !name::is_usable(name)) {
                return Err(LoadError::Name);
            }
            if let Some(other) = named.filter(|name| name != folder) {
                notes.push(format!(
                    "its header says `{other}`; the folder's name is used"
                ));
            }
            if fields.by_line {
                notes.push(
                    "its header is not valid YAML and was read line by line; put texts with a colon in quotes"
                        .to_owned(),
                );
            }
            let blockers = Requirements::of(&fields).blockers();
            let description = fields.text("description").unwrap_or(skill.description);
            Skill {
                description,
                always: fields.always(),
                blockers,
                ..skill
            }
        }
    };
    Ok(Loaded { skill, notes })
}

/// Reads a regular file of at most `limit` bytes; `None` if it is larger. Pipes and devices are an
/// error, because reading one may never end.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}
