//! A web page of 50 KB, parsed in the helper process and in this process.

use std::time::{Duration, Instant};

use anyhow::Result;
use nanobot_extract::{
    Extract as _, ExtractRequest, ExtractResponse, HelperProcess, PageRequest, TextMode,
};

use super::{BenchPlan, median};
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

/// Duration of a download, during which `web_fetch` starts the helper.
const DOWNLOAD: Duration = Duration::from_millis(20);
/// Size of the page, in bytes.
const BYTES: usize = 50_000;
/// Maximum time for starting the helper and parsing a page, in microseconds.
const COLD: f64 = 8_000.0;
/// Maximum overhead of a running helper over parsing in this process, in microseconds.
const WARM: f64 = 3_000.0;

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let page = page();
    let (mut cold, mut ahead, mut warm, mut here) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.runs {
        let helper = HelperProcess::at(programs.documents.clone());
        cold.push(timed(&helper, &page).await?);
        warm.push(timed(&helper, &page).await?);
        let helper = HelperProcess::at(programs.documents.clone());
        helper.prepare();
        tokio::time::sleep(DOWNLOAD).await;
        ahead.push(timed(&helper, &page).await?);
        let began = Instant::now();
        is_read(&nanobot_formats::read(page.clone())?)?;
        here.push(began.elapsed());
    }
    let [cold, ahead, warm, here] =
        [cold, ahead, warm, here].map(|times| median(times.iter().map(|time| time.as_micros())));
    let unit = Unit::Microseconds;
    Ok(vec![
        ReportRow::limit(
            "page of 50 KB, helper started, wall",
            unit,
            cold,
            "≤ 8 ms",
            COLD,
        )
        .beside(unit, cold, here),
        ReportRow::limit(
            "page of 50 KB after a download of 20 ms, helper started, wall",
            unit,
            ahead,
            "≤ 8 ms",
            COLD,
        )
        .beside(unit, ahead, here),
        ReportRow::limit(
            "page of 50 KB, helper warm, wall",
            unit,
            warm,
            "≤ 3 ms over floor",
            here + WARM,
        )
        .beside(unit, warm, here),
    ])
}

async fn timed(helper: &HelperProcess, page: &ExtractRequest) -> Result<Duration> {
    let began = Instant::now();
    let answer = helper.extract(page.clone()).await?;
    let spent = began.elapsed();
    is_read(&answer)?;
    Ok(spent)
}

fn is_read(answer: &ExtractResponse) -> Result<()> {
    let ExtractResponse::Page(page) = answer else {
        anyhow::bail!("the answer is of another kind")
    };
    anyhow::ensure!(
        page.text.contains("Paragraph 20 "),
        "the text of the page is missing"
    );
    Ok(())
}

/// Returns an article with headings, links, lists and emphasis.
fn page() -> ExtractRequest {
    let mut body = String::from(
        "<!doctype html><html><head><title>An article</title></head><body><nav>Home</nav><article>",
    );
    for number in 0_u32.. {
        if body.len() > BYTES {
            break;
        }
        body.push_str(&format!(
            "<h2>Section {number}</h2><p>Paragraph {number} of some words, <em>stressed</em> and <a href='/{number}'>linked</a>, \
             which goes on for as long as people write: one clause after the other, commas included, until it ends.</p>\
             <ul><li>first</li><li>second with <code>code</code></li></ul>"
        ));
    }
    body.push_str("</article></body></html>");
    ExtractRequest::Page(PageRequest {
        url: "https://example.com/articles/1".to_owned(),
        content_type: "text/html; charset=utf-8".to_owned(),
        mode: TextMode::Markdown,
        body: body.into_bytes(),
    })
}
