//! The cost of each channel, compared with a gateway that has WebSocket alone.
//!
//! Decision: the channels have the settings that the scripted day of the program's tests gives
//! them, because their fakes are the same ones; only what makes these tests fast is removed. Most
//! channels also tell the platform that a message was received, by a reaction, a receipt or an
//! acknowledgement, which is a call for each message. WebSocket does so with a short frame.

mod idle;
mod ledger;
mod receive;

use std::time::Duration;

use anyhow::{Context as _, Result};
use nanobot_chat_fakes::ChatFake;
use serde_json::{Value, json};

use super::median;
use crate::gateway::BenchGateway;
use crate::home::Home;
use crate::programs::Programs;
use crate::table::ReportRow;

/// The channel that the others are compared with.
const WEBSOCKET: &str = "websocket";
/// Settings that make tests fast: without them, the channel has its own defaults.
const SETTINGS_OF_TESTS: [&str; 2] = ["pollTimeout", "pollIntervalSeconds"];
/// Beginnings of the line that a channel logs once it receives.
const READY: [&str; 2] = ["receiving", "a session with QQ begins"];
const START_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn rows(programs: &Programs) -> Result<Vec<ReportRow>> {
    let mut rows = idle::rows(programs).await?;
    rows.extend(receive::rows(programs).await?);
    Ok(rows)
}

/// A gateway with WebSocket and the channel of one fake.
struct Connected {
    gateway: BenchGateway,
    home: Home,
}

impl Connected {
    /// Starts the gateway, and waits until the channel receives.
    async fn start(programs: &Programs, model: &str, fake: &dyn ChatFake) -> Result<Self> {
        let (port, config) = BenchGateway::config().await?;
        let section = section(fake);
        let port = match section.get("port").and_then(Value::as_u64) {
            Some(own) if fake.name() == WEBSOCKET => u16::try_from(own)?,
            _ => port,
        };
        let home = Home::new(
            model,
            [config, json!({ "channels": { fake.name(): section } })],
        )?;
        let gateway = BenchGateway::start(programs, &home, port).await?;
        let connected = Self { gateway, home };
        if fake.name() != WEBSOCKET {
            connected.wait_until_ready(fake.name()).await?;
        }
        Ok(connected)
    }

    async fn wait_until_ready(&self, name: &str) -> Result<()> {
        let log = self.home.path().join("logs/gateway.log");
        let ready = async {
            loop {
                let text = tokio::fs::read_to_string(&log).await.unwrap_or_default();
                if READY.iter().any(|words| text.contains(words)) {
                    return;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(START_LIMIT, ready)
            .await
            .with_context(|| format!("{name} does not connect"))
    }
}

/// Returns the section of a channel, which everyone may write to.
fn section(fake: &dyn ChatFake) -> Value {
    let mut section = fake.section();
    if let Some(settings) = section.as_object_mut() {
        settings.retain(|name, _| !SETTINGS_OF_TESTS.contains(&name.as_str()));
        settings.insert("allowFrom".to_owned(), json!(["*"]));
    }
    section
}
