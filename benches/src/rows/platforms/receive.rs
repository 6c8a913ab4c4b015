//! Receiving a thousand messages at once.
//!
//! Decision: the time ends when the last message is durable in the ledger, and no turn ends
//! meanwhile. Each of a hundred people has written before and has a turn that waits for the model;
//! then each writes ten messages at once, in turn, so that all of them only queue. Turns and replies
//! are not measured: their number depends on how many messages a turn merges, and some platforms
//! allow few sends a second. Wall time includes the fake's own work, which shares the processors;
//! processor time is the gateway's alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nanobot_chat_fakes::{ChatFake, PLATFORMS, start_one};
use nanobot_testkit::ModelServer;

use super::ledger::LedgerFile;
use super::{Connected, POLL_INTERVAL, WEBSOCKET, median};
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

const PEOPLE: u32 = 100;
const MESSAGES_EACH: u32 = 10;
/// Number of runs of each channel, alternating.
const RUNS: usize = 3;
/// Interval of looking for the last message.
const LOOK: Duration = Duration::from_millis(2);
const LIMIT: Duration = Duration::from_secs(240);

/// Cost of one run.
#[derive(Clone, Copy, Debug)]
struct Received {
    wall: Duration,
    cpu: Duration,
}

pub(super) async fn rows(programs: &Programs) -> Result<Vec<ReportRow>> {
    let mut runs: Vec<Vec<Received>> = vec![Vec::new(); PLATFORMS.len()];
    for _ in 0..RUNS {
        for (name, runs) in PLATFORMS.into_iter().zip(&mut runs) {
            runs.push(receive(programs, name).await?);
        }
    }
    let of = |name: &str, cost: fn(&Received) -> Duration| {
        let found = PLATFORMS.into_iter().zip(&runs);
        let mut found = found.filter(|(other, _)| *other == name);
        let runs = found.next().map_or(&[][..], |(_, runs)| runs);
        median(runs.iter().map(|run| cost(run).as_micros()))
    };
    let mut rows = Vec::new();
    for name in PLATFORMS.into_iter().filter(|name| *name != WEBSOCKET) {
        let row = |what: &str, cost: fn(&Received) -> Duration| {
            ReportRow::ratio(
                format!("{name}, 1,000 messages received, {what} (floor: WebSocket)"),
                Unit::Microseconds,
                of(name, cost),
                of(WEBSOCKET, cost),
                "≤ 1.5×",
                1.5,
            )
        };
        rows.push(row("CPU", |run| run.cpu));
        rows.push(row("wall", |run| run.wall));
    }
    Ok(rows)
}

async fn receive(programs: &Programs, name: &str) -> Result<Received> {
    let is_holding = Arc::new(AtomicBool::new(false));
    let model = model::holding(Arc::clone(&is_holding)).await?;
    let mut fake = start_one(name).await?;
    let connected = Connected::start(programs, &model.base_url(), &*fake).await?;
    let ledger = LedgerFile::open(connected.home.path())?;
    fake.add_crowd(PEOPLE);
    prepare(&*fake, &ledger, &model, &is_holding).await?;
    let (taken, newest) = (ledger.taken()?, ledger.newest()?);
    let (begun, cpu) = (Instant::now(), connected.gateway.cpu()?);
    for message in 0..MESSAGES_EACH {
        everyone_says(&*fake, 'm', message);
    }
    let all = u64::from(PEOPLE * MESSAGES_EACH);
    let is_received = || Ok(ledger.newest()? >= newest + all && ledger.taken()? >= taken + all);
    wait("all messages", LOOK, is_received).await?;
    Ok(Received {
        wall: begun.elapsed(),
        cpu: connected.gateway.cpu()?.saturating_sub(cpu),
    })
}

/// Lets everyone have one message answered, then begin a turn that waits for the model.
async fn prepare(
    fake: &dyn ChatFake,
    ledger: &LedgerFile,
    model: &ModelServer,
    is_holding: &AtomicBool,
) -> Result<()> {
    let people = u64::from(PEOPLE);
    everyone_says(fake, 'a', 0);
    let answered = || Ok(ledger.taken()? >= people && ledger.open_entries()? == 0);
    wait("first answers", POLL_INTERVAL, answered).await?;
    is_holding.store(true, Ordering::Relaxed);
    let asked = model.requests().len();
    everyone_says(fake, 'b', 0);
    let turns = usize::try_from(people)?;
    wait("running turns", POLL_INTERVAL, || {
        Ok(model.requests().len() >= asked + turns)
    })
    .await
}

/// Sends one message from each person.
fn everyone_says(fake: &dyn ChatFake, kind: char, message: u32) {
    for person in 0..PEOPLE {
        let number = message * PEOPLE + person;
        fake.crowd_says(person, &format!("{kind}-{number:04}"));
    }
}

async fn wait(
    what: &str,
    interval: Duration,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let waiting = async {
        while !done()? {
            tokio::time::sleep(interval).await;
        }
        Ok(())
    };
    tokio::time::timeout(LIMIT, waiting)
        .await
        .with_context(|| format!("waited in vain for {what}"))?
}
