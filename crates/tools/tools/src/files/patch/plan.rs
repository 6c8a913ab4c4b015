//! The state of all files of a patch, before and after it.

use std::io;

use nanobot_guard::{PathPolicy, ResolvedPath};

use super::{Change, hunk::patched};
use crate::files::{
    change::unified_change,
    locate::{explain_absence, matches},
    unwritable, whole_text_or_none,
};

/// Maximum size of all files of a patch together, in bytes.
const MAX_TOTAL: usize = 64 << 20;

/// The files of a patch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    files: Vec<Planned>,
}

/// One file.
#[derive(Debug)]
struct Planned {
    file: ResolvedPath,
    /// Its text on disk; `None` if there is no file.
    before: Option<String>,
    /// Its text after the patch; `None` if it is deleted.
    after: Option<String>,
    /// The place that it is moved from, an index into the files.
    from: Option<usize>,
    /// `true` if its content is moved elsewhere.
    is_moved: bool,
}

impl Plan {
    /// Applies one change in memory. An error changes nothing on disk.
    pub(super) fn add(
        &mut self,
        policy: &PathPolicy,
        path: &str,
        change: Change,
    ) -> Result<(), String> {
        let index = self.load(
            policy,
            path,
            matches!(change, Change::Delete | Change::Move(_)),
        )?;
        let missing = || format!("File not found: {path}");
        let current = self.files.get(index).and_then(|file| file.after.clone());
        let after = match (change, current) {
            (Change::Create(new), None) => Some(new),
            (Change::Create(_), Some(text)) if !text.is_empty() => {
                return Err(format!("{path} exists already"));
            }
            (Change::Create(new), Some(_)) => Some(new),
            (_, None) => return Err(missing()),
            (Change::Delete, Some(_)) => None,
            (Change::Replace { old, new, all }, Some(text)) => {
                let found = with_line_ends(&text, |text| replaced(path, text, &old, &new, all))?;
                Some(found)
            }
            (Change::Hunks(hunks), Some(text)) => {
                let found = with_line_ends(&text, |text| patched(text, &hunks));
                Some(found.map_err(|reason| format!("{path}, {reason}"))?)
            }
            (Change::Move(target), Some(text)) => {
                return self.relocate(policy, index, &target, text);
            }
        };
        self.set(index, after);
        self.check_size()
    }

    /// Moves the text of a file to `target`.
    fn relocate(
        &mut self,
        policy: &PathPolicy,
        from: usize,
        target: &str,
        text: String,
    ) -> Result<(), String> {
        let to = self.load(policy, target, false)?;
        if to == from {
            return Err(format!("{target} is the same file"));
        }
        if self.files.get(to).is_some_and(|file| file.after.is_some()) {
            return Err(format!("{target} exists already"));
        }
        self.set(to, Some(text));
        self.set(from, None);
        if let Some(file) = self.files.get_mut(to) {
            file.from = Some(from);
        }
        if let Some(file) = self.files.get_mut(from) {
            file.is_moved = true;
        }
        self.check_size()
    }

    fn set(&mut self, index: usize, after: Option<String>) {
        if let Some(file) = self.files.get_mut(index) {
            file.after = after;
        }
    }

    /// Returns the index of a file, which is read if it is new here. A file that is removed has to be
    /// removable, any file changeable.
    fn load(&mut self, policy: &PathPolicy, path: &str, is_removed: bool) -> Result<usize, String> {
        let file = policy.write(path).map_err(|denied| denied.to_string())?;
        if is_removed {
            let entry = policy.remove(path).map_err(|denied| denied.to_string())?;
            if entry.path() != file.path() {
                return Err(format!("{path} is a link"));
            }
        }
        let known = |known: &Planned| known.file.path() == file.path();
        if let Some(index) = self.files.iter().position(known) {
            return Ok(index);
        }
        let before = whole_text_or_none(path, &file)?;
        self.files.push(Planned {
            file,
            after: before.clone(),
            before,
            from: None,
            is_moved: false,
        });
        Ok(self.files.len() - 1)
    }

    fn check_size(&self) -> Result<(), String> {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let sizes = self.files.iter();
        let total: usize = sizes
            .map(|file| length(&file.before) + length(&file.after))
            .sum();
        if total > MAX_TOTAL {
            return Err(format!(
                "the files have more than {MAX_TOTAL} bytes together"
            ));
        }
        Ok(())
    }

    /// Lists the changes for the model, one line for each file.
    pub(super) fn listing(&self) -> String {
        let line = |file: &Planned| {
            let place = file.file.path().display();
            match (&file.before, &file.after, file.from) {
                (_, Some(_), Some(from)) => {
                    let from = self
                        .files
                        .get(from)
                        .map(|file| file.file.path().display().to_string());
                    format!("moved {} to {place}", from.unwrap_or_default())
                }
                (None, Some(_), None) => format!("created {place}"),
                (Some(before), Some(after), None) if before == after => {
                    format!("unchanged {place}")
                }
                (Some(_), Some(_), None) => format!("changed {place}"),
                (Some(_), None, _) if !file.is_moved => format!("deleted {place}"),
                _ => String::new(),
            }
        };
        let lines: Vec<String> = self
            .files
            .iter()
            .map(line)
            .filter(|line| !line.is_empty())
            .collect();
        lines.join("\n")
    }

    /// Returns the change of all files as unified diffs with their paths.
    pub(super) fn difference(&self) -> Option<String> {
        let mut text = String::new();
        for file in self.files.iter().filter(|file| !file.is_moved) {
            let origin = file.from.and_then(|from| self.files.get(from));
            let before = origin.map_or(&file.before, |origin| &origin.before);
            let old = before.as_deref().unwrap_or_default();
            let new = file.after.as_deref().unwrap_or_default();
            if let Some(change) = unified_change(old, new) {
                text.push_str(&format!("{}\n{change}", file.file.path().display()));
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Writes all files. If one cannot be written, those written before get their old content back.
    pub(super) fn write(&self) -> Result<(), String> {
        self.check_disk()?;
        let mut done = Vec::new();
        // New contents first: a crash never loses the text of a moved file.
        let (kept, removed): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|file| file.after.is_some());
        for file in kept.into_iter().chain(removed) {
            if let Err(reason) = self.write_one(file) {
                let lost: Vec<String> = done
                    .into_iter()
                    .rev()
                    .filter_map(|file: &Planned| file.restore().err())
                    .collect();
                return Err(if lost.is_empty() {
                    format!("{reason}. No file has been changed")
                } else {
                    format!(
                        "{reason}. These files could not be restored: {}",
                        lost.join(", ")
                    )
                });
            }
            done.push(file);
        }
        Ok(())
    }

    fn write_one(&self, file: &Planned) -> Result<(), String> {
        let place = file.file.path().display().to_string();
        let failed = |error: io::Error| unwritable(&place, &error);
        match (&file.before, &file.after) {
            (before, after) if before == after => Ok(()),
            (_, Some(after)) => {
                file.file.replace(after.as_bytes()).map_err(failed)?;
                self.keep_mode(file);
                Ok(())
            }
            (_, None) => file.file.remove_file().map_err(failed),
        }
    }

    /// Gives a moved file the mode of its origin, so that a script stays executable.
    #[cfg(unix)]
    fn keep_mode(&self, file: &Planned) {
        let origin = file.from.and_then(|from| self.files.get(from));
        let permissions = origin
            .and_then(|origin| origin.file.open().ok()?.metadata().ok())
            .map(|metadata| metadata.permissions());
        if let (Some(permissions), Ok(moved)) = (permissions, file.file.open()) {
            // The content is in place; a file system without modes keeps its own.
            moved.set_permissions(permissions).ok();
        }
    }

    #[cfg(not(unix))]
    fn keep_mode(&self, _: &Planned) {}

    /// Refuses if a file changed since it was read.
    fn check_disk(&self) -> Result<(), String> {
        for file in &self.files {
            let place = file.file.path().display().to_string();
            if whole_text_or_none(&place, &file.file)? != file.before {
                return Err(format!(
                    "{place} has just been changed. No file has been changed"
                ));
            }
        }
        Ok(())
    }
}

impl Planned {
    /// Puts the old content back. The error names the path.
    fn restore(&self) -> Result<(), String> {
        let restored = match &self.before {
            _ if self.before == self.after => Ok(()),
            Some(before) => self.file.replace(before.as_bytes()),
            None => self.file.remove_file(),
        };
        restored.map_err(|error| format!("{} ({error})", self.file.path().display()))
    }
}

/// Applies `change` to a text with `\n` line ends, and restores `\r\n`.
fn with_line_ends(
    text: &str,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<String, String> {
    if !text.contains("\r\n") {
        return change(text);
    }
    let changed = change(&text.replace("\r\n", "\n"))?;
    Ok(changed.replace("\r\n", "\n").replace('\n', "\r\n"))
}

fn replaced(path: &str, text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let found = matches(text, &old);
    let Some(first) = found.first() else {
        return Err(explain_absence(path, text, &old));
    };
    if found.len() > 1 && !all {
        return Err(format!(
            "old_text appears {} times in {path}: add surrounding lines, or set replace_all",
            found.len()
        ));
    }
    let wanted = text.get(first.clone());
    let (mut changed, mut done) = (String::with_capacity(text.len() + new.len()), 0);
    // A loose match is replaced only if its text equals that of the first.
    for range in found
        .iter()
        .filter(|range| text.get((*range).clone()) == wanted)
    {
        if range.start < done {
            continue;
        }
        changed.push_str(text.get(done..range.start).unwrap_or_default());
        changed.push_str(&new);
        done = range.end;
    }
    changed.push_str(text.get(done..).unwrap_or_default());
    Ok(changed)
}
