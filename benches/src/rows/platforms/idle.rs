//! Memory, processor time and calls of a channel that is connected and gets no messages.

use std::time::Duration;

use anyhow::Result;
use nanobot_chat_fakes::{ChatFake, PLATFORMS, start_one};

use super::{Connected, WEBSOCKET};
use crate::gateway::BenchGateway;
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

/// Time until the effects of the start are over: idle threads end after ten seconds.
const SETTLING: Duration = Duration::from_secs(15);
/// Time in which calls are counted.
const OBSERVED: Duration = Duration::from_secs(30);

/// All gateways run at the same time. Only anonymous memory is compared: the pages of the program
/// are shared between them.
pub(super) async fn rows(programs: &Programs) -> Result<Vec<ReportRow>> {
    let model = model::prompt().await?;
    let (port, config) = BenchGateway::config().await?;
    let home = Home::new(&model.base_url(), [config])?;
    let alone = BenchGateway::start(programs, &home, port).await?;
    let mut channels = Vec::new();
    for name in PLATFORMS.into_iter().filter(|name| *name != WEBSOCKET) {
        let fake = start_one(name).await?;
        let connected = Connected::start(programs, &model.base_url(), &*fake).await?;
        channels.push((fake, connected));
    }
    tokio::time::sleep(SETTLING).await;
    let calls = |fake: &dyn ChatFake| fake.calls().len();
    let before: Vec<_> = channels
        .iter()
        .map(|(fake, connected)| Ok((calls(&**fake), connected.gateway.cpu()?)))
        .collect::<Result<_>>()?;
    tokio::time::sleep(OBSERVED).await;
    let least = alone.anonymous_kib()?;
    let mut rows = Vec::new();
    for ((fake, connected), (calls_before, cpu_before)) in channels.iter().zip(before) {
        let name = fake.name();
        let more = connected.gateway.anonymous_kib()?.saturating_sub(least);
        let used = connected.gateway.cpu()?.saturating_sub(cpu_before);
        let made = calls(&**fake).saturating_sub(calls_before);
        rows.extend([
            ReportRow::limit(
                format!("{name}, memory more than without"),
                Unit::Kibibytes,
                f64::from(u32::try_from(more)?),
                "≤ 0.5 MB",
                512.0,
            ),
            ReportRow::limit(
                format!("{name}, idle CPU a minute"),
                Unit::Microseconds,
                used.as_secs_f64() * 1e6 * 60.0 / OBSERVED.as_secs_f64(),
                "≤ 5 ms",
                5_000.0,
            ),
            ReportRow::limit(
                format!("{name}, calls in 30 s of idling"),
                Unit::Count,
                f64::from(u32::try_from(made)?),
                "≤ 4",
                4.0,
            ),
        ]);
    }
    for (_, connected) in channels {
        connected.gateway.stop().await?;
    }
    alone.stop().await?;
    Ok(rows)
}
