//! The prompt on a terminal: its start, its words, and its memory.

use std::time::{Duration, Instant};

use anyhow::Result;
use nanobot_testkit::{Gate, ModelServer, Reply};

use super::{BenchPlan, median};
use crate::gateway::BenchGateway;
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};
use crate::terminal::BenchTerminal;

/// Last word of the long reply, and the word whose way to the screen is measured.
const HELD: &str = "HELD";
const AWAITED: &str = "AWAITED";
/// Size of a long reply, in bytes.
const LONG: usize = 100 << 10;
/// Time without output after which a prompt is at rest.
const QUIET: Duration = Duration::from_millis(300);

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let ready = ready(plan, programs).await?;
    let first = words(plan, programs, "Some words").await?;
    let mut redraws = Vec::new();
    for shape in shapes() {
        redraws.extend(words(plan, programs, &shape).await?);
    }
    let slowest = redraws.into_iter().max().map_or(f64::NAN, microseconds);
    Ok(vec![
        ReportRow::limit(
            "prompt ready, wall",
            Unit::Microseconds,
            middle(&ready),
            "≤ 20 ms",
            20_000.0,
        ),
        ReportRow::limit(
            "word on screen after the model sent it, wall",
            Unit::Microseconds,
            middle(&first),
            "≤ 5 ms",
            5_000.0,
        ),
        ReportRow::limit(
            "word after 100 KB of a reply on screen, slowest, wall",
            Unit::Microseconds,
            slowest,
            "≤ 16 ms",
            16_000.0,
        ),
        ReportRow::limit(
            "prompt of a gateway, anonymous memory",
            Unit::Kibibytes,
            attached(programs).await?,
            "≤ 4 MB",
            4.0 * 1_024.0,
        ),
    ])
}

/// Returns the times from the start of the program to its prompt.
async fn ready(plan: &BenchPlan, programs: &Programs) -> Result<Vec<Duration>> {
    let server = model::prompt().await?;
    let home = Home::new(&server.base_url(), [])?;
    // The first start creates the workspace.
    let mut times = Vec::new();
    for run in 0..=plan.runs {
        let (terminal, time) = BenchTerminal::open(programs, &home)?;
        terminal.close().await?;
        times.extend((run > 0).then_some(time));
    }
    Ok(times)
}

/// Returns the times in which a word reaches the screen after `before` is on it.
async fn words(plan: &BenchPlan, programs: &Programs, before: &str) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..plan.runs {
        let gate = Gate::new();
        let (held, before) = (gate.clone(), format!("{before} {HELD}"));
        let server = ModelServer::answering(move |_| {
            Reply::deltas([before.as_str(), " AWAITED\n"]).holding(&held)
        });
        let server = server.await?;
        let home = Home::new(&server.base_url(), [])?;
        let (mut terminal, _) = BenchTerminal::open(programs, &home)?;
        terminal.type_in("Tell me more.\r")?;
        terminal.wait_for(HELD)?;
        terminal.settle(QUIET / 10);
        let begun = Instant::now();
        gate.open();
        times.push(terminal.wait_for(AWAITED)? - begun);
    }
    Ok(times)
}

/// Returns long replies whose last block is small, and ones that are a single open block.
fn shapes() -> Vec<String> {
    let repeated = |start: &str, unit: &str| format!("{start}{}", unit.repeat(LONG / unit.len()));
    vec![
        repeated("", "A paragraph of **some** words, and 你好.\n\n"),
        repeated("", "words without an end, and 你好 👩‍👩‍👧 "),
        repeated("```rust\n", "let line = \"of code\";\n"),
        repeated("", "- an item of a list\n"),
        repeated("| a | b |\n|---|---|\n", "| cell | 你好 |\n"),
    ]
}

/// Returns the anonymous memory of a prompt of a running gateway after a turn.
async fn attached(programs: &Programs) -> Result<f64> {
    let server = model::prompt().await?;
    let (port, config) = BenchGateway::config().await?;
    let home = Home::new(&server.base_url(), [config])?;
    let gateway = BenchGateway::start(programs, &home, port).await?;
    let (mut terminal, _) = BenchTerminal::open(programs, &home)?;
    terminal.type_in("Hello, how are you?\r")?;
    terminal.wait_for("word59")?;
    terminal.settle(QUIET);
    let memory = terminal.anonymous_kib()?;
    drop(terminal);
    gateway.stop().await?;
    Ok(f64::from(u32::try_from(memory)?))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn middle(times: &[Duration]) -> f64 {
    median(times.iter().map(Duration::as_micros))
}
