//! Skills: guides in `<folder>/<name>/SKILL.md` that the model reads when it needs them.
//!
//! Decision: a skill is known by the name of its folder, and everything in its file is somebody's
//! text: bounded, shown on one line, escaped. A skill of the workspace may have been written by
//! the assistant itself and gets into every prompt only with the operator's consent.

mod front_matter;
mod listing;
mod requirement;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::ContextSettings;
use crate::read::read_text;
use front_matter::FrontMatter;

pub(crate) use listing::{active_skills, skill_list};

/// The largest skill file that is read, in bytes.
const FILE_LIMIT: usize = 256 * 1024;

/// The longest name, in characters.
const NAME_LIMIT: usize = 64;

/// The longest description in a prompt, in characters.
const DESCRIPTION_LIMIT: usize = 300;

/// A guide for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name of its folder.
    pub name: String,
    /// What it is for, on one line; its name when the file does not say.
    pub description: String,
    /// Its file.
    pub location: PathBuf,
    /// Its text without the header.
    pub body: String,
    /// Whether it stands in every prompt: it asks for it, may, and is available.
    pub always: bool,
    /// What it needs and this machine does not have (`CLI: gh`, `ENV: TOKEN`). Names only.
    pub missing: Vec<String>,
}

/// Why a folder is no skill.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("its name is not one of letters, digits, spaces and -_. only")]
    Name,
    #[error("the file lies outside its folder")]
    Outside,
    #[error("the file is larger than {FILE_LIMIT} bytes")]
    TooLarge,
    #[error("the file cannot be read")]
    Unreadable(#[from] io::Error),
}

/// All skills by name: those of the workspace before those of the other folders. What is no
/// skill is logged and passed over. Touches the disk: call it where waiting is fine.
#[must_use]
pub fn discover_skills(settings: &ContextSettings) -> Vec<Skill> {
    let own = settings.workspace.join("skills");
    let mut skills = BTreeMap::new();
    for directory in std::iter::once(&own).chain(&settings.skill_directories) {
        for name in folders(directory) {
            let file = directory.join(&name).join("SKILL.md");
            if !file.exists() {
                continue;
            }
            if skills.contains_key(&name) {
                tracing::debug!(skill = name, path = %file.display(), "a skill is hidden by one of the same name");
                continue;
            }
            match load(&name, &file) {
                Ok(mut skill) => {
                    skill.always &= *directory != own || settings.always_skills.contains(&name);
                    skills.insert(name, skill);
                }
                Err(refusal) => {
                    tracing::warn!(path = %file.display(), error = &refusal as &dyn std::error::Error, "a skill was left out");
                }
            }
        }
    }
    skills.into_values().collect()
}

/// The folders in a folder; none when it cannot be read.
fn folders(directory: &Path) -> Vec<String> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %directory.display(), %error, "a folder of skills cannot be read");
            }
            return Vec::new();
        }
    };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn load(name: &str, file: &Path) -> Result<Skill, Refusal> {
    let inside = file.parent().map(Path::canonicalize).transpose()?.unwrap_or_default();
    if !file.canonicalize()?.starts_with(inside) {
        return Err(Refusal::Outside);
    }
    let excerpt = read_text(file, FILE_LIMIT)?.ok_or(io::ErrorKind::NotFound).map_err(io::Error::from)?;
    if excerpt.cut {
        return Err(Refusal::TooLarge);
    }
    let header = FrontMatter::parse(&excerpt.text);
    if header.is_missing() {
        tracing::warn!(path = %file.display(), "a skill has no complete header; its folder names it");
    }
    if !is_name(name) || header.get("name").is_some_and(|name| !is_name(name)) {
        return Err(Refusal::Name);
    }
    let metadata = header.metadata();
    let from_header = header.get("requires").and_then(|text| serde_json::from_str(text).ok());
    let requires = metadata.get("requires").cloned().or(from_header).unwrap_or(Value::Null);
    let missing = requirement::missing(&requires);
    let asked = metadata.get("always").and_then(Value::as_bool).unwrap_or(false) || header.is_true("always");
    let description = header.get("description").map(one_line).filter(|text| !text.is_empty());
    Ok(Skill {
        name: name.to_owned(),
        description: description.unwrap_or_else(|| name.to_owned()),
        location: file.to_owned(),
        always: asked && missing.is_empty(),
        missing,
        body: header.into_body(),
    })
}

fn is_name(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || " -_.".contains(character);
    !name.starts_with('.') && (1..=NAME_LIMIT).contains(&name.chars().count()) && name.chars().all(is_plain)
}

/// Text without line breaks and control characters, cut where it gets too long for a list.
fn one_line(text: &str) -> String {
    let clean: String = text.chars().filter(|character| !is_formatting(*character)).collect();
    let words: Vec<&str> = clean.split(|character: char| character.is_whitespace() || character.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DESCRIPTION_LIMIT) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}

/// Characters that change the direction of text, or show nothing.
fn is_formatting(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
