//! Cost of the provider layer: of an exchange, and of a long answer.

use std::ffi::OsStr;

use anyhow::{Context as _, Result};
use nanobot_testkit::{ModelServer, Reply};

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

/// Number of exchanges of a process. The cost of its start is that of a process with one.
const TIMES: u32 = 201;
/// Number of deltas of an answer and the length of each in bytes.
const DELTAS: (usize, usize) = (16, 128);
/// Number and length of the deltas of a long answer, 100 MB, and the number of a short one.
const LONG: (usize, usize) = (25_000, 4_096);
const SHORT: usize = 250;

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    Ok(vec![
        exchange(plan, programs).await?,
        long_answer(plan, programs).await?,
    ])
}

async fn exchange(plan: &BenchPlan, programs: &Programs) -> Result<ReportRow> {
    let server = answering(DELTAS).await?;
    let home = Home::new(&server.base_url(), [])?;
    let url = server.base_url();
    programs
        .run(&home, &programs.exchange, ["provider", &*url, "1"])
        .await?;
    let requests = server.requests();
    let body = &requests
        .first()
        .context("the model was not asked")?
        .http
        .body;
    let body_file = home.path().join("body.json");
    std::fs::write(&body_file, body)?;
    let endpoint = format!("{url}/chat/completions");
    let [mut provider, mut bare] = [(); 2].map(|()| [Runs::default(), Runs::default()]);
    for _ in 0..plan.runs {
        for (place, times) in ["1", &*TIMES.to_string()].into_iter().enumerate() {
            let through = ["provider", &*url, times].map(OsStr::new);
            let without = [
                OsStr::new("bare"),
                endpoint.as_ref(),
                body_file.as_os_str(),
                times.as_ref(),
            ];
            if let (Some(provider), Some(bare)) = (provider.get_mut(place), bare.get_mut(place)) {
                provider.push(programs.run(&home, &programs.exchange, through).await?);
                bare.push(programs.run(&home, &programs.exchange, without).await?);
            }
        }
    }
    let each = |[one, many]: &[Runs; 2]| (many.cpu_us() - one.cpu_us()) / f64::from(TIMES - 1);
    let (value, floor) = (each(&provider), each(&bare));
    Ok(ReportRow::limit(
        "exchange of 4 KB through the provider layer, CPU",
        Unit::Microseconds,
        value,
        "≤ 0.3 ms over floor",
        floor + 300.0,
    )
    .beside(Unit::Microseconds, value, floor))
}

async fn long_answer(plan: &BenchPlan, programs: &Programs) -> Result<ReportRow> {
    let servers = [answering((SHORT, LONG.1)).await?, answering(LONG).await?];
    let mut runs = [Runs::default(), Runs::default()];
    for _ in 0..plan.runs.min(5) {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let url = server.base_url();
            let home = Home::new(&url, [])?;
            let arguments = ["provider", &*url, "1"];
            runs.push(programs.run(&home, &programs.exchange, arguments).await?);
        }
    }
    let [short, long] = &runs;
    Ok(ReportRow::ratio(
        "answer of 100 MB, peak RSS (floor: of 1 MB)",
        Unit::Kibibytes,
        long.peak_rss_kib(),
        short.peak_rss_kib(),
        "≤ 1.1×",
        1.1,
    ))
}

/// Starts a model that answers with a number of deltas of a length.
async fn answering((number, length): (usize, usize)) -> Result<ModelServer> {
    let answer = move || Reply::deltas(std::iter::repeat_n("x".repeat(length), number));
    Ok(ModelServer::answering(move |_| answer()).await?)
}
