//! Token usage of sessions, and how much of it prompt caches served.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_types::{SessionKey, Usage};

use super::Agent;
use crate::Miss;

/// Maximum number of sessions whose tokens are counted separately.
const MAX_SESSIONS: usize = 1024;

/// Tokens since the program started.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<TokenCounts>);

#[derive(Debug, Default)]
struct TokenCounts {
    all: Usage,
    by_session: HashMap<SessionKey, Tokens>,
}

/// Tokens of a session since the program started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens {
    /// Of all turns.
    pub(super) sum: Usage,
    /// Of the last turn.
    pub(super) last: Usage,
}

impl Totals {
    /// Counts the tokens of a turn.
    pub(super) fn add(&self, session: &SessionKey, usage: Usage) {
        let mut counted = self.lock();
        counted.all += usage;
        if counted.by_session.len() < MAX_SESSIONS || counted.by_session.contains_key(session) {
            let tokens = counted.by_session.entry(session.clone()).or_default();
            tokens.sum += usage;
            tokens.last = usage;
        }
    }

    pub(super) fn of(&self, session: &SessionKey) -> Tokens {
        self.lock()
            .by_session
            .get(session)
            .copied()
            .unwrap_or_default()
    }

    fn all(&self) -> Usage {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, TokenCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Token usage and cache misses, for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageReport {
    /// Tokens of all sessions since the program started.
    pub total: Usage,
    /// Tokens of this session since the program started.
    pub session: Usage,
    /// Tokens of this session's last turn; zero if there was none since the start.
    pub last_turn: Usage,
    /// Requests of this session since the start that did not begin with the previous one.
    pub misses: u64,
    /// The last such request, of this or an earlier process.
    pub last_miss: Option<Miss>,
}

impl Agent {
    /// Returns the token usage of a session and its last cache miss.
    pub async fn usage_report(&self, session: &SessionKey) -> UsageReport {
        let (last_miss, misses) = self.prefixes.misses(session).await;
        let Tokens { sum, last } = self.totals.of(session);
        UsageReport {
            total: self.totals.all(),
            session: sum,
            last_turn: last,
            misses,
            last_miss,
        }
    }
}

/// Returns the share of prompt tokens that came from the cache, in percent.
pub(super) fn share(usage: &Usage) -> u64 {
    (usage.cached_tokens * 100)
        .checked_div(usage.prompt_tokens)
        .unwrap_or(0)
}

fn line(usage: &Usage) -> String {
    let written = match usage.cache_write_tokens {
        0 => String::new(),
        tokens => format!(", {tokens} written to it"),
    };
    let Usage {
        prompt_tokens,
        completion_tokens,
        cached_tokens,
        ..
    } = usage;
    let share = share(usage);
    format!(
        "{prompt_tokens} in ({cached_tokens} from the cache, {share} %{written}), {completion_tokens} out"
    )
}

impl fmt::Display for UsageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Tokens since start: {}", line(&self.total))?;
        writeln!(f, "This conversation: {}", line(&self.session))?;
        if self.last_turn != Usage::default() {
            writeln!(f, "Last turn: {}", line(&self.last_turn))?;
        }
        match (&self.last_miss, self.misses) {
            (None, _) => write!(
                f,
                "Prompt cache: no request broke the prefix of the one before"
            ),
            (Some(miss), misses) => write!(
                f,
                "Prompt cache: {misses} breaks since start, the last in {miss}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MissEvent;

    fn usage(
        prompt_tokens: u64,
        cached_tokens: u64,
        cache_write_tokens: u64,
        completion_tokens: u64,
    ) -> Usage {
        Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens,
            cache_write_tokens,
            reasoning_tokens: 0,
        }
    }

    #[test]
    fn usage_report_text_is_stable() {
        let totals = Totals::default();
        totals.add(&"a".into(), usage(1000, 0, 900, 50));
        totals.add(&"a".into(), usage(1100, 990, 100, 60));
        totals.add(&"b".into(), usage(10, 0, 0, 1));
        let Tokens { sum, last } = totals.of(&"a".into());
        let quiet = UsageReport {
            total: totals.all(),
            session: sum,
            last_turn: last,
            misses: 0,
            last_miss: None,
        };
        assert_eq!(
            quiet.to_string(),
            "Tokens since start: 2110 in (990 from the cache, 46 %, 1000 written to it), 111 out\n\
             This conversation: 2100 in (990 from the cache, 47 %, 1000 written to it), 110 out\n\
             Last turn: 1100 in (990 from the cache, 90 %, 100 written to it), 60 out\n\
             Prompt cache: no request broke the prefix of the one before"
        );
        let at = chrono::DateTime::parse_from_rfc3339("2026-11-22T03:04:05Z").unwrap();
        let miss = Miss {
            event: MissEvent::ToolsChanged,
            section: "tool mcp_web".to_owned(),
            byte: 4213,
            at,
        };
        let broken = UsageReport {
            session: Usage::default(),
            last_turn: Usage::default(),
            misses: 2,
            last_miss: Some(miss),
            ..quiet
        };
        assert_eq!(
            broken.to_string().lines().skip(1).collect::<Vec<_>>(),
            [
                "This conversation: 0 in (0 from the cache, 0 %), 0 out",
                "Prompt cache: 2 breaks since start, the last in tool mcp_web at byte 4213 (2026-11-22 03:04): tools changed",
            ]
        );
    }
}
