//! Moving and searching in the entries of the history.

/// The entries, oldest first, and the position in them.
#[derive(Debug, Default)]
pub(super) struct HistoryCursor {
    entries: Vec<String>,
    /// The shown entry; `None` while the person types.
    position: Option<usize>,
    /// Text that was typed before an entry was shown.
    typed: String,
}

impl HistoryCursor {
    pub(super) fn new(entries: Vec<String>) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }

    /// Adds an entry, unless it repeats the last one, and ends the movement.
    pub(super) fn push(&mut self, entry: &str) {
        if self.entries.last().is_none_or(|last| last != entry) {
            self.entries.push(entry.to_owned());
        }
        self.reset();
    }

    /// Ends the movement: the next one begins at the newest entry.
    pub(super) fn reset(&mut self) {
        self.position = None;
    }

    /// Returns the next older entry that begins with what was typed.
    pub(super) fn older(&mut self, text: &str) -> Option<&str> {
        if self.position.is_none() {
            text.clone_into(&mut self.typed);
        }
        let end = self.position.unwrap_or(self.entries.len());
        let found = self
            .entries
            .iter()
            .take(end)
            .rposition(|entry| entry.starts_with(&self.typed) && entry != text)?;
        self.position = Some(found);
        self.entries.get(found).map(String::as_str)
    }

    /// Returns the next newer entry, or the typed text after the newest one; `None` while the
    /// person types.
    pub(super) fn newer(&mut self, text: &str) -> Option<&str> {
        let position = self.position?;
        let found = self
            .entries
            .iter()
            .enumerate()
            .skip(position + 1)
            .find(|(_, entry)| entry.starts_with(&self.typed) && *entry != text)
            .map(|(index, _)| index);
        self.position = found;
        match found {
            Some(index) => self.entries.get(index).map(String::as_str),
            None => Some(&self.typed),
        }
    }
}

/// A search in the history: the newest entry that contains the query.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) query: String,
    /// Index after the last entry to consider.
    end: usize,
    found: Option<usize>,
}

impl Search {
    pub(super) fn new(history: &HistoryCursor) -> Self {
        Self {
            query: String::new(),
            end: history.entries.len(),
            found: None,
        }
    }

    /// Returns the found entry.
    pub(super) fn entry<'a>(&self, history: &'a HistoryCursor) -> Option<&'a str> {
        history.entries.get(self.found?).map(String::as_str)
    }

    /// Searches from the newest entry after the query changed.
    pub(super) fn restart(&mut self, history: &HistoryCursor) {
        self.end = history.entries.len();
        self.find(history);
    }

    /// Searches for an older entry; stays if there is none.
    pub(super) fn older(&mut self, history: &HistoryCursor) {
        let before = (self.end, self.found);
        self.end = self.found.unwrap_or(self.end);
        self.find(history);
        if self.found.is_none() {
            (self.end, self.found) = before;
        }
    }

    fn find(&mut self, history: &HistoryCursor) {
        let query = self.query.to_lowercase();
        let shown = self.entry(history).map(str::to_owned);
        self.found = history
            .entries
            .iter()
            .take(self.end)
            .rposition(|entry| {
                entry.to_lowercase().contains(&query)
                    && (self.end == history.entries.len() || shown.as_deref() != Some(entry))
            })
            .filter(|_| !query.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> HistoryCursor {
        let entries = ["git log", "cargo test", "git push", "ls"];
        HistoryCursor::new(entries.map(str::to_owned).to_vec())
    }

    #[test]
    fn movement_keeps_to_entries_that_begin_as_typed() {
        let mut history = history();
        assert_eq!(history.older("git"), Some("git push"));
        assert_eq!(history.older("git push"), Some("git log"));
        assert_eq!(history.older("git log"), None);
        assert_eq!(history.newer("git log"), Some("git push"));
        assert_eq!(history.newer("git push"), Some("git"));
        assert_eq!(history.newer("git"), None);
    }

    #[test]
    fn search_goes_to_older_entries_and_stays_at_the_oldest() {
        let history = history();
        let mut search = Search::new(&history);
        search.query = "GIT".to_owned();
        search.restart(&history);
        assert_eq!(search.entry(&history), Some("git push"));
        search.older(&history);
        assert_eq!(search.entry(&history), Some("git log"));
        search.older(&history);
        assert_eq!(search.entry(&history), Some("git log"));
        search.query = "nothing".to_owned();
        search.restart(&history);
        assert_eq!(search.entry(&history), None);
    }
}
