//! A turn in a long session compared with one in a short session: the history must cost nothing.

use anyhow::Result;

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let server = model::prompt().await?;
    let home = Home::new(&server.base_url(), [])?;
    programs.ask(&home, "cli:first").await?;
    home.store_session("cli:long", 100_000).await?;
    home.store_session("cli:short", 10).await?;
    // Each run adds a turn to both, and the same number of messages is sent to the model.
    let (mut long, mut short) = (Runs::default(), Runs::default());
    for _ in 0..plan.runs {
        long.push(programs.ask(&home, "cli:long").await?);
        short.push(programs.ask(&home, "cli:short").await?);
    }
    let (cpu, least) = (long.cpu_us(), short.cpu_us());
    let (read, read_least) = (long.read_bytes(), short.read_bytes());
    Ok(vec![
        ReportRow::ratio(
            "turn on 100,000 messages, CPU (floor: on 10)",
            Unit::Microseconds,
            cpu,
            least,
            "≤ 1.2×",
            1.2,
        ),
        ReportRow::limit(
            "turn on 100,000 messages, bytes read (floor: on 10)",
            Unit::Bytes,
            read,
            "≤ 256 KB",
            256.0 * 1_024.0,
        )
        .beside(Unit::Bytes, read, read_least),
    ])
}
