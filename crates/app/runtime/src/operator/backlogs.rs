//! Messages that wait for consent to be summarised, over all sessions of a home.
//!
//! Decision: only the metadata of sessions is read, and only a few sessions are listed, so the
//! report is short and cheap with any number of sessions.

use std::fmt;

use nanobot_agent_core::WaitingMessages;
use nanobot_escape::{sanitize_line, shell_word};
use nanobot_session::SessionInfo;
use serde::Serialize;

/// Maximum number of listed sessions.
const LISTED: usize = 5;
/// Maximum number of characters of a model's error.
const MAX_TROUBLE: usize = 120;

/// The messages of one session that wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionBacklog {
    /// The session.
    pub session: String,
    /// Number of messages.
    pub messages: u64,
    /// Estimated number of requests for their summaries.
    pub requests: u64,
    /// Estimated number of tokens of these requests.
    pub tokens: u64,
    /// The model's error, if earlier summaries failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The messages of all sessions that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backlogs {
    /// Number of sessions that have such messages.
    pub sessions: usize,
    /// Number of messages.
    pub messages: u64,
    /// Estimated number of requests for their summaries.
    pub requests: u64,
    /// Estimated number of tokens of these requests.
    pub tokens: u64,
    /// The sessions with most of these messages, at most five.
    pub largest: Vec<SessionBacklog>,
}

impl Backlogs {
    /// Collects the messages that wait in listed sessions.
    pub(crate) fn of(sessions: &[SessionInfo]) -> Self {
        let waiting = sessions.iter().filter_map(|info| {
            let waiting = WaitingMessages::of(&info.metadata)?;
            Some(SessionBacklog {
                session: info.key.to_string(),
                messages: waiting.messages,
                requests: waiting.requests,
                tokens: waiting.tokens,
                trouble: waiting.trouble,
            })
        });
        let mut largest: Vec<SessionBacklog> = waiting.collect();
        let sum = |number: fn(&SessionBacklog) -> u64| {
            let numbers = largest.iter().map(number);
            numbers.fold(0, u64::saturating_add)
        };
        let (messages, requests, tokens) = (
            sum(|session| session.messages),
            sum(|session| session.requests),
            sum(|session| session.tokens),
        );
        let sessions = largest.len();
        // Sessions are listed by their last use, and the order of equal ones stays.
        largest.sort_by_key(|session| std::cmp::Reverse(session.messages));
        largest.truncate(LISTED);
        Self {
            sessions,
            messages,
            requests,
            tokens,
            largest,
        }
    }

    /// `true` if no messages wait.
    pub(crate) const fn is_empty(&self) -> bool {
        self.sessions == 0
    }

    /// Returns how many sessions are not listed; `None` if all are.
    pub(crate) fn unlisted(&self) -> Option<String> {
        match self.sessions.saturating_sub(self.largest.len()) {
            0 => None,
            1 => Some("and 1 more session".to_owned()),
            more => Some(format!("and {more} more sessions")),
        }
    }

    /// Returns what starts the summaries.
    pub(crate) fn remedy(&self) -> String {
        let first = self.largest.first();
        let session = first.map_or_else(String::new, |first| shell_word(&first.session));
        format!(
            "To summarise them, send /summarize in the chat, or run `nanobot agent -s {session} -m /summarize`. \
             With `/summarize stop` they stay as they are."
        )
    }
}

impl fmt::Display for Backlogs {
    /// Formats the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = match self.sessions {
            1 => "session",
            _ => "sessions",
        };
        write!(
            f,
            "{} older messages of {} {noun} wait for consent (about {} requests with {} tokens)",
            self.messages, self.sessions, self.requests, self.tokens
        )
    }
}

impl fmt::Display for SessionBacklog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = sanitize_line(&self.session);
        write!(
            f,
            "{session}: {} messages, about {} requests with {} tokens",
            self.messages, self.requests, self.tokens
        )?;
        match &self.trouble {
            Some(trouble) => {
                let short: String = sanitize_line(trouble).chars().take(MAX_TROUBLE).collect();
                write!(f, "; the model failed ({short})")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_session::CONSOLIDATION;
    use nanobot_types::Map;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a session with a chunk of messages in this state of consent.
    fn session(key: &str, consent: &str, messages: u64) -> SessionInfo {
        let chunk = json!({
            "from": 0, "upto": messages, "left": true, "consent": consent,
            "cost": {"messages": messages, "requests": messages / 10, "tokens": messages * 100},
        });
        let metadata = [(CONSOLIDATION.to_owned(), json!({"chunks": [chunk]}))];
        SessionInfo {
            key: key.into(),
            created_at: None,
            updated_at: None,
            messages,
            metadata: Map::from_iter(metadata),
        }
    }

    #[test]
    fn lists_the_largest_waiting_sessions() {
        let mut sessions: Vec<SessionInfo> = (1..=40)
            .map(|number| session(&format!("telegram:{number}"), "awaited", number * 100))
            .collect();
        sessions.push(session("cli:direct", "given", 9_000));
        let backlogs = Backlogs::of(&sessions);
        assert_eq!((backlogs.sessions, backlogs.messages), (40, 82_000));
        let listed: Vec<String> = backlogs.largest.iter().map(ToString::to_string).collect();
        assert_eq!(
            listed.first().map(String::as_str),
            Some("telegram:40: 4000 messages, about 400 requests with 400000 tokens")
        );
        assert_eq!(listed.len(), 5);
        assert_eq!(backlogs.unlisted().as_deref(), Some("and 35 more sessions"));
        assert_eq!(
            backlogs.to_string(),
            "82000 older messages of 40 sessions wait for consent (about 8200 requests with 8200000 tokens)"
        );
        let remedy = backlogs.remedy();
        assert!(
            remedy.contains("`nanobot agent -s 'telegram:40' -m /summarize`"),
            "{remedy}"
        );
    }

    #[test]
    fn control_characters_are_not_printed() {
        let mut sessions = [session("websocket:a\u{1b}[31mb\nc", "awaited", 100)];
        let state = sessions[0].metadata.get_mut(CONSOLIDATION).unwrap();
        state["chunks"][0]["trouble"] = Value::from("no\u{1b}[2J key");
        let backlogs = Backlogs::of(&sessions);
        assert_eq!(
            backlogs.largest[0].to_string(),
            "websocket:a[31mb c: 100 messages, about 10 requests with 10000 tokens; the model failed (no[2J key)"
        );
        let remedy = backlogs.remedy();
        assert!(!remedy.contains(['\u{1b}', '\n']), "{remedy}");
    }

    #[test]
    fn name_of_a_session_is_one_word_of_the_command() {
        let backlogs = Backlogs::of(&[session("websocket:'; reboot; '", "awaited", 100)]);
        let remedy = backlogs.remedy();
        let command = r"nanobot agent -s 'websocket:'\''; reboot; '\''' -m /summarize";
        assert!(remedy.contains(command), "{remedy}");
    }
}
