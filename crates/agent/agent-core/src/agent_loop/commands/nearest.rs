//! Suggestions for mistyped command names.

/// Returns the candidate closest to `word`: one that begins with `word`, or differs from it by at
/// most two edits.
pub(super) fn nearest(
    word: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let distance = |name: &str| {
        let is_begun = word.len() >= 2 && name.starts_with(&word);
        if is_begun {
            1
        } else {
            differences(&word, name)
        }
    };
    let allowed = if word.len() < 4 { 1 } else { 2 };
    let near = candidates
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Computes the optimal string alignment distance: the number of characters to add, remove,
/// replace, or swap with their neighbour.
fn differences(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let mut previous = None;
    for (row, character) in one.chars().enumerate() {
        let mut current = vec![row + 1];
        let mut left = None;
        for (column, &opposite) in other.iter().enumerate() {
            let at =
                |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&last, column) + usize::from(character != opposite);
            let mut cost = replaced
                .min(at(&last, column + 1) + 1)
                .min(at(&current, column) + 1);
            if previous == Some(opposite) && left == Some(character) && column > 0 {
                cost = cost.min(at(&before_last, column - 1) + 1);
            }
            current.push(cost);
            left = Some(opposite);
        }
        previous = Some(character);
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_command() {
        for (word, expected) in [
            ("stpo", Some("stop")),
            ("hlep", Some("help")),
            ("STATS", Some("status")),
            ("compct", Some("compact")),
            ("us", Some("usage")),
            ("nwe", Some("new")),
            ("frobnicate", None),
            ("x", None),
        ] {
            let names = ["new", "stop", "help", "status", "usage", "compact"];
            assert_eq!(nearest(word, names.into_iter()), expected, "{word}");
        }
    }

    #[test]
    fn computes_edit_distance() {
        for (one, other, count) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(differences(one, other), count, "{one} {other}");
        }
    }
}
