//! Finding the text that an edit wants to replace, and the nearest thing when it is not there.

use std::{collections::HashSet, ops::Range};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, get_diff_ratio, group_diff_ops};

use crate::text::{lines_with_ends, without_end};

/// How many places are compared in full when the nearest text is looked for.
const MAX_COMPARED: usize = 5_000;

/// Where the wanted text is in `content`, in order: exactly; else as lines that differ only in
/// white space at their ends.
pub(super) fn matches(content: &str, wanted: &str) -> Vec<Range<usize>> {
    let exact: Vec<_> = content.match_indices(wanted).map(|(start, found)| start..start + found.len()).collect();
    if exact.is_empty() { loose_matches(content, wanted) } else { exact }
}

fn loose_matches(content: &str, wanted: &str) -> Vec<Range<usize>> {
    let wanted: Vec<&str> = lines_with_ends(wanted).map(str::trim).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut start = 0;
    let lines: Vec<(&str, Range<usize>)> = lines_with_ends(content)
        .map(|line| {
            let span = start..start + without_end(line).len();
            start += line.len();
            (line.trim(), span)
        })
        .collect();
    lines
        .windows(wanted.len())
        .filter(|window| window.iter().map(|(line, _)| line).eq(&wanted))
        .filter_map(|window| Some(window.first()?.1.start..window.last()?.1.end))
        .collect()
}

/// Says that `wanted` is not in `content`, with a diff to the most similar lines if more than half
/// of them agree.
pub(super) fn explain_absence(path: &str, content: &str, wanted: &str) -> String {
    let wanted: Vec<&str> = lines_with_ends(wanted).collect();
    let content: Vec<&str> = lines_with_ends(content).collect();
    match nearest(&content, &wanted) {
        Some((ratio, start, actual)) if ratio > 0.5 => {
            let line = start + 1;
            let names = ("old_text (provided)", format!("{path} (actual, line {line})"));
            let diff = unified_diff(&wanted, actual, names.0, &names.1);
            let percent = (ratio * 100.0).round();
            format!("old_text not found in {path}.\nBest match ({percent}% similar) at line {line}:\n{diff}")
        }
        _ => format!("old_text not found in {path}: no similar text. Read the file again and copy the text from it."),
    }
}

/// The window of `content` most similar to `wanted`, with its ratio and first line.
fn nearest<'a>(content: &'a [&'a str], wanted: &[&str]) -> Option<(f32, usize, &'a [&'a str])> {
    let size = wanted.len().clamp(1, content.len().max(1));
    let known: HashSet<&str> = wanted.iter().copied().collect();
    let before = counts(content.iter().map(|line| known.contains(line)));
    let mut best: Option<(f32, usize, &[&str])> = None;
    let mut compared = 0;
    for (start, window) in content.windows(size).enumerate() {
        let least = best.map_or(0.0, |(ratio, ..)| ratio);
        // Lines that occur in both bound the ratio; most windows are done with here.
        let (Some(from), Some(to)) = (before.get(start), before.get(start + size)) else { break };
        if ratio(to - from, wanted.len() + window.len()) <= least {
            continue;
        }
        compared += 1;
        if compared > MAX_COMPARED {
            break;
        }
        let operations = capture_diff_slices(Algorithm::Myers, wanted, window);
        let ratio = get_diff_ratio(&operations, wanted.len(), window.len());
        if ratio > least {
            best = Some((ratio, start, window));
        }
    }
    best
}

/// How many of the `flags` are set before each of them, and in all.
fn counts(flags: impl Iterator<Item = bool>) -> Vec<usize> {
    let mut total = 0;
    let mut counts = vec![0];
    counts.extend(flags.map(|flag| {
        total += usize::from(flag);
        total
    }));
    counts
}

#[expect(clippy::cast_precision_loss, reason = "a bound for a percentage")]
fn ratio(common: usize, total: usize) -> f32 {
    2.0 * common as f32 / total as f32
}

/// A unified diff with three lines of context. Lines keep their terminators and are joined by
/// another newline, as the Python program prints them.
fn unified_diff(old: &[&str], new: &[&str], old_name: &str, new_name: &str) -> String {
    let mut lines = vec![format!("--- {old_name}"), format!("+++ {new_name}")];
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, old, new), 3) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        lines.push(format!(
            "@@ -{} +{} @@",
            span(first.old_range().start, last.old_range().end),
            span(first.new_range().start, last.new_range().end),
        ));
        for operation in &group {
            push_lines(&mut lines, operation, old, new);
        }
    }
    lines.join("\n")
}

fn push_lines(lines: &mut Vec<String>, operation: &DiffOp, old: &[&str], new: &[&str]) {
    let mut push = |mark: char, source: &[&str], range: Range<usize>| {
        lines.extend(source.iter().take(range.end).skip(range.start).map(|line| format!("{mark}{line}")));
    };
    match operation.tag() {
        DiffTag::Equal => push(' ', old, operation.old_range()),
        DiffTag::Delete => push('-', old, operation.old_range()),
        DiffTag::Insert => push('+', new, operation.new_range()),
        DiffTag::Replace => {
            push('-', old, operation.old_range());
            push('+', new, operation.new_range());
        }
    }
}

/// A range of lines as diffs write it.
fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_exactly_or_up_to_white_space_at_line_ends() {
        type Found = &'static [(usize, usize)];
        let table: [(&str, &str, Found); 6] = [
            ("hello world", "world", &[(6, 11)]),
            ("hello", "absent", &[]),
            ("a\n    b\nc\n", "a\n  b", &[(0, 7)]),
            ("x x x", "x", &[(0, 1), (2, 3), (4, 5)]),
            ("one\n two\n\tone\n", "one ", &[(0, 3), (9, 13)]),
            ("", "x", &[]),
        ];
        for (content, wanted, expected) in table {
            let found: Vec<_> = matches(content, wanted).into_iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected, "{content:?} {wanted:?}");
        }
    }

    #[test]
    fn the_nearest_text_is_shown_as_a_diff() {
        assert_eq!(
            explain_absence("f.txt", "a\nb\nc\n", "a\nb\nX"),
            "old_text not found in f.txt.\nBest match (67% similar) at line 1:\n\
             --- old_text (provided)\n+++ f.txt (actual, line 1)\n@@ -1,3 +1,3 @@\n a\n\n b\n\n-X\n+c\n"
        );
        assert!(explain_absence("f.txt", "a\nb\n", "x\ny").contains("no similar text"));
    }
}
