//! CPU time of building a request for a long session: reading the end of the log, building the
//! prompt, counting tokens. No model is called.

use std::sync::Arc;

use anyhow::Result;
use nanobot_agent_core::{Agent, AgentParts, AgentSettings};
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, ContextSettings};
use nanobot_memory::MarkdownStore;
use nanobot_provider::{ProviderRouter, RetryPolicy};
use nanobot_session::{JsonlStore, SessionPaths};
use nanobot_tool::Registry;
use nanobot_types::SessionKey;
use nix::sys::resource::{Usage, UsageWho, getrusage};

use crate::home::Home;
use crate::table::{ReportRow, Unit};

const SESSION: &str = "cli:context";
const MESSAGES: usize = 10_000;
/// Messages that are still sent; the others are summarized.
const SENT: usize = 100;
/// Number of repetitions, because the resolution of the CPU clock is too low for one.
const TIMES: u32 = 200;

pub(super) async fn rows() -> Result<Vec<ReportRow>> {
    let home = Home::new("http://127.0.0.1:1", [])?;
    home.store_session_sending(SESSION, MESSAGES, u64::try_from(SENT)?)
        .await?;
    let sessions = JsonlStore::new(SessionPaths::discover(
        &home.workspace(),
        home.path(),
        home.path(),
    ));
    let memory = Arc::new(MarkdownStore::new(home.workspace().join("memory")));
    let parts = AgentParts {
        router: Arc::new(ProviderRouter::new([], RetryPolicy::default())),
        registry: Arc::new(Registry::new()),
        sessions: Arc::new(sessions),
        context: Arc::new(ContextBuilder::new(
            ContextSettings::new(home.workspace()),
            memory,
        )),
        events: EventFeed::new(),
    };
    let agent = Agent::new(parts, AgentSettings::default());
    let session = SessionKey::from(SESSION);
    let first = agent.context_report(&session).await?;
    anyhow::ensure!(
        first.messages == SENT,
        "{} messages are sent",
        first.messages
    );
    let before = cpu_us()?;
    for _ in 0..TIMES {
        agent.context_report(&session).await?;
    }
    let spent = (cpu_us()? - before) / f64::from(TIMES);
    Ok(vec![ReportRow::limit(
        "context of 10,000 messages, 100 of them sent, CPU",
        Unit::Microseconds,
        spent,
        "< 2 ms",
        2_000.0,
    )])
}

/// Returns the CPU time of this process so far, in microseconds.
fn cpu_us() -> Result<f64> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    Ok(of(usage.user_time()) + of(usage.system_time()))
}
