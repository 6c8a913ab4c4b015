//! Token usage of sessions, and how much of it prompt caches served.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_provider::{CallPurpose, ConsumptionByPurpose};
use nanobot_types::{SessionKey, Usage};

use super::Agent;
use crate::Miss;

/// Maximum number of sessions whose last turn is remembered.
const MAX_SESSIONS: usize = 1024;

/// Tokens of the last turn of each session since the program started.
#[derive(Debug, Default)]
pub(super) struct LastTurns(Mutex<HashMap<SessionKey, Usage>>);

impl LastTurns {
    /// Records the tokens of a turn.
    pub(super) fn record(&self, session: &SessionKey, usage: Usage) {
        let mut turns = self.lock();
        if turns.len() < MAX_SESSIONS || turns.contains_key(session) {
            turns.insert(session.clone(), usage);
        }
    }

    fn of(&self, session: &SessionKey) -> Usage {
        self.lock().get(session).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Usage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Token usage and cache misses, for a person. It counts since the program started, and every
/// request: also those that failed, and those of summaries, subagents and judgements.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageReport {
    /// Consumption of all sessions.
    pub total: ConsumptionByPurpose,
    /// Consumption of this session, with its subagents.
    pub session: ConsumptionByPurpose,
    /// Tokens of this session's last turn; zero if there was none since the start.
    pub last_turn: Usage,
    /// Requests of this session since the start that did not begin with the previous one.
    pub misses: u64,
    /// The last such request, of this or an earlier process.
    pub last_miss: Option<Miss>,
    /// What was spent today and in this session, and the caps, if the router has a ledger.
    pub spending: Option<String>,
}

impl Agent {
    /// Returns the token usage of a session and its last cache miss.
    pub async fn usage_report(&self, session: &SessionKey) -> UsageReport {
        let (last_miss, misses) = self.prefixes.misses(session).await;
        let meter = self.engine.meter();
        UsageReport {
            total: meter.total(),
            session: meter.of_session(session),
            last_turn: self.last_turns.of(session),
            misses,
            last_miss,
            spending: self.engine.ledger().report(session).await,
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

fn requests(count: u64) -> String {
    match count {
        1 => "1 request".to_owned(),
        count => format!("{count} requests"),
    }
}

/// Returns the sum, and its parts if there are several.
fn lines(consumption: &ConsumptionByPurpose) -> String {
    let sum = consumption.sum();
    let mut lines = format!("{}, {}\n", line(&sum.tokens), requests(sum.requests));
    let parts = CallPurpose::ALL.map(|purpose| (purpose, consumption.of(purpose)));
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, part)| part.requests > 0)
        .collect();
    if parts.len() < 2 {
        return lines;
    }
    for (purpose, part) in parts {
        let name = match purpose {
            CallPurpose::Turn => "turns",
            CallPurpose::Summary => "summaries",
            CallPurpose::Subagent => "subagents",
            CallPurpose::Judgement => "judgements (heartbeat and jobs)",
        };
        let Usage {
            prompt_tokens,
            completion_tokens,
            ..
        } = part.tokens;
        lines.push_str(&format!(
            "  {name}: {prompt_tokens} in, {completion_tokens} out, {}\n",
            requests(part.requests)
        ));
    }
    lines
}

impl fmt::Display for UsageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens since start: {}", lines(&self.total))?;
        write!(f, "This conversation: {}", lines(&self.session))?;
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
        }?;
        match &self.spending {
            Some(spending) => write!(f, "\n{spending}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_provider::Consumption;

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

    fn consumption(parts: &[(CallPurpose, u64, Usage)]) -> ConsumptionByPurpose {
        let mut all = ConsumptionByPurpose::default();
        for (purpose, requests, tokens) in parts {
            let part = Consumption {
                requests: *requests,
                tokens: *tokens,
            };
            all.add(*purpose, part);
        }
        all
    }

    #[test]
    fn usage_report_text_is_stable() {
        let turns = (CallPurpose::Turn, 2, usage(2100, 990, 1000, 110));
        let summaries = (CallPurpose::Summary, 1, usage(10, 0, 0, 1));
        let quiet = UsageReport {
            total: consumption(&[turns, summaries]),
            session: consumption(&[turns]),
            last_turn: usage(1100, 990, 100, 60),
            misses: 0,
            last_miss: None,
            spending: Some("Spent today: 0.00 USD".to_owned()),
        };
        assert_eq!(
            quiet.to_string(),
            "Tokens since start: 2110 in (990 from the cache, 46 %, 1000 written to it), 111 out, 3 requests\n  \
               turns: 2100 in, 110 out, 2 requests\n  \
               summaries: 10 in, 1 out, 1 request\n\
             This conversation: 2100 in (990 from the cache, 47 %, 1000 written to it), 110 out, 2 requests\n\
             Last turn: 1100 in (990 from the cache, 90 %, 100 written to it), 60 out\n\
             Prompt cache: no request broke the prefix of the one before\n\
             Spent today: 0.00 USD"
        );
        let at = chrono::DateTime::parse_from_rfc3339("2026-11-22T03:04:05Z").unwrap();
        let miss = Miss {
            event: MissEvent::ToolsChanged,
            section: "tool mcp_web".to_owned(),
            byte: 4213,
            at,
        };
        let broken = UsageReport {
            total: ConsumptionByPurpose::default(),
            session: ConsumptionByPurpose::default(),
            last_turn: Usage::default(),
            misses: 2,
            last_miss: Some(miss),
            spending: None,
        };
        assert_eq!(
            broken.to_string().lines().skip(1).collect::<Vec<_>>(),
            [
                "This conversation: 0 in (0 from the cache, 0 %), 0 out, 0 requests",
                "Prompt cache: 2 breaks since start, the last in tool mcp_web at byte 4213 (2026-11-22 03:04): tools changed",
            ]
        );
    }
}
