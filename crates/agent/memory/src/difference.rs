//! Differences between versions, for people to read.
//!
//! Decision: time and memory are limited for all inputs. Unchanged lines at both ends are removed
//! before lines are compared, and the rest is not shown if it is too long. The diff crate's cleanup
//! of its results is not used, because it reorders them, which would make the line ranges of the
//! hunks wrong.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Replace, diff_deadline};
use similar::{Algorithm, DiffOp, DiffTag, group_diff_ops};

use crate::VersionText;

/// Time limit of the search for the smallest difference; after it, a larger one is shown.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// Number of context lines around a change.
const CONTEXT: usize = 3;

/// Maximum number of lines shown between the first and the last change, counted over both texts.
const MAX_LINES: usize = 200_000;

impl VersionText {
    /// Returns the changed lines as a unified diff with three lines of context, or a sentence if
    /// there are too many; `None` if the text is unchanged.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        let Self {
            version,
            before,
            text,
        } = self;
        let changed = ChangedRange::of(before, text)?;
        if changed.lines() > MAX_LINES {
            let (removed, added) = (changed.old.len(), changed.new.len());
            return Some(format!(
                "{added} lines are in place of {removed}; they are too many to be shown.\n"
            ));
        }
        let name = |number: Option<u64>| {
            number.map_or_else(
                || "(nothing)".to_owned(),
                |number| format!("version {number}"),
            )
        };
        let mut shown = format!(
            "--- {}\n+++ {}\n",
            name(version.before),
            name(Some(version.number))
        );
        changed.show(before, text, &mut shown);
        Some(shown)
    }
}

/// The lines between the first and the last change, with their context.
#[derive(Debug)]
struct ChangedRange {
    old: Range<usize>,
    new: Range<usize>,
}

impl ChangedRange {
    fn of(before: &str, text: &str) -> Option<Self> {
        if before == text {
            return None;
        }
        let (old, new) = (lines(before).count(), lines(text).count());
        let is_same = |(old, new): &(&str, &str)| old == new;
        let head = lines(before).zip(lines(text)).take_while(is_same).count();
        let rest = old.min(new) - head;
        let tail = lines(before)
            .rev()
            .zip(lines(text).rev())
            .take(rest)
            .take_while(is_same)
            .count();
        let (first, left_out) = (head.saturating_sub(CONTEXT), tail.saturating_sub(CONTEXT));
        Some(Self {
            old: first..old - left_out,
            new: first..new - left_out,
        })
    }

    fn lines(&self) -> usize {
        self.old.len() + self.new.len()
    }

    fn show(&self, before: &str, text: &str, shown: &mut String) {
        let of = |text, span: &Range<usize>| {
            lines(text)
                .take(span.end)
                .skip(span.start)
                .collect::<Vec<_>>()
        };
        let (old, new) = (of(before, &self.old), of(text, &self.new));
        for group in group_diff_ops(operations(&old, &new), CONTEXT) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                continue;
            };
            let old_span = span(
                self.old.start,
                first.old_range().start..last.old_range().end,
            );
            let new_span = span(
                self.new.start,
                first.new_range().start..last.new_range().end,
            );
            shown.push_str(&format!("@@ -{old_span} +{new_span} @@\n"));
            for operation in &group {
                if operation.tag() == DiffTag::Equal {
                    push(shown, ' ', &old, operation.old_range());
                } else {
                    push(shown, '-', &old, operation.old_range());
                    push(shown, '+', &new, operation.new_range());
                }
            }
        }
    }
}

fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split_inclusive('\n')
}

/// Returns the smallest difference that is found within [`TIME_LIMIT`].
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut found = Replace::new(Capture::new());
    let deadline = Some(Instant::now() + TIME_LIMIT);
    match diff_deadline(
        Algorithm::Myers,
        &mut found,
        old,
        0..old.len(),
        new,
        0..new.len(),
        deadline,
    ) {
        Ok(()) => found.into_inner().into_ops(),
        Err(never) => match never {},
    }
}

/// Formats a range of lines as unified diffs do.
fn span(before: usize, lines: Range<usize>) -> String {
    let start = before + lines.start;
    match lines.len() {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

fn push(shown: &mut String, sign: char, lines: &[&str], span: Range<usize>) {
    for line in lines.iter().take(span.end).skip(span.start) {
        shown.push(sign);
        shown.push_str(line);
        if !line.ends_with('\n') {
            shown.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use crate::{Reason, Version};

    use super::*;

    fn difference(before: &str, text: &str) -> Option<String> {
        let version = Version {
            number: 2,
            at: DateTime::default(),
            file: "MEMORY.md".to_owned(),
            reason: Reason::Found,
            bytes: 0,
            digest: String::new(),
            before: (!before.is_empty()).then_some(1),
            removed: false,
        };
        VersionText {
            version,
            before: before.to_owned(),
            text: text.to_owned(),
        }
        .difference()
    }

    #[test]
    fn shows_changes_with_context_lines() {
        let numbers: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        let before = numbers.join("\n");
        let text = format!(
            "{}\n",
            before.replace("\n5\n", "\nfive\n").replace("\n17", "")
        );
        let shown = "--- version 1\n+++ version 2\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
                     @@ -14,7 +14,6 @@\n 14\n 15\n 16\n-17\n 18\n 19\n-20\n\\ No newline at end of file\n+20\n";
        assert_eq!(difference(&before, &text).as_deref(), Some(shown));
        let new = "--- (nothing)\n+++ version 2\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n";
        assert_eq!(difference("", "a").as_deref(), Some(new));
        assert_eq!(difference("a", "a"), None);
    }

    /// Regression test: a cleanup of repeated lines moved changes out of order.
    #[test]
    fn hunk_headers_match_their_lines() {
        for (old, new) in (1..5).flat_map(|old| (1..5).map(move |new| (old, new))) {
            let cycle = |length| {
                (0..40)
                    .map(|line| format!("{}\n", line % length))
                    .collect::<String>()
            };
            let Some(shown) = difference(&cycle(old), &cycle(new)) else {
                continue;
            };
            for hunk in shown.split("@@ -").skip(1) {
                let (header, lines) = hunk.split_once(" @@\n").unwrap();
                for (span, sign) in header.split(" +").zip(["-", "+"]) {
                    let length = span
                        .split_once(',')
                        .map_or(1, |(_, length)| length.parse().unwrap());
                    let count = lines
                        .lines()
                        .filter(|line| line.starts_with(' ') || line.starts_with(sign))
                        .count();
                    assert_eq!(count, length, "{old} {new}: {header}");
                }
            }
        }
    }

    #[test]
    fn too_many_lines_are_only_counted() {
        let (before, text) = ("a\n".repeat(MAX_LINES), "b\n".repeat(10));
        let sentence = "10 lines are in place of 200000; they are too many to be shown.\n";
        assert_eq!(difference(&before, &text).as_deref(), Some(sentence));
        assert!(
            difference(&before, &format!("{before}b\n"))
                .unwrap()
                .ends_with(" a\n+b\n")
        );
    }
}
