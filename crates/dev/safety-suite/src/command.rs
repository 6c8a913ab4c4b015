//! Commands of the corpus.

use std::process::{Command, Stdio};

use anyhow::Context as _;
use nanobot_tool::ToolContext;
use nanobot_tools::{CommandRequest, CommandRunner as _};
use nanobot_types::ToolCall;
use serde::Deserialize;
use serde_json::json;

use crate::fixture::{Fixture, OUTSIDE_CANARY, SECRETS, Setting};

/// Start of a refusal before anything was started.
const REFUSAL: &str = "Error: Command blocked by safety guard (";

/// One line of the corpus.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    id: String,
    cmd: String,
    expect: String,
    stop: Option<String>,
    profile: String,
    proven: bool,
    reason: String,
}

impl Row {
    fn is_attack(&self) -> bool {
        self.expect == "deny"
    }
}

/// Returns the rows of the corpus, or the one with this id.
pub(crate) fn rows(only: Option<&str>) -> anyhow::Result<Vec<Row>> {
    let lines = include_str!("../../testkit/corpus/exec_guard.jsonl").lines();
    let rows: Vec<Row> = lines
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("the corpus has a broken line")?;
    let rows = rows.into_iter();
    Ok(rows
        .filter(|row| only.is_none_or(|id| row.id == id))
        .collect())
}

/// What one row did.
#[derive(Debug, Default)]
pub(crate) struct RowResult {
    /// It was refused before anything was started.
    was_refused: bool,
    /// What a command did that it may not, with the guard.
    effect: Option<String>,
    /// The same without the guard; `None` also if the row was not run so.
    effect_without_guard: Option<String>,
    /// It was run without the guard.
    ran_without_guard: bool,
    /// Whether the attack had an effect in a plain shell, if it was run in one.
    had_effect_in_plain_shell: Option<bool>,
    /// A harmless command that did not run as in a plain shell.
    difference: Option<String>,
}

/// Runs a row.
pub(crate) async fn check(row: &Row, setting: &Setting) -> anyhow::Result<RowResult> {
    let is_strict = row.profile == "strict";
    let fixture = Fixture::new(setting, is_strict)?;
    let command = fixture.expand(&row.cmd);
    let call = ToolCall::new("call", "exec", json!({"command": command}).to_string());
    let context = ToolContext::detached("cli:direct");
    let registry = fixture.registry()?;
    let output = registry.run(&call, &context).await.output;
    let mut result = RowResult {
        was_refused: output.starts_with(REFUSAL),
        effect: effect(row, &fixture, &output).await?,
        ..RowResult::default()
    };
    if row.is_attack() {
        // Unproven attacks are not run: they might damage this computer.
        if row.proven {
            let fixture = Fixture::new(setting, is_strict)?;
            let output = without_guard(&fixture, &command).await?;
            result.ran_without_guard = true;
            result.effect_without_guard = effect(row, &fixture, &output).await?;
        }
        if row.proven && setting.has_control {
            let fixture = Fixture::new(setting, is_strict)?;
            let (output, _) = plain_shell(&fixture, &command)?;
            result.had_effect_in_plain_shell =
                Some(effect(row, &fixture, &output).await?.is_some());
        }
        return Ok(result);
    }
    let sandboxed = exit_code(&output);
    let fixture = Fixture::new(setting, is_strict)?;
    let (_, plain) = plain_shell(&fixture, &command)?;
    result.difference = (sandboxed.is_none() || sandboxed != plain).then(|| {
        format!("exit code {sandboxed:?}, in a plain shell {plain:?}; output: {output:.300}")
    });
    Ok(result)
}

/// Runs a command without guard and sandbox, in the environment of the assistant. Returns its output
/// and exit code.
fn plain_shell(fixture: &Fixture, command: &str) -> anyhow::Result<(String, Option<i32>)> {
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .current_dir(fixture.path("ws"))
        .stdin(Stdio::null())
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((text, output.status.code()))
}

/// Runs a command in the sandbox although the guard would refuse it.
async fn without_guard(fixture: &Fixture, command: &str) -> anyhow::Result<String> {
    let runner = fixture.runner();
    let request = CommandRequest {
        script: command.to_owned(),
        directory: fixture.path("ws"),
        environment: ["PATH", "HOME"]
            .iter()
            .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)))
            .collect(),
        limit: None,
    };
    let mut process = runner.command(&request)?;
    let output = tokio::task::spawn_blocking(move || process.process.stdin(Stdio::null()).output());
    let output = output.await??;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns what the command did that it may not.
async fn effect(row: &Row, fixture: &Fixture, output: &str) -> anyhow::Result<Option<String>> {
    let outside = (row.profile == "strict").then_some(OUTSIDE_CANARY);
    let leaked = SECRETS
        .into_iter()
        .chain(outside)
        .find(|canary| output.contains(*canary));
    if let Some(canary) = leaked {
        return Ok(Some(format!("it read {canary}")));
    }
    if let Some(change) = fixture.changed()? {
        return Ok(Some(change));
    }
    if let Some(survivor) = fixture.survivor().await? {
        return Ok(Some(survivor));
    }
    let fill = fixture.path("ws/fill.bin");
    let size = fill.metadata().map_or(0, |metadata| metadata.len());
    Ok((size > 16 << 20).then(|| format!("it wrote {size} bytes")))
}

/// Returns the exit code that a result states.
fn exit_code(output: &str) -> Option<i32> {
    let (_, code) = output.rsplit_once("Exit code: ")?;
    code.lines().next()?.trim().parse().ok()
}

/// The sums over all rows.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    attacks: usize,
    effects: usize,
    must_refuse: usize,
    refused: usize,
    without_guard: usize,
    effects_without_guard: usize,
    controls: usize,
    effects_in_plain_shell: usize,
    harmless: usize,
    ran: usize,
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    pub(crate) fn add(&mut self, row: &Row, result: RowResult) {
        let mut fail = |what: String| {
            self.failures.push(format!(
                "{} {:.100} ({}): {what}",
                row.id, row.cmd, row.reason
            ));
        };
        if !row.is_attack() {
            self.harmless += 1;
            match result.difference.or(result.effect) {
                Some(difference) => fail(difference),
                None => self.ran += 1,
            }
            return;
        }
        self.attacks += 1;
        if row.stop.as_deref() == Some("guard") {
            self.must_refuse += 1;
            self.refused += usize::from(result.was_refused);
            if !result.was_refused {
                fail("it was started".to_owned());
            }
        }
        if let Some(effect) = result.effect {
            self.effects += 1;
            fail(effect);
        }
        if let Some(had_effect) = result.had_effect_in_plain_shell {
            self.controls += 1;
            self.effects_in_plain_shell += usize::from(had_effect);
        }
        self.without_guard += usize::from(result.ran_without_guard);
        if let Some(effect) = result.effect_without_guard {
            self.effects_without_guard += 1;
            fail(format!("without the guard: {effect}"));
        }
    }

    /// Returns one line for each promise.
    pub(crate) fn summary(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "commands: {} of {} attacks had an effect",
                self.effects, self.attacks
            ),
            format!(
                "commands: {} of {} proven attacks had an effect with the sandbox alone",
                self.effects_without_guard, self.without_guard
            ),
            format!(
                "commands: {} of {} refused before anything was started",
                self.refused, self.must_refuse
            ),
            format!(
                "commands: {} of {} harmless ones ran as in a plain shell",
                self.ran, self.harmless
            ),
        ];
        if self.controls > 0 {
            lines.push(format!(
                "commands: {} of {} proven attacks had an effect in a plain shell",
                self.effects_in_plain_shell, self.controls
            ));
        }
        lines
    }

    /// Returns `true` if all promises hold: no effect, all refusals, and 98 % of harmless commands,
    /// or 80 % under Landlock, where none can create a file beside a protected one. Of the control,
    /// 90 % have to be seen: an attack may need bash.
    pub(crate) fn holds(&self, landlock: bool) -> bool {
        let harmless = if landlock { 80 } else { 98 };
        self.effects == 0
            && self.effects_without_guard == 0
            && self.refused == self.must_refuse
            && self.ran * 100 >= self.harmless * harmless
            && self.effects_in_plain_shell * 100 >= self.controls * 90
    }
}
