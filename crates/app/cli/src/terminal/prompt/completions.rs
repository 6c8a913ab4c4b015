//! Words that Tab completes at the prompt: commands, and files after `@`.

use std::path::{Path, PathBuf};

use nanobot_runtime::command_infos;

use super::commands::PROMPT_COMMANDS;
use crate::output::sanitize;
use crate::terminal::edit::{Candidate, CompletionSource};

/// Maximum number of entries of a folder that are read.
const MAX_ENTRIES: usize = 2_000;
/// Maximum number of completions.
const MAX_CANDIDATES: usize = 200;

/// The completions of a prompt.
#[derive(Debug)]
pub(super) struct PromptCompletions {
    /// The folder of relative paths.
    pub(super) folder: PathBuf,
    /// Completions of the first argument of a command.
    pub(super) arguments: Vec<(String, Vec<Candidate>)>,
}

impl CompletionSource for PromptCompletions {
    fn candidates(&self, before: &str) -> (usize, Vec<Candidate>) {
        let start = before.rfind([' ', '\n', '\t']).map_or(0, |index| index + 1);
        let word = before.get(start..).unwrap_or_default();
        let mut candidates = match word.strip_prefix('@') {
            Some(path) => self.files(path),
            None if start == 0 && word.starts_with('/') => commands(word),
            None => self.arguments_of(before.get(..start).unwrap_or_default(), word),
        };
        candidates.truncate(MAX_CANDIDATES);
        (start, candidates)
    }
}

fn commands(word: &str) -> Vec<Candidate> {
    let word = word.trim_start_matches('/').to_ascii_lowercase();
    let of_agent = command_infos();
    let mut candidates: Vec<Candidate> = of_agent
        .iter()
        .map(|info| (info.name, info.about))
        .chain(PROMPT_COMMANDS.map(|command| (command.name, command.about)))
        .filter(|(name, _)| name.starts_with(&word))
        .map(|(name, about)| Candidate {
            text: format!("/{name}"),
            about: about.to_owned(),
        })
        .collect();
    candidates.sort_by(|a, b| a.text.cmp(&b.text));
    candidates.dedup_by(|a, b| a.text == b.text);
    candidates
}

impl PromptCompletions {
    /// Returns the entries of a folder that continue a path; folders end with `/`.
    fn files(&self, path: &str) -> Vec<Candidate> {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| {
            (path.get(..=folder.len()).unwrap_or_default(), name)
        });
        let place = match folder.strip_prefix("~/") {
            Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
            None => self.folder.join(Path::new(folder)),
        };
        let Ok(entries) = std::fs::read_dir(place) else {
            return Vec::new();
        };
        let mut candidates: Vec<Candidate> = entries
            .take(MAX_ENTRIES)
            .flatten()
            .filter_map(|entry| {
                let file = entry.file_name().into_string().ok()?;
                let is_hidden = file.starts_with('.') && !name.starts_with('.');
                // A name with other characters could not be typed, or would end the path.
                let is_plain = sanitize(&file) == file && !file.contains(char::is_whitespace);
                if is_hidden || !is_plain || !file.starts_with(name) {
                    return None;
                }
                let end = if entry.path().is_dir() { "/" } else { "" };
                Some(Candidate {
                    text: format!("@{folder}{file}{end}"),
                    about: String::new(),
                })
            })
            .collect();
        candidates.sort_by(|a, b| a.text.cmp(&b.text));
        candidates
    }

    fn arguments_of(&self, before: &str, word: &str) -> Vec<Candidate> {
        let command = before.trim();
        self.arguments
            .iter()
            .filter(|(name, _)| name == command)
            .flat_map(|(_, candidates)| candidates)
            .filter(|candidate| candidate.text.starts_with(word))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(completions: &PromptCompletions, before: &str) -> (usize, Vec<String>) {
        let (start, candidates) = completions.candidates(before);
        let texts = candidates.into_iter().map(|candidate| candidate.text);
        (start, texts.collect())
    }

    #[test]
    fn files_follow_an_at_sign() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["notes.md", "new file", "n\u{1b}x", ".hidden"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("nested")).unwrap();
        std::fs::write(folder.path().join("nested/日本.txt"), "").unwrap();
        let completions = PromptCompletions {
            folder: folder.path().to_owned(),
            arguments: Vec::new(),
        };
        let (start, found) = texts(&completions, "look at @n");
        assert_eq!(
            (start, found),
            (8, vec!["@nested/".to_owned(), "@notes.md".to_owned()])
        );
        assert_eq!(texts(&completions, "@nested/").1, ["@nested/日本.txt"]);
        assert_eq!(texts(&completions, "@.").1, ["@.hidden"]);
        assert_eq!(texts(&completions, "@missing/x").1, Vec::<String>::new());
    }

    #[test]
    fn commands_are_completed_at_the_beginning_only() {
        let completions = PromptCompletions {
            folder: PathBuf::new(),
            arguments: vec![(
                "/skill".to_owned(),
                vec![Candidate {
                    text: "weather".to_owned(),
                    about: String::new(),
                }],
            )],
        };
        let (start, found) = texts(&completions, "/l");
        assert_eq!((start, found), (0, vec!["/last".to_owned()]));
        assert_eq!(texts(&completions, "a /l").1, Vec::<String>::new());
        assert_eq!(texts(&completions, "/skill w").1, ["weather"]);
    }
}
