//! Cost of each further tool round of a turn: that of many more rounds, divided by their number.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

/// Numbers of further rounds, their rows, targets and limits in microseconds. A long turn has the more expensive rounds, because each request carries
/// the results of the earlier ones.
const FURTHER: [(usize, &str, &str, f64); 2] = [
    (20, "each of 20 further tool rounds, CPU", "≤ 1 ms", 1_000.0),
    (
        99,
        "each of 99 further tool rounds, CPU",
        "≤ 1.2 ms",
        1_200.0,
    ),
];

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let mut rows = Vec::new();
    for (further, title, target, limit) in FURTHER {
        let (value, floor) = each_round(plan, programs, further).await?;
        rows.push(
            ReportRow::limit(title, Unit::Microseconds, value, target, limit).beside(
                Unit::Microseconds,
                value,
                floor,
            ),
        );
    }
    Ok(rows)
}

/// Returns the processor time of a further round in microseconds, and that of the floor.
async fn each_round(plan: &BenchPlan, programs: &Programs, further: usize) -> Result<(f64, f64)> {
    let (one, many) = (model::reading(1).await?, model::reading(1 + further).await?);
    let limit = || [json!({ "agents": { "defaults": { "maxToolIterations": further + 10 } } })];
    let homes = [
        Home::new(&one.base_url(), limit())?,
        Home::new(&many.base_url(), limit())?,
    ];
    for home in &homes {
        let notes: String = (1..=200)
            .map(|line| format!("line {line} of the notes\n"))
            .collect();
        std::fs::create_dir_all(home.workspace())?;
        std::fs::write(home.workspace().join("notes.txt"), notes)?;
        programs.ask(home, "cli:first").await?;
    }
    let [short, long] = &homes;
    let requests = many.requests();
    // The floor posts the request of the middle every time.
    let body = &requests
        .get(requests.len() / 2)
        .context("the model was not asked")?
        .http
        .body;
    let body_file = short.path().join("request.json");
    std::fs::write(&body_file, body)?;
    let url = format!("{}/chat/completions", one.base_url());
    let log = short.path().join("floor.log");
    let [
        mut one_round,
        mut many_rounds,
        mut floor_once,
        mut floor_often,
    ] = std::array::from_fn(|_| Runs::default());
    for run in 0..plan.runs {
        let session = format!("cli:run-{run}");
        one_round.push(programs.ask(short, &session).await?);
        many_rounds.push(programs.ask(long, &session).await?);
        let often = (1 + further).to_string();
        for (rounds, runs) in [("1", &mut floor_once), (&*often, &mut floor_often)] {
            let arguments = [
                url.as_ref(),
                body_file.as_os_str(),
                log.as_os_str(),
                rounds.as_ref(),
            ];
            runs.push(programs.run(short, &programs.floor_turn, arguments).await?);
        }
    }
    let each = |many: &Runs, one: &Runs| (many.cpu_us() - one.cpu_us()) / further as f64;
    Ok((
        each(&many_rounds, &one_round),
        each(&floor_often, &floor_once),
    ))
}
