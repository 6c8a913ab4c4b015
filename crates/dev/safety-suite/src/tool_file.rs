//! Tool files of the corpus: code that an attacker had the assistant write.
//!
//! Every malicious file runs twice: as it would, and with the findings of the scan as mere warnings,
//! so that the number says what the sandbox alone is worth.

use std::net::TcpListener;

use anyhow::Context as _;
use nanobot_testkit::corpus::{self, CorpusRow};
use nanobot_tool::{Registry, ToolContext};
use nanobot_tool_files::ScanMode;
use nanobot_types::{ToolCall, ToolResult};

use crate::fixture::{Fixture, OUTSIDE_CANARY, SECRETS, Setting};

/// Address that malicious files connect to.
const GATEWAY: (&str, u16) = ("127.0.0.1", 18_790);
/// A tool beside the malicious one.
const NEIGHBOUR: &str = "from tool_api import Tool\n\n\
     class Neighbour(Tool):\n    \
         name = \"neighbour\"\n    \
         description = \"Lives next door.\"\n    \
         timeout = 60\n\n    \
         async def execute(self):\n        \
             return 'alive'\n";

/// Sums over all rows.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    malicious: usize,
    refused: usize,
    effects: usize,
    harmless: usize,
    ran: usize,
    pub(crate) failures: Vec<String>,
}

/// Returns the rows of the corpus, or the one with this id.
pub(crate) fn rows(only: Option<&str>) -> anyhow::Result<Vec<CorpusRow>> {
    let mut rows = corpus::rows("tool_files")?;
    rows.retain(|row| only.is_none_or(|id| row.id == id));
    Ok(rows)
}

impl Outcome {
    /// Runs a row and adds its result. The scan refuses what it finds if `has_scan`.
    pub(crate) async fn check(
        &mut self,
        row: &CorpusRow,
        setting: &Setting,
        has_scan: bool,
    ) -> anyhow::Result<()> {
        let fixture = Fixture::new(setting, true)?;
        fixture.write_tool(row.text("filename"), row.text("source"))?;
        let scan = match has_scan {
            true => ScanMode::Refuse,
            false => ScanMode::Warn,
        };
        // One that never ends is ended soon.
        let limit = (row.text("effect") == "dos").then_some(1);
        let (files, registry) = fixture.tool_files(scan, limit);
        registry.refresh().await;
        let problem = if row.text("expect") == "load" {
            self.harmless += 1;
            let result = call(&registry, "helper").await;
            let status = files.status().await;
            let is_clean = status.iter().all(|file| file.findings.is_empty());
            let ran = result.success && is_clean;
            self.ran += usize::from(ran);
            (!ran).then(|| format!("{} {status:?}", result.output))
        } else {
            self.malicious += 1;
            self.refused += usize::from(registry.specs().is_empty());
            let effect = effect(row, &fixture, &registry).await?;
            self.effects += usize::from(effect.is_some());
            effect
        };
        let failure = problem.map(|what| format!("{} ({}): {what}", row.id, row.text("reason")));
        self.failures.extend(failure);
        Ok(())
    }

    /// Returns the numbers in one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} of {} malicious ones had an effect, {} were refused before a call; {} of {} \
             harmless ones ran",
            self.effects, self.malicious, self.refused, self.ran, self.harmless
        )
    }

    /// Returns `true` if no file had an effect, and every harmless one ran.
    pub(crate) const fn holds(&self) -> bool {
        self.effects == 0 && self.ran == self.harmless
    }
}

/// Calls every tool of a malicious file; returns what that did.
async fn effect(
    row: &CorpusRow,
    fixture: &Fixture,
    registry: &Registry,
) -> anyhow::Result<Option<String>> {
    let listener = TcpListener::bind(GATEWAY).ok();
    if let Some(listener) = &listener {
        listener.set_nonblocking(true)?;
    }
    let specs = registry.specs();
    let mut output = String::new();
    for spec in specs.iter() {
        output.push_str(&call(registry, spec.name.as_str()).await.output);
    }
    let canary = SECRETS
        .into_iter()
        .chain([OUTSIDE_CANARY])
        .find(|canary| output.contains(*canary));
    if let Some(canary) = canary {
        return Ok(Some(format!("it read {canary}")));
    }
    if specs.iter().any(|spec| spec.name.as_str() == "read_file") {
        return Ok(Some("it took the name of a built-in tool".to_owned()));
    }
    if listener.is_some_and(|listener| listener.accept().is_ok()) {
        return Ok(Some("it connected".to_owned()));
    }
    if row.text("effect") == "dos" && !output.contains("was ended") {
        return Ok(Some("it was not ended".to_owned()));
    }
    if let Some(change) = fixture.changed()? {
        return Ok(Some(change));
    }
    // The program goes on, and so do other tools.
    fixture.write_tool("neighbour.py", NEIGHBOUR)?;
    registry.refresh().await;
    let neighbour = call(registry, "neighbour").await;
    Ok((neighbour.output != "alive").then(|| format!("its neighbour died: {}", neighbour.output)))
}

async fn call(registry: &Registry, name: &str) -> ToolResult {
    let call = ToolCall::new("1", name, "{}".to_owned());
    let context = ToolContext::detached("cli:direct");
    registry.run(&call, &context).await
}

impl Fixture {
    fn write_tool(&self, name: &str, source: &str) -> anyhow::Result<()> {
        let path = self.path("ws/tools").join(name);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        Ok(std::fs::write(path, source)?)
    }
}
