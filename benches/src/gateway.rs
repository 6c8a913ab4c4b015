//! A running gateway, observed from outside.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nanobot_testkit::WebSocketClient;
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Child;

use crate::home::Home;
use crate::programs::Programs;

const START_LIMIT: Duration = Duration::from_secs(20);
const ATTEMPT: Duration = Duration::from_millis(20);

/// A gateway with the WebSocket channel enabled; killed when dropped.
#[derive(Debug)]
pub(crate) struct BenchGateway {
    child: Child,
    pid: Pid,
    port: u16,
}

impl BenchGateway {
    /// Returns a free port and the configuration of a gateway that listens on it.
    pub(crate) async fn config() -> Result<(u16, Value)> {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let websocket = json!({ "enabled": true, "port": port, "websocketRequiresToken": false, "allowFrom": ["*"] });
        Ok((
            port,
            json!({ "gateway": { "port": 0 }, "channels": { "websocket": websocket } }),
        ))
    }

    /// Starts the gateway and waits until it accepts connections.
    pub(crate) async fn start(programs: &Programs, home: &Home, port: u16) -> Result<Self> {
        let child = programs.gateway(home).spawn()?;
        let pid = child.id().context("the gateway ended at once")?;
        let gateway = Self {
            child,
            pid: Pid::from_raw(i32::try_from(pid)?),
            port,
        };
        let listening = async {
            while gateway.connect("probe").await.is_err() {
                tokio::time::sleep(ATTEMPT).await;
            }
        };
        tokio::time::timeout(START_LIMIT, listening)
            .await
            .context("the gateway takes no connections")?;
        Ok(gateway)
    }

    /// Connects a client with a chat of that name.
    pub(crate) async fn connect(&self, chat: &str) -> Result<WebSocketClient> {
        let url = format!(
            "ws://127.0.0.1:{}/?client_id=measure&chat_id={chat}",
            self.port
        );
        Ok(WebSocketClient::connect(&url).await?)
    }

    /// Returns the CPU time of all threads so far, including those that have ended.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Ok(clock_getcpuclockid(self.pid)?.now()?.into())
    }

    /// Returns the proportional set size (PSS): private memory plus its share of shared memory, in
    /// KiB.
    pub(crate) fn pss_kib(&self) -> Result<u64> {
        self.memory_kib("Pss:")
    }

    /// Returns the part of the PSS that is in no file, such as the heap, in KiB. Other processes of
    /// the same program do not change it.
    pub(crate) fn anonymous_kib(&self) -> Result<u64> {
        self.memory_kib("Pss_Anon:")
    }

    fn memory_kib(&self, field: &str) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid))?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .with_context(|| format!("no {field} in smaps_rollup"))?;
        Ok(value.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// Asks the gateway to end and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<()> {
        kill(self.pid, Signal::SIGTERM)?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the gateway ended with {status}");
        Ok(())
    }
}
