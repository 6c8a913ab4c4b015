//! One question and its answer: `agent -m` compared with a client that posts the same bytes.

use anyhow::{Context as _, Result};

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let server = model::prompt().await?;
    let home = Home::new(&server.base_url(), [])?;
    // The first run creates the workspace. The size of a new user's first request is measured.
    programs.ask(&home, "cli:first").await?;
    let requests = server.requests();
    let body = &requests
        .first()
        .context("the model was not asked")?
        .http
        .body;
    let body_file = home.path().join("request.json");
    std::fs::write(&body_file, body)?;
    let url = format!("{}/chat/completions", server.base_url());
    let log = home.path().join("floor.log");
    let arguments = [url.as_ref(), body_file.as_os_str(), log.as_os_str()];
    let (mut turn, mut floor) = (Runs::default(), Runs::default());
    for run in 0..plan.runs {
        turn.push(programs.ask(&home, &format!("cli:run-{run}")).await?);
        floor.push(programs.run(&home, &programs.floor_turn, arguments).await?);
    }
    let (peak, least) = (turn.peak_rss_kib(), floor.peak_rss_kib());
    let size = u32::try_from(body.len()).map(f64::from)?;
    Ok(vec![
        ReportRow::ratio(
            "one-shot turn, CPU",
            Unit::Microseconds,
            turn.cpu_us(),
            floor.cpu_us(),
            "≤ 3×",
            3.0,
        ),
        ReportRow::limit(
            "one-shot turn, peak RSS",
            Unit::Kibibytes,
            peak,
            "≤ 12 MB",
            12.0 * 1_024.0,
        )
        .beside(Unit::Kibibytes, peak, least),
        ReportRow::limit(
            "first request with all tools",
            Unit::Bytes,
            size,
            "≤ 8 KB",
            8.0 * 1_024.0,
        ),
    ])
}
