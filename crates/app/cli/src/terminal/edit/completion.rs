//! Completion of the word before the cursor.

/// A possible completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::terminal) struct Candidate {
    /// Text that replaces the word.
    pub(in crate::terminal) text: String,
    /// Description, possibly empty.
    pub(in crate::terminal) about: String,
    /// `true` if the word goes on after it, like the path of a folder.
    pub(in crate::terminal) is_open: bool,
}

impl Candidate {
    /// Returns a complete word.
    pub(in crate::terminal) fn word(text: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about: about.into(),
            is_open: false,
        }
    }
}

/// The completions of the word before the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::terminal) struct Completions {
    /// Where the word begins, in bytes.
    pub(in crate::terminal) start: usize,
    pub(in crate::terminal) candidates: Vec<Candidate>,
}

/// An open list of completions.
#[derive(Debug)]
pub(super) struct Menu {
    /// Start of the completed word.
    pub(super) start: usize,
    pub(super) candidates: Vec<Candidate>,
    pub(super) selected: Option<usize>,
}

impl Menu {
    /// Selects the next or the previous candidate and returns its text.
    pub(super) fn step(&mut self, forward: bool) -> Option<String> {
        let count = self.candidates.len();
        let last = count.checked_sub(1)?;
        self.selected = Some(match (self.selected, forward) {
            (None, true) => 0,
            (None, false) | (Some(0), false) => last,
            (Some(index), true) => (index + 1) % count,
            (Some(index), false) => index - 1,
        });
        self.candidates
            .get(self.selected?)
            .map(|candidate| candidate.text.clone())
    }

    /// Returns the range of candidates to show in `rows` rows, so that the selected one is visible.
    pub(super) fn visible(&self, rows: usize) -> std::ops::Range<usize> {
        let selected = self.selected.unwrap_or(0);
        let first = (selected + 1).saturating_sub(rows);
        first..(first + rows).min(self.candidates.len())
    }
}

/// Returns the longest common beginning of all candidates.
pub(super) fn common_prefix(candidates: &[Candidate]) -> String {
    let mut candidates = candidates.iter().map(|candidate| candidate.text.as_str());
    let Some(first) = candidates.next() else {
        return String::new();
    };
    let mut length = first.len();
    for other in candidates {
        let common = first
            .char_indices()
            .zip(other.chars())
            .find(|((_, a), b)| a != b)
            .map_or(first.len().min(other.len()), |((index, _), _)| index);
        length = length.min(common);
    }
    first.get(..length).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefix_ends_between_characters() {
        for (texts, expected) in [
            (&["/stop", "/status"][..], "/st"),
            (&["日本", "日曜"], "日"),
            (&["a"], "a"),
            (&["ab", "a"], "a"),
            (&[], ""),
        ] {
            let candidates: Vec<Candidate> = texts
                .iter()
                .map(|text| Candidate::word(*text, ""))
                .collect();
            assert_eq!(common_prefix(&candidates), expected, "{texts:?}");
        }
    }
}
