//! Titles of conversations: the name that a person gave, or the first message.
//!
//! Decision: the name is stored under the metadata keys of the Python program, which keeps metadata
//! when it rewrites a file and shows this title in its web interface.

use nanobot_types::{Map, SessionKey};
use serde_json::Value;

use crate::{Entry, ReadFrom, Seq, SessionError, SessionInfo, SessionStore};

/// Metadata key of the title.
const TITLE: &str = "title";
/// Metadata key of the mark that a person chose the title, so that no program replaces it.
const CHOSEN: &str = "title_user_edited";
/// Maximum length of a name, in characters.
const NAME_LIMIT: usize = 120;
/// Maximum number of attempts to append while other writers append to the same session.
const TRIES: u32 = 8;

/// Reason why a text cannot be the name of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    /// The name is too long.
    #[error("the name has more than {NAME_LIMIT} characters")]
    TooLong,
    /// The name contains control characters.
    #[error("the name contains a line break or another control character")]
    Control,
}

/// Returns the text as one line of at most `limit` characters, without control characters. A longer
/// text is cut after a word, if one ends in the second half of the line, and marked with `…`.
#[must_use]
pub fn one_line(text: &str, limit: usize) -> String {
    // The result depends on a bounded part of the text, however long it is.
    let beginning: String = text.chars().take(limit.saturating_mul(8)).collect();
    let is_space = |c: char| c.is_whitespace() || c.is_control();
    let words: Vec<&str> = beginning
        .split(is_space)
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let is_whole = beginning.len() == text.len();
    if is_whole && line.chars().count() <= limit {
        return line;
    }
    let cut: String = line.chars().take(limit.saturating_sub(1)).collect();
    let at_word = cut
        .rsplit_once(' ')
        .map(|(words, _)| words)
        .filter(|words| words.chars().count() >= limit / 2);
    format!("{}…", at_word.unwrap_or(&cut).trim_end())
}

/// Checks a name for a conversation and returns it without surrounding whitespace; `None` if it is
/// empty, which removes the name.
///
/// # Errors
/// Returns [`TitleError`].
pub fn check_title(name: &str) -> Result<Option<String>, TitleError> {
    let name = name.trim();
    if name.chars().any(char::is_control) {
        return Err(TitleError::Control);
    }
    if name.chars().nth(NAME_LIMIT).is_some() {
        return Err(TitleError::TooLong);
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// Names a conversation, or removes its name. Returns `false` if there is no such conversation. The
/// conversation itself does not change, so this is safe while a turn runs.
///
/// # Errors
/// Returns any error of the store.
pub async fn rename(
    store: &dyn SessionStore,
    key: &SessionKey,
    name: Option<&str>,
) -> Result<bool, SessionError> {
    let changes = Map::from_iter([
        (TITLE.to_owned(), name.map_or(Value::Null, Value::from)),
        (
            CHOSEN.to_owned(),
            name.map_or(Value::Null, |_| Value::from(true)),
        ),
    ]);
    let mut tries = 0;
    loop {
        tries += 1;
        let view = store.read(key, ReadFrom::Seq(Seq(u64::MAX))).await?;
        if view.head == Seq(0) && view.metadata.is_empty() {
            return Ok(false);
        }
        let entry = Entry::Metadata(changes.clone());
        match store.append(key, view.head, vec![entry]).await {
            Err(SessionError::Moved { .. }) if tries < TRIES => {}
            appended => return appended.map(|_| true),
        }
    }
}

impl SessionInfo {
    /// Returns the name of the conversation as one line, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        let title = self.metadata.get(TITLE).and_then(Value::as_str)?;
        Some(one_line(title, NAME_LIMIT)).filter(|title| !title.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_words() {
        for (text, limit, line) in [
            ("hello", 10, "hello"),
            (" a\n\n b\t", 10, "a b"),
            ("one two three", 13, "one two three"),
            ("one two three", 12, "one two…"),
            ("supercalifragilistic", 8, "superca…"),
            ("a supercalifragilistic", 8, "a super…"),
            ("今天天气怎么样啊", 5, "今天天气…"),
            ("\u{1b}]0;owned\u{7} x", 20, "]0;owned x"),
            ("", 5, ""),
        ] {
            assert_eq!(one_line(text, limit), line, "{text:?}");
        }
        let long = "x".repeat(10_000_000);
        assert_eq!(one_line(&long, 60).chars().count(), 60);
        assert_eq!(one_line(&" ".repeat(100_000), 60), "…");
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(
            check_title(" Trip to Kyoto "),
            Ok(Some("Trip to Kyoto".to_owned()))
        );
        assert_eq!(check_title("  "), Ok(None));
        assert_eq!(check_title("a\nb"), Err(TitleError::Control));
        assert_eq!(check_title("\u{1b}[31mred"), Err(TitleError::Control));
        assert_eq!(check_title(&"界".repeat(121)), Err(TitleError::TooLong));
        assert!(check_title(&"界".repeat(120)).is_ok());
    }
}
