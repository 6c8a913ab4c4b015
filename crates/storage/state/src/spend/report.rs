//! The report on spending and caps, for a person.

use nanobot_types::SessionKey;
use rusqlite::Connection;

use super::caps::{Scope, Unit};
use super::query::{SpendGroup, SpendRow, sums};
use super::{OnLimit, SqliteSpendLedger, stored_caps};
use crate::database::{Durability, JobError};

/// What the report shows.
struct Facts {
    today: SpendRow,
    session: SpendRow,
    caps: Vec<String>,
}

impl SqliteSpendLedger {
    /// Describes what was spent today and in this session, and the caps.
    pub(super) async fn describe(&self, session: &SessionKey) -> String {
        match self.facts(session).await {
            Ok(facts) => self.text(session, &facts),
            Err(error) => {
                let error = error.state(self.db.path(), "report what was spent");
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the spend ledger failed"
                );
                "What was spent cannot be read now; the log says why.".to_owned()
            }
        }
    }

    async fn facts(&self, session: &SessionKey) -> Result<Facts, JobError> {
        let (period, settings) = (self.period_of(session), self.settings.clone());
        let name = session.to_string();
        let work = move |connection: &Connection| {
            let first = |rows: Vec<SpendRow>| rows.into_iter().next().unwrap_or_default();
            let today = sums(connection, SpendGroup::Day, "day = ?1", &period.day)?;
            let whole = sums(connection, SpendGroup::Session, "session = ?1", &name)?;
            let mut caps = Vec::new();
            for unit in Unit::ALL {
                for cap in stored_caps(connection, &settings, &period, unit)? {
                    let (title, percent) = (cap.scope.title(), cap.percent());
                    if cap.scope != Scope::Turn {
                        caps.push(format!("{title}: {} ({percent} %)", cap.share()));
                    }
                }
                for scope in [Scope::Turn, Scope::Job] {
                    if let Some(limit) = settings.cap(scope, unit) {
                        caps.push(format!("{}: {}", scope.general(), unit.show(limit)));
                    }
                }
            }
            Ok(Facts {
                today: first(today),
                session: first(whole),
                caps,
            })
        };
        self.db.write(Durability::Process, work).await
    }

    fn text(&self, session: &SessionKey, facts: &Facts) -> String {
        let mut text = format!(
            "Spent today: {}\nSpent in this chat so far: {}\n",
            line(&facts.today),
            line(&facts.session)
        );
        if let Some(last) = self.lock().last_turns.get(session) {
            let parts = Unit::ALL.into_iter().zip(last.amounts);
            let parts: Vec<String> = parts
                .filter(|(_, amount)| *amount > 0)
                .map(|(unit, amount)| unit.show(amount))
                .collect();
            if !parts.is_empty() {
                text.push_str(&format!("Spent in the last turn: {}\n", parts.join(", ")));
            }
        }
        if facts.caps.is_empty() {
            text.push_str("Budget: no caps");
            return text;
        }
        let reaction = match self.settings.on_limit {
            OnLimit::Stop => "stops at 100 %",
            OnLimit::Warn => "only warns",
        };
        text.push_str(&format!("Budget ({reaction}):"));
        for cap in &facts.caps {
            text.push_str("\n  ");
            text.push_str(cap);
        }
        text
    }
}

fn line(row: &SpendRow) -> String {
    let unpriced = match row.unpriced_tokens {
        0 => String::new(),
        tokens => format!(" and {tokens} tokens without a known price"),
    };
    let (requests, percent) = (row.requests, row.cache_percent());
    let plural = if requests == 1 { "" } else { "s" };
    format!(
        "{} USD{unpriced}, {requests} request{plural}, {percent} % of the prompts from the cache",
        row.usd()
    )
}
