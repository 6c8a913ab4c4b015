//! An idle gateway with WebSocket and Telegram enabled.

use std::time::Duration;

use anyhow::Result;
use nanobot_channel_telegram_fake::{TOKEN, TelegramFake};
use serde_json::json;

use super::BenchPlan;
use crate::gateway::BenchGateway;
use crate::home::Home;
use crate::model;
use crate::programs::Programs;
use crate::table::{ReportRow, Unit};

/// Time until the effects of the start are over: idle threads end after ten seconds.
const SETTLING: Duration = Duration::from_secs(15);

pub(super) async fn rows(plan: &BenchPlan, programs: &Programs) -> Result<Vec<ReportRow>> {
    let (server, telegram) = (model::prompt().await?, TelegramFake::start().await?);
    let (port, config) = BenchGateway::config().await?;
    let bot = json!({ "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "pollTimeout": 25 });
    let home = Home::new(
        &server.base_url(),
        [config, json!({ "channels": { "telegram": bot } })],
    )?;
    let gateway = BenchGateway::start(programs, &home, port).await?;
    telegram.wait_for_calls("getUpdates", 1).await?;
    tokio::time::sleep(SETTLING).await;
    let before = gateway.cpu()?;
    tokio::time::sleep(Duration::from_secs(plan.idle_seconds)).await;
    let used = (gateway.cpu()? - before).as_secs_f64() * 1e6;
    let pss = u32::try_from(gateway.pss_kib()?).map(f64::from)?;
    gateway.stop().await?;
    let seconds = u32::try_from(plan.idle_seconds).map(f64::from)?;
    let a_minute = used / seconds * 60.0;
    Ok(vec![
        ReportRow::limit(
            "idle gateway, PSS",
            Unit::Kibibytes,
            pss,
            "≤ 10 MB",
            10.0 * 1_024.0,
        ),
        ReportRow::limit(
            "idle gateway, CPU a minute",
            Unit::Microseconds,
            a_minute,
            "≤ 5 ms",
            5_000.0,
        ),
    ])
}
