//! Conversations as a person sees them: lists, the names of new ones, and the last exchange.
//!
//! Decision: everything is read from the files, also next to a gateway. Of each conversation only
//! the beginning and the end are read, and texts are searched in the index, so the cost depends on
//! the number of conversations and not on their length.

use std::collections::HashSet;

use nanobot_agent_core::is_subagent_session;
use nanobot_config::Config;
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_session::{
    Entry, LastExchange, ReadFrom, SessionInfo, SessionPreview, SessionReach, SessionSearch as _,
    TurnOutcome,
};
use nanobot_types::{SessionKey, Timestamp};

use crate::{RuntimeError, search_index, session_store};

/// Maximum number of found messages whose conversations are listed.
const MAX_HITS: usize = 500;
/// Maximum length of the name of a new conversation, in characters.
const NAME_LIMIT: usize = 64;
/// Maximum length of a text of an exchange, in characters.
const TEXT_LIMIT: usize = 4_000;

/// Selection of conversations to list. The default is all of them, without those of subagents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationFilter {
    /// Words that occur in the key, the title or the text.
    pub search: Option<String>,
    /// Maximum number of conversations; all of them if `None`.
    pub limit: Option<usize>,
    /// `true` to include the sessions of subagents.
    pub with_subagents: bool,
}

/// A conversation in a list. Its texts are single lines without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Its key.
    pub key: SessionKey,
    /// The name that a person gave it, or else its first message; empty if it has neither.
    pub title: String,
    /// `true` if a person named it.
    pub is_named: bool,
    /// Time of the last write.
    pub updated_at: Option<Timestamp>,
    /// Number of messages.
    pub messages: u64,
    /// The last message of a person or of the assistant.
    pub latest: Option<String>,
}

/// Returns the keys of the conversations of a workspace, the latest first, without those of
/// subagents.
///
/// # Errors
/// Returns the errors of [`session_store`] and [`RuntimeError::Sessions`] if the conversations
/// cannot be listed.
pub async fn conversation_keys(config: &Config) -> Result<Vec<SessionKey>, RuntimeError> {
    let listed = session_store(config)?.list().await?;
    let keys = listed.into_iter().map(|info| info.key);
    Ok(keys.filter(|key| !is_subagent_session(key)).collect())
}

/// Returns the keys of the deleted conversations of a workspace with the times of their deletion.
///
/// # Errors
/// Returns the same errors as [`conversation_keys`].
pub async fn deleted_conversation_keys(
    config: &Config,
) -> Result<Vec<(SessionKey, Timestamp)>, RuntimeError> {
    let store = session_store(config)?;
    let Some(catalog) = store.catalog() else {
        return Ok(Vec::new());
    };
    let deleted = catalog.deleted().await?.into_iter();
    Ok(deleted.map(|session| (session.key, session.at)).collect())
}

/// Returns the conversations of a workspace, the latest first.
///
/// # Errors
/// Returns the errors of [`session_store`] and [`RuntimeError::Sessions`] if the conversations
/// cannot be listed.
pub async fn conversations(
    config: &Config,
    filter: &ConversationFilter,
) -> Result<Vec<ConversationSummary>, RuntimeError> {
    let store = session_store(config)?;
    let search = filter.search.as_deref().map(str::trim);
    let search = search.filter(|search| !search.is_empty());
    let found = match search {
        Some(search) => found_in_text(config, search).await,
        None => HashSet::new(),
    };
    let mut summaries = Vec::new();
    for info in store.list().await? {
        if !filter.with_subagents && is_subagent_session(&info.key) {
            continue;
        }
        if filter.limit.is_some_and(|limit| summaries.len() >= limit) {
            break;
        }
        let preview = match store.catalog() {
            Some(catalog) => catalog.preview(&info.key).await,
            None => Ok(SessionPreview::default()),
        };
        // A conversation that cannot be read is listed too.
        let preview = preview.unwrap_or_else(|error| {
            tracing::warn!(%error, session = %info.key, "could not read a conversation");
            SessionPreview::default()
        });
        let summary = summary(info, preview);
        if search.is_none_or(|search| found.contains(&summary.key) || matches(&summary, search)) {
            summaries.push(summary);
        }
    }
    Ok(summaries)
}

fn summary(info: SessionInfo, preview: SessionPreview) -> ConversationSummary {
    let name = info.title();
    ConversationSummary {
        is_named: name.is_some(),
        title: name.or(preview.opening).unwrap_or_default(),
        key: info.key,
        updated_at: info.updated_at,
        messages: info.messages,
        latest: preview.latest,
    }
}

fn matches(summary: &ConversationSummary, search: &str) -> bool {
    let text = format!("{}\n{}", summary.key, summary.title).to_lowercase();
    search
        .to_lowercase()
        .split_whitespace()
        .all(|word| text.contains(word))
}

/// Returns the conversations with a matching message. Without an index only titles are searched.
async fn found_in_text(config: &Config, search: &str) -> HashSet<SessionKey> {
    let index = match search_index(config) {
        Ok(index) => index,
        Err(error) => {
            tracing::warn!(%error, "could not search the texts of conversations");
            return HashSet::new();
        }
    };
    match index.search(&SessionReach::All, search, MAX_HITS).await {
        Ok(hits) => hits.into_iter().map(|hit| hit.session).collect(),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "could not search the texts of conversations");
            HashSet::new()
        }
    }
}

/// A name that was given for a conversation at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationName {
    /// No conversation has it.
    Free(SessionKey),
    /// This conversation has it, perhaps in another case.
    Taken(SessionKey),
}

/// Reason why a text cannot name a conversation at the terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversationNameError {
    /// It is empty.
    #[error("the name is empty; try a word, such as `travel`")]
    Empty,
    /// It is too long.
    #[error("the name has more than {NAME_LIMIT} characters; try a shorter one")]
    TooLong,
    /// It contains a character that is not allowed.
    #[error("the name cannot contain {}; use letters, digits, `-`, `_` and `.`", character.escape_debug())]
    Character {
        /// The first such character.
        character: char,
    },
    /// It begins with a dot or a hyphen.
    #[error("the name begins with `{character}`; begin with a letter or a digit")]
    Beginning {
        /// The first character.
        character: char,
    },
}

/// Checks the name of a conversation at the terminal, whose key is `cli:NAME`. The letters and
/// digits of every script are allowed, and `-`, `_` and `.` after the first character.
///
/// # Errors
/// Returns [`ConversationNameError`].
pub fn check_conversation_name(
    name: &str,
    existing: &[SessionKey],
) -> Result<ConversationName, ConversationNameError> {
    let name = name.trim();
    let first = name.chars().next().ok_or(ConversationNameError::Empty)?;
    if name.chars().nth(NAME_LIMIT).is_some() {
        return Err(ConversationNameError::TooLong);
    }
    let is_allowed = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(character) = name.chars().find(|c| !is_allowed(c)) {
        return Err(ConversationNameError::Character { character });
    }
    if !first.is_alphanumeric() {
        return Err(ConversationNameError::Beginning { character: first });
    }
    let key = format!("{TERMINAL_CHANNEL}:{name}");
    let lower = key.to_lowercase();
    let same = existing.iter().find(|known| known.as_str() == key);
    let alike = || {
        existing
            .iter()
            .find(|known| known.as_str().to_lowercase() == lower)
    };
    Ok(match same.or_else(alike) {
        Some(known) => ConversationName::Taken(known.clone()),
        None => ConversationName::Free(SessionKey::from(key)),
    })
}

/// The last exchange of a conversation, to show to a person who returns to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownExchange {
    /// The person's message.
    pub asked: String,
    /// Number of files attached to it.
    pub attachments: usize,
    /// The reply, if there is one.
    pub reply: Option<String>,
    /// Time of the person's message.
    pub at: Timestamp,
}

/// Returns the last exchange of a conversation, with texts of at most 4,000 characters; `None` if
/// there is none since its beginning or its last summary.
///
/// # Errors
/// Returns the errors of [`session_store`] and [`RuntimeError::Sessions`] if the conversation
/// cannot be read.
pub async fn last_exchange(
    config: &Config,
    session: &SessionKey,
) -> Result<Option<ShownExchange>, RuntimeError> {
    let view = session_store(config)?
        .read(session, ReadFrom::Cursor)
        .await?;
    Ok(LastExchange::of(&view).and_then(|exchange| {
        Some(ShownExchange {
            asked: shortened(&exchange.asked()),
            attachments: exchange.media().len(),
            reply: exchange.reply().map(|text| shortened(&text)),
            at: exchange.messages.first()?.at,
        })
    }))
}

/// Returns the last reply of a conversation since its beginning or its last summary.
///
/// # Errors
/// Returns the same errors as [`last_exchange`].
pub async fn last_reply(
    config: &Config,
    session: &SessionKey,
) -> Result<Option<String>, RuntimeError> {
    let view = session_store(config)?
        .read(session, ReadFrom::Cursor)
        .await?;
    Ok(view
        .records
        .iter()
        .rev()
        .find_map(|record| match &record.entry {
            Entry::TurnEnded(end) if end.outcome == TurnOutcome::Replied => end.visible.clone(),
            _ => None,
        }))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(TEXT_LIMIT.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_names_are_checked() {
        use ConversationNameError::{Beginning, Character, Empty, TooLong};
        let existing = ["cli:direct".into(), "cli:Travel".into(), "t:work".into()];
        let check = |name: &str| check_conversation_name(name, &existing);
        for (name, key) in [
            ("work", "cli:work"),
            (" 旅行-2 ", "cli:旅行-2"),
            ("a.b_c", "cli:a.b_c"),
        ] {
            assert_eq!(check(name), Ok(ConversationName::Free(key.into())));
        }
        for (name, key) in [("direct", "cli:direct"), ("travel", "cli:Travel")] {
            assert_eq!(check(name), Ok(ConversationName::Taken(key.into())));
        }
        for (name, error) in [
            ("", Empty),
            (" \t", Empty),
            ("../../etc/passwd", Character { character: '/' }),
            ("..", Beginning { character: '.' }),
            ("-rf", Beginning { character: '-' }),
            ("telegram:1", Character { character: ':' }),
            ("a b", Character { character: ' ' }),
            (
                "a\u{1b}[2J",
                Character {
                    character: '\u{1b}',
                },
            ),
            (
                "a\u{202e}b",
                Character {
                    character: '\u{202e}',
                },
            ),
            ("a\0b", Character { character: '\0' }),
        ] {
            assert_eq!(check(name), Err(error), "{name:?}");
        }
        assert_eq!(check(&"x".repeat(65)), Err(TooLong));
        assert!(check(&"界".repeat(64)).is_ok());
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(shortened("a"), "a");
        assert_eq!(shortened(&"界".repeat(TEXT_LIMIT)), "界".repeat(TEXT_LIMIT));
        assert_eq!(shortened(&"界".repeat(9_999)).chars().count(), TEXT_LIMIT);
    }
}
