//! Finds the text that an edit replaces, or the most similar text if it is absent.

use std::{
    collections::HashMap,
    ops::Range,
    time::{Duration, Instant},
};

use similar::{
    Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, get_diff_ratio, group_diff_ops,
};

use crate::text::{lines_with_ends, without_end};

/// Maximum number of windows that are compared in full in the search for similar text.
const MAX_COMPARED: usize = 5_000;

/// Time limit of the search for similar text. Comparing takes quadratic time in the worst case.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// Minimum similarity of a text that is worth showing, exclusive.
const LEAST_RATIO: f32 = 0.5;

/// Maximum number of lines shown per operation of a diff, and approximately of a whole diff.
const MAX_SHOWN: usize = 200;

/// Finds `wanted` in `content`, in order: exact matches; if there are none, lines that differ only
/// in leading and trailing white space.
pub(super) fn matches(content: &str, wanted: &str) -> Vec<Range<usize>> {
    let exact: Vec<_> = content
        .match_indices(wanted)
        .map(|(start, found)| start..start + found.len())
        .collect();
    if exact.is_empty() {
        loose_matches(content, wanted)
    } else {
        exact
    }
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
    let trimmed: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let ends = occurrences(&trimmed, &wanted).into_iter();
    ends.filter_map(|end| {
        let first = lines.get((end + 1).checked_sub(wanted.len())?)?;
        Some(first.1.start..lines.get(end)?.1.end)
    })
    .collect()
}

/// Returns the positions in `lines` at which a match of all of `wanted` ends, in linear time
/// (Knuth-Morris-Pratt).
fn occurrences(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    // `fallback[n]` is the length of the longest proper prefix of the first `n` wanted lines that
    // is also their suffix.
    let mut fallback = vec![0, 0];
    let next = |fallback: &[usize], mut matched: usize, line: &str| {
        while matched > 0 && wanted.get(matched).copied() != Some(line) {
            matched = fallback.get(matched).copied().unwrap_or_default();
        }
        matched + usize::from(wanted.get(matched).copied() == Some(line))
    };
    for line in wanted.iter().skip(1) {
        let matched = fallback.last().copied().unwrap_or_default();
        fallback.push(next(&fallback, matched, line));
    }
    let mut matched = 0;
    let mut ends = Vec::new();
    for (position, line) in lines.iter().enumerate() {
        matched = next(&fallback, matched, line);
        if matched == wanted.len() {
            ends.push(position);
        }
    }
    ends
}

/// Explains that `wanted` is not in `content`, with a diff to the most similar lines if more than
/// half of them agree. Takes at most about [`TIME_LIMIT`].
pub(super) fn explain_absence(path: &str, content: &str, wanted: &str) -> String {
    let deadline = Instant::now() + TIME_LIMIT;
    let wanted: Vec<&str> = lines_with_ends(wanted).collect();
    let content: Vec<&str> = lines_with_ends(content).collect();
    match nearest(&content, &wanted, deadline) {
        Some(Nearest {
            ratio,
            start,
            lines,
            operations,
        }) => {
            let line = start + 1;
            let names = (
                "old_text (provided)",
                format!("{path} (actual, line {line})"),
            );
            let diff = unified_diff(&wanted, lines, operations, names.0, &names.1);
            let percent = (ratio * 100.0).round();
            format!(
                "old_text not found in {path}.\nBest match ({percent}% similar) at line {line}:\n{diff}"
            )
        }
        None => {
            format!(
                "old_text not found in {path}: no similar text. Read the file again and copy the text from it."
            )
        }
    }
}

/// The lines most similar to the wanted ones.
struct Nearest<'a> {
    ratio: f32,
    start: usize,
    lines: &'a [&'a str],
    operations: Vec<DiffOp>,
}

/// Returns the window of `content` most similar to `wanted`, among those that agree in more than
/// half of their lines. Returns the best one so far if the `deadline` passes.
fn nearest<'a>(content: &'a [&'a str], wanted: &[&str], deadline: Instant) -> Option<Nearest<'a>> {
    let size = wanted.len().clamp(1, content.len().max(1));
    let mut common = CommonLines::new(wanted);
    let mut best: Option<Nearest<'_>> = None;
    let mut compared = 0;
    let (head, tail) = content.split_at_checked(size - 1)?;
    head.iter().for_each(|line| common.add(line));
    for ((start, window), last) in content.windows(size).enumerate().zip(tail) {
        common.add(last);
        let least = best.as_ref().map_or(LEAST_RATIO, |best| best.ratio);
        // The number of common lines bounds the ratio, which rules out most windows without a diff.
        let is_possible = ratio(common.count, wanted.len() + window.len()) > least;
        if let Some(first) = window.first() {
            common.remove(first);
        }
        if !is_possible {
            continue;
        }
        compared += 1;
        if compared > MAX_COMPARED || Instant::now() >= deadline {
            break;
        }
        let operations =
            capture_diff_slices_deadline(Algorithm::Myers, wanted, window, Some(deadline));
        let ratio = get_diff_ratio(&operations, wanted.len(), window.len());
        if ratio > least {
            best = Some(Nearest {
                ratio,
                start,
                lines: window,
                operations,
            });
        }
    }
    best
}

/// Counts the lines that a window has in common with the wanted ones, in any order.
struct CommonLines<'a> {
    /// Wanted occurrences minus occurrences in the window, for each wanted line.
    lacking: HashMap<&'a str, isize>,
    count: usize,
}

impl<'a> CommonLines<'a> {
    fn new(wanted: &[&'a str]) -> Self {
        let mut lacking = HashMap::new();
        wanted
            .iter()
            .for_each(|line| *lacking.entry(*line).or_insert(0) += 1);
        Self { lacking, count: 0 }
    }

    /// Adds a line to the window.
    fn add(&mut self, line: &str) {
        if let Some(lacking) = self.lacking.get_mut(line) {
            self.count += usize::from(*lacking > 0);
            *lacking -= 1;
        }
    }

    /// Removes a line from the window.
    fn remove(&mut self, line: &str) {
        if let Some(lacking) = self.lacking.get_mut(line) {
            *lacking += 1;
            self.count -= usize::from(*lacking > 0);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound for a percentage")]
fn ratio(common: usize, total: usize) -> f32 {
    2.0 * common as f32 / total as f32
}

/// Formats a unified diff with three lines of context. Lines keep their terminators and are joined
/// by another newline, as in the Python program.
fn unified_diff(
    old: &[&str],
    new: &[&str],
    operations: Vec<DiffOp>,
    old_name: &str,
    new_name: &str,
) -> String {
    let mut lines = vec![format!("--- {old_name}"), format!("+++ {new_name}")];
    for group in group_diff_ops(operations, 3) {
        if lines.len() > MAX_SHOWN {
            lines.push("… and more".to_owned());
            break;
        }
        lines.push(format!(
            "@@ -{} +{} @@",
            span(&group, DiffOp::old_range),
            span(&group, DiffOp::new_range)
        ));
        for operation in &group {
            push_lines(&mut lines, operation, old, new);
        }
    }
    lines.join("\n")
}

fn push_lines(lines: &mut Vec<String>, operation: &DiffOp, old: &[&str], new: &[&str]) {
    let mut push = |mark: char, source: &[&str], range: Range<usize>| {
        let shown = source
            .iter()
            .take(range.end)
            .skip(range.start)
            .take(MAX_SHOWN);
        lines.extend(shown.map(|line| format!("{mark}{line}")));
        if range.len() > MAX_SHOWN {
            lines.push(format!(
                "{mark}… and {} more lines",
                range.len() - MAX_SHOWN
            ));
        }
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

/// Formats the line range of one side of a hunk. Operations without lines on that side are ignored,
/// because the diff crate may give them positions that are out of order.
fn span(group: &[DiffOp], side: impl Fn(&DiffOp) -> Range<usize>) -> String {
    let ranges = || group.iter().map(&side).filter(|range| !range.is_empty());
    let Some(start) = ranges().map(|range| range.start).min() else {
        return format!("{},0", group.first().map_or(0, |first| side(first).start));
    };
    match ranges().map(|range| range.len()).sum() {
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_exactly_or_ignoring_outer_whitespace_of_lines() {
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
            let found: Vec<_> = matches(content, wanted)
                .into_iter()
                .map(|range| (range.start, range.end))
                .collect();
            assert_eq!(found, expected, "{content:?} {wanted:?}");
        }
    }

    #[test]
    fn long_file_of_equal_lines_is_searched_in_linear_time() {
        let content = "a\n".repeat(200_000);
        let wanted = format!(" {}b", "a\n".repeat(100_000));
        assert!(matches(&content, &wanted).is_empty());
        let overlapping: Vec<_> = matches("a\na\nb\na\na\na\n", " a\na").into_iter().collect();
        assert_eq!(overlapping, [0..3, 6..9, 8..11]);
    }

    #[test]
    fn nearest_match_search_keeps_its_deadline() {
        let lines = |order: &mut dyn Iterator<Item = usize>| {
            order.map(|line| format!("{line}\n")).collect::<String>()
        };
        let (content, wanted) = (lines(&mut (0..20_000)), lines(&mut (0..20_000).rev()));
        let began = Instant::now();
        let answer = explain_absence("f.txt", &content, &wanted);
        assert!(answer.contains("not found"), "{answer}");
        assert!(answer.len() < 100_000, "{}", answer.len());
        let hang_guard = Duration::from_secs(30);
        assert!(began.elapsed() < hang_guard, "the deadline was not kept");
    }

    #[test]
    fn finds_the_best_of_many_windows() {
        let content: String = (0..2_000)
            .map(|line| format!("{}\n", line % 50))
            .collect::<String>()
            + "x\ny\nz\n";
        let answer = explain_absence("f.txt", &content, "x\ny\n!\nz\n");
        assert!(
            answer.contains("at line 2000:") || answer.contains("at line 2001:"),
            "{answer}"
        );
    }

    #[test]
    fn shows_the_nearest_text_as_a_diff() {
        assert_eq!(
            explain_absence("f.txt", "a\nb\nc\n", "a\nb\nX"),
            "old_text not found in f.txt.\nBest match (67% similar) at line 1:\n\
             --- old_text (provided)\n+++ f.txt (actual, line 1)\n@@ -1,3 +1,3 @@\n a\n\n b\n\n-X\n+c\n"
        );
        assert!(explain_absence("f.txt", "a\nb\n", "x\ny").contains("no similar text"));
    }
}
