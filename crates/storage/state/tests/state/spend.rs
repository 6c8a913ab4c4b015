//! The spend ledger: charges, caps, restarts.

use std::path::Path;
use std::sync::{Arc, Mutex};

use nanobot_provider::{
    CallAccount, CallPurpose, ModelPrice, SpendAttempt, SpendLedger as _, SpendVerdict, Spent,
};
use nanobot_state::{
    BudgetRaise, BudgetSettings, CommitDurability, OnLimit, SpendDay, SpendGroup, SpendRow,
    SqliteSpendLedger, StateDb, read_spending,
};
use nanobot_types::{SessionKey, Usage};
use rusqlite::Connection;

/// A model that costs 1 USD per million tokens, one that costs nothing, and unknown ones.
fn price(_provider: &str, model: &str) -> Option<ModelPrice> {
    match model {
        "priced" => Some(ModelPrice {
            input: 1.0,
            output: 1.0,
            ..ModelPrice::default()
        }),
        "free" => Some(ModelPrice::FREE),
        _ => None,
    }
}

struct World {
    day: Arc<Mutex<&'static str>>,
    ledger: SqliteSpendLedger,
}

async fn world(path: &Path, settings: BudgetSettings) -> World {
    let day = Arc::new(Mutex::new("2026-11-25"));
    let clock = day.clone();
    let today = move || SpendDay {
        date: (*clock.lock().unwrap()).to_owned(),
        zone: "UTC".to_owned(),
    };
    let database = StateDb::open(path).await.unwrap();
    let ledger = SqliteSpendLedger::new(database, settings, Arc::new(price), Arc::new(today));
    World { day, ledger }
}

fn per_day(dollars: f64) -> BudgetSettings {
    BudgetSettings {
        per_day: dollars,
        ..BudgetSettings::default()
    }
}

fn attempt(model: &str, session: &str, turn: &str) -> SpendAttempt {
    SpendAttempt {
        provider: "vendor".into(),
        model: model.into(),
        turn: turn.into(),
        account: CallAccount {
            purpose: CallPurpose::Turn,
            session: Some(session.into()),
            job: None,
            is_attended: true,
        },
        estimate: Usage {
            prompt_tokens: 10,
            ..Usage::default()
        },
    }
}

fn spent(prompt_tokens: u64) -> Spent {
    Spent {
        usage: Usage {
            prompt_tokens,
            cached_tokens: prompt_tokens / 2,
            ..Usage::default()
        },
        ..Spent::default()
    }
}

/// Returns the text of a refusal, or the notice of an admission.
fn text(verdict: SpendVerdict) -> String {
    match verdict {
        SpendVerdict::Admitted { notice } => format!("admitted {}", notice.unwrap_or_default()),
        SpendVerdict::Refused { explanation } => explanation,
    }
}

impl World {
    async fn admit(&self, attempt: &SpendAttempt) -> String {
        text(self.ledger.admit(attempt).await)
    }

    /// Makes a request that costs this many tokens.
    async fn request(&self, attempt: &SpendAttempt, tokens: u64) -> String {
        let verdict = self.admit(attempt).await;
        if verdict.starts_with("admitted") {
            self.ledger.charge(attempt, spent(tokens));
            self.ledger.flush().await;
        }
        verdict
    }
}

fn keys(path: &Path, group: SpendGroup) -> Vec<(String, u64, u64, u64)> {
    let rows = read_spending(path, group, "2026-01-01").unwrap();
    rows.into_iter()
        .map(|row| (row.key, row.requests, row.micro_usd, row.unpriced_tokens))
        .collect()
}

#[tokio::test]
async fn charges_are_rolled_up_and_survive_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    assert_eq!(keys(&path, SpendGroup::Day), []);
    let first = world(&path, BudgetSettings::default()).await;
    for (model, session, tokens) in [
        ("priced", "a", 1000),
        ("priced", "a", 500),
        ("free", "a", 7),
        ("unknown", "b", 40),
    ] {
        first.request(&attempt(model, session, "t1"), tokens).await;
    }
    // Another process reads meanwhile.
    assert_eq!(
        keys(&path, SpendGroup::Day),
        [("2026-11-25".to_owned(), 4, 1500, 40)]
    );
    *first.day.lock().unwrap() = "2026-11-26";
    first.request(&attempt("priced", "b", "t2"), 9).await;
    first.ledger.close().await;

    let second = world(&path, BudgetSettings::default()).await;
    *second.day.lock().unwrap() = "2026-11-26";
    second.request(&attempt("priced", "b", "t3"), 1).await;
    second.ledger.close().await;
    let row = |key: &str, requests, micros, unpriced| (key.to_owned(), requests, micros, unpriced);
    assert_eq!(
        keys(&path, SpendGroup::Day),
        [row("2026-11-26", 2, 10, 0), row("2026-11-25", 4, 1500, 40)]
    );
    assert_eq!(
        keys(&path, SpendGroup::Session),
        [row("a", 3, 1500, 0), row("b", 3, 10, 40)]
    );
    assert_eq!(
        keys(&path, SpendGroup::Model),
        [
            row("vendor/priced", 4, 1510, 0),
            row("vendor/unknown", 1, 0, 40),
            row("vendor/free", 1, 0, 0),
        ]
    );
    assert_eq!(keys(&path, SpendGroup::Job), [row("", 6, 1510, 40)]);
    let rows = read_spending(&path, SpendGroup::Day, "2026-11-26").unwrap();
    let expected = SpendRow {
        key: "2026-11-26".to_owned(),
        requests: 2,
        prompt_tokens: 10,
        cached_tokens: 4,
        micro_usd: 10,
        ..SpendRow::default()
    };
    assert_eq!((rows[0].cache_percent(), &rows[..]), (40, &[expected][..]));
}

#[tokio::test]
async fn day_cap_warns_asks_stops_and_starts_anew() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let settings = per_day(0.001);
    let world = world(&path, settings.clone()).await;
    let turn = |turn: &str| attempt("priced", "a", turn);
    assert_eq!(world.request(&turn("1"), 850).await, "admitted ");
    let warned = world.request(&turn("1"), 30).await;
    assert!(
        warned.starts_with("admitted Budget: 85 % of that for today"),
        "{warned}"
    );
    // Once only, and in the middle of a turn there is no question.
    assert_eq!(world.request(&turn("1"), 30).await, "admitted ");
    assert_eq!(world.request(&turn("1"), 10).await, "admitted ");
    let asked = world.request(&turn("2"), 1).await;
    assert!(
        asked.contains("92 %") && asked.contains("/budget continue"),
        "{asked}"
    );
    let job = SpendAttempt {
        account: CallAccount {
            job: Some(SessionKey::of_heartbeat()),
            ..CallAccount::default()
        },
        ..turn("job")
    };
    assert_eq!(world.request(&job, 5).await, "admitted ");
    world.ledger.agree(&"a".into()).await.unwrap();
    assert_eq!(world.request(&turn("2"), 70).await, "admitted ");
    let stopped = world.request(&turn("3"), 1).await;
    assert!(
        stopped.contains("does not cover the next request"),
        "{stopped}"
    );
    assert_eq!(keys(&path, SpendGroup::Day)[0].2, 995);
    world
        .ledger
        .raise(&"a".into(), BudgetRaise::Usd(0.001))
        .await
        .unwrap();
    assert_eq!(world.request(&turn("3"), 900).await, "admitted ");
    let question = world.request(&turn("4"), 1).await;
    assert!(
        question.contains("94 %") && question.contains("of 0.0020 USD"),
        "{question}"
    );
    world.ledger.close().await;

    let world = self::world(&path, settings).await;
    let warned = world.request(&job, 100).await;
    assert!(warned.starts_with("admitted Budget: 94 %"), "{warned}");
    let stopped = world.request(&job, 1).await;
    assert!(
        stopped.starts_with("Stopped: the budget for today"),
        "{stopped}"
    );
    *world.day.lock().unwrap() = "2026-11-26";
    assert_eq!(world.request(&turn("5"), 1).await, "admitted ");
}

#[tokio::test]
async fn tokens_of_unknown_price_have_their_own_caps() {
    let home = tempfile::tempdir().unwrap();
    let settings = BudgetSettings {
        tokens_per_session: 100,
        tokens_per_turn: 90,
        ..per_day(0.001)
    };
    let world = world(&home.path().join("state.db"), settings).await;
    let ask = async |session: &str, turn: &str, model: &str| {
        let mut attempt = attempt(model, session, turn);
        attempt.account.is_attended = false;
        world.request(&attempt, 85).await
    };
    assert!(ask("a", "1", "unknown").await.starts_with("admitted"));
    let stopped = ask("a", "1", "unknown").await;
    assert!(
        stopped.contains("one turn") && stopped.contains("tokensPerTurn"),
        "{stopped}"
    );
    let admitted = ask("a", "2", "unknown").await;
    assert!(
        admitted.contains("85 % of that for this conversation"),
        "{admitted}"
    );
    let stopped = ask("a", "3", "unknown").await;
    assert!(
        stopped.contains("/new") && stopped.contains("raise 50 tokens"),
        "{stopped}"
    );
    for (session, model) in [("b", "unknown"), ("a", "priced"), ("a", "free")] {
        assert!(
            ask(session, "4", model).await.starts_with("admitted"),
            "{session} {model}"
        );
    }
    world.ledger.restart_session(&"a".into()).await;
    assert!(ask("a", "5", "unknown").await.starts_with("admitted"));
    let report = world.ledger.report(&"a".into()).await.unwrap();
    assert!(
        report.contains("Spent in the last turn: 85 tokens"),
        "{report}"
    );
    // Summaries are no turns, although all of them have one trace.
    let mut summary = attempt("unknown", "c", "summary");
    summary.account.purpose = CallPurpose::Summary;
    summary.account.session = None;
    for _ in 0..3 {
        assert!(world.request(&summary, 85).await.starts_with("admitted"));
    }
}

#[tokio::test]
async fn requests_in_flight_share_a_cap() {
    let home = tempfile::tempdir().unwrap();
    let world = world(&home.path().join("state.db"), per_day(0.000_035)).await;
    let attempts: Vec<_> = ["1", "2", "3", "4", "5"]
        .map(|turn| attempt("priced", turn, turn))
        .into_iter()
        .collect();
    let verdicts =
        futures_util::future::join_all(attempts.iter().map(|attempt| world.admit(attempt))).await;
    let admitted = verdicts
        .iter()
        .filter(|verdict| verdict.starts_with("admitted"));
    assert_eq!(admitted.count(), 3, "{verdicts:?}");
    // What was estimated and is not spent is free again.
    for attempt in &attempts[..3] {
        world.ledger.charge(attempt, Spent::default());
    }
    assert!(world.admit(&attempts[4]).await.starts_with("admitted"));
}

#[tokio::test]
async fn warn_mode_sends_everything() {
    let home = tempfile::tempdir().unwrap();
    let settings = BudgetSettings {
        on_limit: OnLimit::Warn,
        ..per_day(0.000_1)
    };
    let world = world(&home.path().join("state.db"), settings).await;
    let mut notices = Vec::new();
    for turn in ["1", "2", "3", "4"] {
        notices.push(world.request(&attempt("priced", "a", turn), 85).await);
    }
    assert!(
        notices[1].contains("85 %") && notices[2].contains("170 %"),
        "{notices:?}"
    );
    assert_eq!((&*notices[0], &*notices[3]), ("admitted ", "admitted "));
}

#[tokio::test]
async fn database_is_opened_by_the_first_request() {
    let home = tempfile::tempdir().unwrap();
    let ledger = |path: &Path| {
        let database = StateDb::open_on_use(path, CommitDurability::PowerCut).unwrap();
        let today = || SpendDay {
            date: "2026-11-25".to_owned(),
            zone: "UTC".to_owned(),
        };
        SqliteSpendLedger::new(database, per_day(1.0), Arc::new(price), Arc::new(today))
    };
    let path = home.path().join("state.db");
    ledger(&path).close().await;
    let first = ledger(&path);
    let one = attempt("priced", "a", "1");
    assert_eq!(text(first.admit(&one).await), "admitted ");
    first.charge(&one, spent(7));
    first.close().await;
    assert_eq!(keys(&path, SpendGroup::Day)[0].2, 7);
    // Nothing is sent if it cannot be opened.
    let unusable = ledger(home.path());
    let refusal = text(unusable.admit(&one).await);
    assert!(refusal.contains("cannot be read"), "{refusal}");
}

#[tokio::test]
async fn old_rows_are_deleted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let world = world(&path, BudgetSettings::default()).await;
    for day in ["2025-01-01", "2026-11-20", "2026-11-25"] {
        *world.day.lock().unwrap() = day;
        world.request(&attempt("priced", "a", day), 1).await;
    }
    world.ledger.close().await;
    let days = read_spending(&path, SpendGroup::Day, "").unwrap();
    let days: Vec<_> = days.into_iter().map(|row| row.key).collect();
    assert_eq!(days, ["2026-11-25", "2026-11-20"]);
    let connection = Connection::open(&path).unwrap();
    let totals: i64 = connection
        .query_row("SELECT count(*) FROM spend_total", [], |row| row.get(0))
        .unwrap();
    // The conversation, and the day and the turn of today.
    assert_eq!(totals, 3);
}

/// A person may stop a turn while the ledger decides about its request.
#[tokio::test]
async fn attempt_that_is_given_up_while_it_is_judged_reserves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let world = world(&path, per_day(1.0)).await;
    let other_process = Connection::open(&path).unwrap();
    let mut large = attempt("priced", "cli:a", "1");
    large.estimate.prompt_tokens = 600_000;
    for _ in 0..3 {
        other_process.execute_batch("BEGIN IMMEDIATE").unwrap();
        let judged = futures_util::poll!(Box::pin(world.ledger.admit(&large)));
        assert!(judged.is_pending());
        other_process.execute_batch("ROLLBACK").unwrap();
        world.ledger.flush().await;
    }
    assert_eq!(text(world.ledger.admit(&large).await), "admitted ");
    let other = text(world.ledger.admit(&large).await);
    assert!(other.starts_with("Stopped"), "{other}");
}
