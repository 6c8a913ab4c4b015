//! Reads excerpts of the places that were found.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use super::query::{Match, SearchHit};
use super::terms::Term;

/// Maximum length of an excerpt, in characters.
const EXCERPT_LENGTH: usize = 240;
/// Part of it before the word, in characters.
const BEFORE: usize = 80;
/// Maximum number of bytes read of a line.
const LINE_LIMIT: u64 = 4 << 20;

/// Reads the excerpts of the places. Of equal excerpts the best place is kept. A place that no
/// longer exists is left out.
pub(crate) fn of_places(places: Vec<Match>, terms: &[Term], limit: usize) -> Vec<SearchHit> {
    let (mut seen, mut told) = (HashSet::new(), HashSet::new());
    let mut found = Vec::new();
    for place in places {
        if found.len() >= limit {
            break;
        }
        // A long line has several pieces.
        if !seen.insert((place.path.clone(), place.line)) {
            continue;
        }
        let Ok(line) = line(&place) else { continue };
        let read = place.form.read(&line);
        let excerpt = around(&read.text, terms);
        if !excerpt.is_empty() && told.insert(excerpt.clone()) {
            found.push(SearchHit {
                place,
                excerpt,
                role: read.role,
                at: read.at,
            });
        }
    }
    found
}

fn line(place: &Match) -> io::Result<Vec<u8>> {
    let mut file = File::open(&place.path)?;
    file.seek(SeekFrom::Start(place.start))?;
    let mut bytes = Vec::new();
    file.take(place.length.min(LINE_LIMIT))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the text around the first term of the query, on one line.
fn around(text: &str, terms: &[Term]) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let small = flat.to_lowercase();
    let first = terms
        .iter()
        .filter_map(|term| small.find(&term.text))
        .min()
        .unwrap_or(0);
    // Counted in characters, which is close enough where lower case is longer than upper case.
    let first = small
        .get(..first)
        .map_or(0, |before| before.chars().count());
    let total = flat.chars().count();
    let start = if total <= EXCERPT_LENGTH {
        0
    } else {
        first.saturating_sub(BEFORE).min(total - EXCERPT_LENGTH)
    };
    let shown: String = flat.chars().skip(start).take(EXCERPT_LENGTH).collect();
    let (open, close) = (
        if start > 0 { "…" } else { "" },
        if start + EXCERPT_LENGTH < total {
            "…"
        } else {
            ""
        },
    );
    format!("{open}{shown}{close}")
}

#[cfg(test)]
mod tests {
    use super::super::terms::query_terms;
    use super::*;

    #[test]
    fn excerpt_contains_the_matched_word() {
        let long = format!(
            "{} Zanzibar {}",
            "before ".repeat(100),
            "behind ".repeat(100)
        );
        for (text, query, expected) in [
            ("a  b\n\nc", "b", "a b c"),
            ("住在北京很久", "北京", "住在北京很久"),
            ("nothing", "else", "nothing"),
            ("", "x", ""),
        ] {
            assert_eq!(around(text, &query_terms(query)), expected);
        }
        let excerpt = around(&long, &query_terms("zanz"));
        assert!(
            excerpt.starts_with('…')
                && excerpt.ends_with('…')
                && excerpt.contains(" Zanzibar behind"),
            "{excerpt}"
        );
        assert_eq!(excerpt.chars().count(), EXCERPT_LENGTH + 2);
    }
}
