//! `--version` and `--help`: the cost of starting the program.

use anyhow::Result;

use super::{BenchPlan, Runs};
use crate::home::Home;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let home = Home::new("http://127.0.0.1:9/v1", [])?;
    let (mut version, mut floor, mut help) = (Runs::default(), Runs::default(), Runs::default());
    for _ in 0..plan.runs {
        version.push(programs.nanobot(&home, &["--version"]).await?);
        floor.push(
            programs
                .run(&home, &programs.floor_version, [""; 0])
                .await?,
        );
        help.push(programs.nanobot(&home, &["--help"]).await?);
    }
    let (peak, least) = (version.peak_rss_kib(), floor.peak_rss_kib());
    Ok(vec![
        ReportRow::ratio(
            "`--version`, CPU",
            Unit::Microseconds,
            version.cpu_us(),
            floor.cpu_us(),
            "≤ 1.5×",
            1.5,
        ),
        ReportRow::limit(
            "`--version`, peak RSS",
            Unit::Kibibytes,
            peak,
            "≤ 4 MB",
            4.0 * 1_024.0,
        )
        .beside(Unit::Kibibytes, peak, least),
        ReportRow::limit(
            "`--help`, wall",
            Unit::Microseconds,
            help.wall_us(),
            "< 10 ms",
            10_000.0,
        ),
    ])
}
