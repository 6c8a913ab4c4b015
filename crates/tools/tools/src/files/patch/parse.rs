//! Parses the patch format that models write: `*** Begin Patch` … `*** End Patch`.
//!
//! Decision: the lines around the patch and a missing end are accepted, because models forget them;
//! an unknown line inside is an error, because the rest would be applied in the wrong place.

use super::{Change, Hunk};

const UPDATE: &str = "*** Update File:";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Returns the changes of a patch with their paths, in order.
pub(super) fn parse(patch: &str) -> Result<Vec<(String, Change)>, String> {
    let mut changes = Vec::new();
    let mut current: Option<Section> = None;
    for (number, line) in (1..).zip(patch.lines()) {
        let mark = line.trim_end();
        let opened = [UPDATE, ADD, DELETE]
            .into_iter()
            .find_map(|kind| Some((kind, mark.strip_prefix(kind)?.trim())));
        if let Some((kind, path)) = opened {
            Section::end(&mut current, &mut changes)?;
            if path.is_empty() {
                return Err(format!("line {number} of the patch names no file"));
            }
            current = Some(Section::new(kind, path));
        } else if mark == END {
            break;
        } else if let Some(section) = &mut current {
            section.take(line).map_err(|reason| {
                format!("line {number} of the patch ({}): {reason}", section.path)
            })?;
        } else if !mark.is_empty() && mark != BEGIN && !mark.starts_with("```") {
            return Err(format!(
                "line {number} of the patch precedes the first '*** Update File:', '*** Add File:' \
                 or '*** Delete File:'"
            ));
        }
    }
    Section::end(&mut current, &mut changes)?;
    Ok(changes)
}

/// The lines about one file.
struct Section {
    path: String,
    kind: &'static str,
    added: String,
    hunks: Vec<Hunk>,
    /// `true` if the last hunk still consists of heads.
    is_open: bool,
    target: Option<String>,
}

impl Section {
    fn new(kind: &'static str, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            added: String::new(),
            hunks: Vec::new(),
            is_open: false,
            target: None,
        }
    }

    fn end(current: &mut Option<Self>, into: &mut Vec<(String, Change)>) -> Result<(), String> {
        let Some(section) = current.take() else {
            return Ok(());
        };
        let Self {
            path,
            kind,
            added,
            mut hunks,
            target,
            ..
        } = section;
        hunks.retain(|hunk| !hunk.old.is_empty() || !hunk.new.is_empty());
        match kind {
            ADD => into.push((path, Change::Create(added))),
            DELETE => into.push((path, Change::Delete)),
            _ if hunks.is_empty() && target.is_none() => {
                return Err(format!("the patch changes nothing in {path}"));
            }
            _ => {
                if !hunks.is_empty() {
                    into.push((path.clone(), Change::Hunks(hunks)));
                }
                into.extend(target.map(|target| (path, Change::Move(target))));
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        match self.kind {
            ADD => match line.strip_prefix('+') {
                Some(text) => {
                    self.added.push_str(text);
                    self.added.push('\n');
                    Ok(())
                }
                None if line.trim().is_empty() => Ok(()),
                None => Err("a line of a new file begins with '+'".to_owned()),
            },
            DELETE if line.trim().is_empty() => Ok(()),
            DELETE => Err("a deleted file has no lines".to_owned()),
            _ => self.update(line),
        }
    }

    fn update(&mut self, line: &str) -> Result<(), String> {
        if let Some(target) = line.strip_prefix(MOVE) {
            self.target = Some(target.trim().to_owned());
            return Ok(());
        }
        if line.trim_end() == END_OF_FILE {
            self.hunk().is_at_end = true;
            self.is_open = false;
            return Ok(());
        }
        if let Some(head) = line.strip_prefix("@@") {
            let is_new = self
                .hunks
                .last()
                .is_none_or(|hunk| !hunk.old.is_empty() || !hunk.new.is_empty() || hunk.is_at_end);
            if is_new {
                self.hunks.push(Hunk::default());
            }
            self.is_open = true;
            let head = head.strip_prefix(' ').unwrap_or(head);
            // `@@ -1,2 +1,3 @@` of a unified diff names no line.
            if !head.trim().is_empty() && !head.trim_start().starts_with('-') {
                self.hunk().heads.push(head.to_owned());
            }
            return Ok(());
        }
        let hunk = self.hunk();
        match line.split_at_checked(1) {
            Some(("+", text)) => hunk.new.push(text.to_owned()),
            Some(("-", text)) => hunk.old.push(text.to_owned()),
            Some((" ", text)) => {
                hunk.old.push(text.to_owned());
                hunk.new.push(text.to_owned());
            }
            // Models drop the space of an empty line.
            None => {
                hunk.old.push(String::new());
                hunk.new.push(String::new());
            }
            Some(_) => return Err("a line begins with ' ', '+', '-' or '@@'".to_owned()),
        }
        Ok(())
    }

    /// Returns the hunk that takes the next line.
    fn hunk(&mut self) -> &mut Hunk {
        let is_ended = !self.is_open && self.hunks.last().is_some_and(|hunk| hunk.is_at_end);
        if self.hunks.is_empty() || is_ended {
            self.hunks.push(Hunk::default());
        }
        let last = self.hunks.len() - 1;
        #[expect(
            clippy::indexing_slicing,
            reason = "one has just been added if there was none"
        )]
        &mut self.hunks[last]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_sections() {
        let patch = "```\n*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n@@ class A\n@@ fn f\n x\n-y\n+z\n\
            @@\n-last\n*** End of File\n*** Add File: new\n+one\n+\n+two\n*** Delete File: old\n*** End Patch\nnoise";
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let expected = [
            (
                "a.rs".to_owned(),
                Change::Hunks(vec![
                    Hunk {
                        heads: lines(&["class A", "fn f"]),
                        old: lines(&["x", "y"]),
                        new: lines(&["x", "z"]),
                        is_at_end: false,
                    },
                    Hunk {
                        old: lines(&["last"]),
                        is_at_end: true,
                        ..Hunk::default()
                    },
                ]),
            ),
            ("a.rs".to_owned(), Change::Move("b.rs".to_owned())),
            ("new".to_owned(), Change::Create("one\n\ntwo\n".to_owned())),
            ("old".to_owned(), Change::Delete),
        ];
        assert_eq!(parse(patch).unwrap(), expected);
    }

    #[test]
    fn malformed_patches_name_the_line() {
        for (patch, expected) in [
            ("x", "line 1 of the patch precedes"),
            (
                "*** Begin Patch\n*** Add File: \n",
                "line 2 of the patch names no file",
            ),
            (
                "*** Add File: a\nx",
                "line 2 of the patch (a): a line of a new file",
            ),
            (
                "*** Update File: a\n@@\n?",
                "line 3 of the patch (a): a line begins",
            ),
            (
                "*** Update File: a\n@@ f\n",
                "the patch changes nothing in a",
            ),
            (
                "*** Delete File: a\n-x",
                "line 2 of the patch (a): a deleted file",
            ),
        ] {
            let error = parse(patch).unwrap_err();
            assert!(error.starts_with(expected), "{patch:?}: {error}");
        }
        assert_eq!(parse("*** Begin Patch\n*** End Patch").unwrap(), []);
    }
}
