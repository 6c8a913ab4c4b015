//! Cost of each further tool round of a turn: that of twenty more rounds, divided by twenty.

use anyhow::{Context as _, Result};

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

const FURTHER: usize = 20;

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let (one, many) = (model::reading(1).await?, model::reading(1 + FURTHER).await?);
    let homes = [
        Home::new(&one.base_url(), [])?,
        Home::new(&many.base_url(), [])?,
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
    let body = &requests
        .first()
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
        for (rounds, runs) in [("1", &mut floor_once), ("21", &mut floor_often)] {
            let arguments = [
                url.as_ref(),
                body_file.as_os_str(),
                log.as_os_str(),
                rounds.as_ref(),
            ];
            runs.push(programs.run(short, &programs.floor_turn, arguments).await?);
        }
    }
    let each = |many: &Runs, one: &Runs| (many.cpu_us() - one.cpu_us()) / 20.0;
    let (value, floor) = (
        each(&many_rounds, &one_round),
        each(&floor_often, &floor_once),
    );
    Ok(vec![
        ReportRow::limit(
            "each further tool round, CPU",
            Unit::Microseconds,
            value,
            "≤ 1 ms",
            1_000.0,
        )
        .beside(Unit::Microseconds, value, floor),
    ])
}
