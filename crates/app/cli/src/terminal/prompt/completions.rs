//! Words that Tab completes at the prompt: commands, conversations and subagents as their arguments,
//! files after `@`, and names of skills after `$`.

use std::path::{Path, PathBuf};

use nanobot_runtime::types::SessionKey;
use nanobot_runtime::{
    Runtime, SkillStatus, SubagentName, Terminal, command_infos, conversation_keys,
    deleted_conversation_keys, skills,
};

use super::attachments::{open_path, resolve};
use super::commands::PROMPT_COMMANDS;
use crate::output::sanitize;
use crate::terminal::edit::{Candidate, Completions};

/// Maximum number of entries of a folder that are read.
const MAX_ENTRIES: usize = 2_000;
/// Maximum number of completions.
const MAX_CANDIDATES: usize = 200;

/// Knows the words that can be completed at a prompt.
#[derive(Debug)]
pub(super) struct WordSource {
    /// The folder of relative paths.
    pub(super) folder: PathBuf,
    pub(super) runtime: Runtime,
}

impl WordSource {
    /// Returns the completions of the word at the end of `before`.
    pub(super) async fn complete(&self, before: &str, terminal: &Terminal) -> Completions {
        if let Some(start) = open_path(before) {
            let path = before.get(start..).unwrap_or_default();
            let is_quoted = before.get(..start).is_some_and(|text| text.ends_with('"'));
            return Completions {
                start: start - if is_quoted { 2 } else { 1 },
                candidates: files(path, &self.folder, is_quoted),
            };
        }
        let start = before
            .rfind(char::is_whitespace)
            .and_then(|at| at.checked_add(before.get(at..)?.chars().next()?.len_utf8()))
            .unwrap_or(0);
        let (earlier, word) = before.split_at(start);
        let command: Vec<&str> = earlier.split_whitespace().collect();
        let mut candidates = match word.strip_prefix('$') {
            Some(name) => self.skills(name),
            None if start == 0 && word.starts_with('/') => commands(word),
            None => match command.as_slice() {
                ["/skill"] => self.skills(word),
                ["/help"] => helped(word),
                ["/export"] => plain_files(word, &self.folder),
                ["/delete" | "/sessions"] => self.conversations(word).await,
                ["/restore"] => self.deleted_conversations(word).await,
                ["/agents"] if "stop".starts_with(word) => {
                    vec![Candidate::word("stop", "Stop a subagent")]
                }
                ["/agents", "stop"] => subagents(word, terminal.subagents().await),
                _ => Vec::new(),
            },
        };
        candidates.truncate(MAX_CANDIDATES);
        Completions { start, candidates }
    }

    /// Returns the keys of conversations that begin with a word.
    async fn conversations(&self, word: &str) -> Vec<Candidate> {
        let keys = match conversation_keys(self.runtime.config()).await {
            Ok(keys) => keys,
            Err(error) => {
                tracing::debug!(%error, "could not list the conversations");
                return Vec::new();
            }
        };
        sorted(keys.iter().filter_map(|key| named(key, word, "")))
    }

    /// Returns the keys of deleted conversations that begin with a word.
    async fn deleted_conversations(&self, word: &str) -> Vec<Candidate> {
        match deleted_conversation_keys(self.runtime.config()).await {
            Ok(deleted) => sorted(deleted.iter().filter_map(|(key, at)| {
                let at = at.with_timezone(&chrono::Local);
                named(
                    key,
                    word,
                    &format!("deleted {}", at.format("%Y-%m-%d %H:%M")),
                )
            })),
            Err(error) => {
                tracing::debug!(%error, "could not list the deleted conversations");
                Vec::new()
            }
        }
    }

    /// Returns the names of usable skills that begin with a word.
    fn skills(&self, word: &str) -> Vec<Candidate> {
        let skills = match skills(&self.runtime) {
            Ok(skills) => skills,
            Err(error) => {
                tracing::debug!(%error, "could not list the skills");
                return Vec::new();
            }
        };
        let mut found: Vec<Candidate> = skills
            .scan()
            .into_iter()
            .filter_map(|entry| match entry.status {
                SkillStatus::InUse(skill) if entry.name.starts_with(word) => {
                    let about = sanitize(&skill.description);
                    Some(Candidate::word(sanitize(&entry.name), about))
                }
                _ => None,
            })
            .collect();
        found.sort_by(|a, b| a.text.cmp(&b.text));
        found
    }
}

/// Returns a conversation whose key begins with a word. One of the terminal is also found by its
/// name alone.
fn named(key: &SessionKey, word: &str, about: &str) -> Option<Candidate> {
    let key = key.as_str();
    let name = key.strip_prefix("cli:").unwrap_or(key);
    let name = if key.starts_with(word) { key } else { name };
    let is_plain = sanitize(name) == name && !name.contains(char::is_whitespace);
    (is_plain && name.starts_with(word)).then(|| Candidate::word(name, about))
}

fn sorted(found: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = found.collect();
    found.sort_by(|a, b| a.text.cmp(&b.text));
    found.dedup_by(|a, b| a.text == b.text);
    found
}

/// Returns the ids of subagents that begin with a word.
fn subagents(word: &str, subagents: Vec<SubagentName>) -> Vec<Candidate> {
    let found = subagents.into_iter();
    let found = found.filter(|subagent| subagent.id.starts_with(word));
    found
        .map(|subagent| Candidate::word(subagent.id, sanitize(&subagent.label)))
        .collect()
}

fn commands(word: &str) -> Vec<Candidate> {
    let word = word.trim_start_matches('/').to_ascii_lowercase();
    let of_agent = command_infos();
    let mut candidates: Vec<Candidate> = of_agent
        .iter()
        .map(|info| (info.name, info.about))
        .chain(PROMPT_COMMANDS.map(|command| (command.name, command.about)))
        .filter(|(name, _)| name.starts_with(&word))
        .map(|(name, about)| Candidate::word(format!("/{name}"), about))
        .collect();
    candidates.sort_by(|a, b| a.text.cmp(&b.text));
    candidates.dedup_by(|a, b| a.text == b.text);
    candidates
}

/// Returns the names of the assistant's commands, which `/help` explains one by one, with or without
/// their slash.
fn helped(word: &str) -> Vec<Candidate> {
    let name = word.strip_prefix('/').unwrap_or(word);
    let slash = if name.len() < word.len() { "/" } else { "" };
    let infos = command_infos();
    let infos = infos.iter().filter(|info| info.name.starts_with(name));
    infos
        .map(|info| Candidate::word(format!("{slash}{}", info.name), info.about))
        .collect()
}

/// Returns paths for an argument that is not quoted: those without spaces.
fn plain_files(path: &str, folder: &Path) -> Vec<Candidate> {
    let found = files(path, folder, false).into_iter();
    found
        .filter(|found| !found.text.contains('"'))
        .map(|found| Candidate {
            text: found.text.trim_start_matches('@').to_owned(),
            ..found
        })
        .collect()
}

/// Returns the entries of a folder that continue a path; folders end with `/`. A name with spaces
/// is quoted. Hidden entries are left out, because they are not attached.
fn files(path: &str, folder: &Path, is_quoted: bool) -> Vec<Candidate> {
    let (parent, name) = path.rsplit_once('/').map_or(("", path), |(parent, name)| {
        (path.get(..=parent.len()).unwrap_or_default(), name)
    });
    let Ok(entries) = std::fs::read_dir(resolve(parent, folder)) else {
        return Vec::new();
    };
    let mut candidates: Vec<Candidate> = entries
        .take(MAX_ENTRIES)
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            // A name with other characters could not be typed, or would end the path.
            let is_plain = sanitize(&file) == file && !file.contains(['"', '\n']);
            if file.starts_with('.') || !is_plain || !file.starts_with(name) {
                return None;
            }
            let is_open = entry.path().is_dir();
            let has_space =
                parent.contains(char::is_whitespace) || file.contains(char::is_whitespace);
            let (quote, end) = match (is_quoted || has_space, is_open) {
                (false, true) => ("", "/"),
                (false, false) => ("", ""),
                (true, true) => ("\"", "/"),
                (true, false) => ("\"", "\""),
            };
            Some(Candidate {
                text: format!("@{quote}{parent}{file}{end}"),
                about: String::new(),
                is_open,
            })
        })
        .collect();
    candidates.sort_by(|a, b| a.text.cmp(&b.text));
    candidates.truncate(MAX_CANDIDATES);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(candidates: Vec<Candidate>) -> Vec<String> {
        candidates.into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn files_follow_an_at_sign() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["notes.md", "new file", "n\u{1b}x", "n\"q", ".hidden"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("nested")).unwrap();
        std::fs::write(folder.path().join("nested/日本.txt"), "").unwrap();
        for (path, is_quoted, expected) in [
            ("n", false, &["@\"new file\"", "@nested/", "@notes.md"][..]),
            ("new f", true, &["@\"new file\""]),
            ("nested/", false, &["@nested/日本.txt"]),
            ("nested/", true, &["@\"nested/日本.txt\""]),
            (".", false, &[]),
            ("missing/x", false, &[]),
        ] {
            let found = texts(files(path, folder.path(), is_quoted));
            assert_eq!(found, expected, "{path:?}");
        }
    }

    #[test]
    fn argument_that_is_a_path_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["旅行.md", "旅行 plan.md"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(texts(plain_files("旅", folder.path())), ["旅行.md"]);
    }

    #[test]
    fn subagents_are_completed_by_their_ids() {
        let known = |id: &str, label: &str| SubagentName {
            id: id.to_owned(),
            label: label.to_owned(),
        };
        let known = vec![known("0a1b", "数 zahl\u{1b}[2J"), known("0c2d", "x")];
        let found = subagents("0a", known.clone());
        assert_eq!(found, [Candidate::word("0a1b", "数 zahl[2J")]);
        assert_eq!(texts(subagents("", known)), ["0a1b", "0c2d"]);
    }

    #[test]
    fn commands_begin_with_a_slash() {
        assert_eq!(texts(commands("/la")), ["/last"]);
        assert!(texts(commands("/s")).len() > 2);
        assert_eq!(texts(helped("ret")), ["retry"]);
        assert_eq!(texts(helped("/ret")), ["/retry"]);
        assert_eq!(texts(helped("")).len(), command_infos().len());
    }
}
