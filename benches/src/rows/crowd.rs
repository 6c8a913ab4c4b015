//! A hundred sessions that all ask a slow model at once, over WebSocket.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use nanobot_testkit::WebSocketClient;
use serde_json::{Value, json};

use crate::gateway::BenchGateway;
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

const SESSIONS: usize = 100;
const MODEL: Duration = Duration::from_millis(200);
/// Number of questions per session. The median counts, which excludes the first one, when files are
/// created.
const TIMES: usize = 5;

pub(super) async fn rows(programs: &Programs) -> Result<Vec<ReportRow>> {
    let server = model::slow(MODEL).await?;
    let (port, config) = BenchGateway::config().await?;
    let home = Home::new(&server.base_url(), [config])?;
    let gateway = BenchGateway::start(programs, &home, port).await?;
    // One after the other: the gateway allows few unauthenticated connections per address.
    let mut clients = Vec::with_capacity(SESSIONS);
    for number in 0..SESSIONS {
        clients.push(gateway.connect(&format!("chat-{number}")).await?);
    }
    let (mut answered, mut allowed) = (Vec::new(), Vec::new());
    for time in 0..TIMES {
        answered.push(ask_all(&mut clients, time).await?);
        allowed.push(MODEL + 2 * syncs(&home)?);
    }
    gateway.stop().await?;
    answered.sort_unstable();
    allowed.sort_unstable();
    let median = |times: &[Duration]| {
        times
            .get(TIMES / 2)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    };
    let (value, most) = (median(&answered), median(&allowed));
    let what = "100 sessions answered (floor: 200 ms + 2 × 100 syncs)";
    Ok(vec![ReportRow::ratio(
        what,
        Unit::Microseconds,
        value,
        most,
        "≤ 1×",
        1.0,
    )])
}

/// Returns the time from the first question until the last answer.
async fn ask_all(clients: &mut [WebSocketClient], time: usize) -> Result<Duration> {
    let begun = Instant::now();
    let question =
        json!({ "type": "message", "id": format!("question-{time}"), "content": "How are you?" });
    try_join_all(clients.iter_mut().map(|client| ask(client, &question))).await?;
    Ok(begun.elapsed())
}

async fn ask(client: &mut WebSocketClient, question: &Value) -> Result<()> {
    client.send(question).await?;
    loop {
        let events = client.receive_until("message").await?;
        if events
            .last()
            .is_some_and(|event| event.get("kind") == Some(&json!("final")))
        {
            return Ok(());
        }
    }
}

/// Returns the time of `SESSIONS` small sequential appends, each synced, in the workspace.
fn syncs(home: &Home) -> Result<Duration> {
    let path = home.workspace().join("syncs");
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    let line = [b'x'; 256];
    let begun = Instant::now();
    for _ in 0..SESSIONS {
        file.write_all(&line)?;
        file.sync_data()?;
    }
    let taken = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(taken)
}
