//! A tool of a file: its definition, its code, and the process that runs it.
//!
//! Decision: calls of one tool wait for each other, because a host answers one request at a time. A
//! call that fails in any other way than by an error of the tool ends the process; the next call
//! starts a new one. If only the code of a file changed, the tool stays the same, and its next call
//! runs the new code: so requests do not change.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_escape::sanitize;
use nanobot_tool::{CallReview, CallRisk, Tool, ToolContext};
use nanobot_types::{ToolResult, ToolSpec};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::code::Code;
use crate::confinement::{Confinement, Places, joined, quoted};
use crate::definition::Definition;
use crate::folder::FOLDER;
use crate::host::{Host, LOAD};

/// Parts that all tools share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) confinement: Arc<Confinement>,
    pub(crate) tasks: TaskTracker,
    /// Time after its last call in which a host waits for the next one.
    pub(crate) idle: Duration,
}

/// A tool.
#[derive(Debug)]
pub(crate) struct FileTool {
    spec: ToolSpec,
    code: Mutex<Running>,
    shared: Arc<Shared>,
    slot: Arc<tokio::sync::Mutex<Slot>>,
    end: CancellationToken,
    _ending: DropGuard,
}

/// The code that the next call runs.
#[derive(Debug, Clone)]
struct Running {
    code: Arc<Code>,
    limit: Duration,
}

/// The host that waits for a call.
#[derive(Debug)]
struct Slot {
    host: Option<WaitingHost>,
    /// Number of hosts so far, to tell the present one from earlier ones.
    number: u64,
    last_used: Instant,
}

/// A host with a loaded file.
#[derive(Debug)]
struct WaitingHost {
    host: Host,
    code: Arc<Code>,
    /// The folders that it knows.
    places: Places,
}

impl FileTool {
    pub(crate) fn new(definition: Definition, code: Code, shared: &Arc<Shared>) -> Self {
        let end = CancellationToken::new();
        Self {
            code: Mutex::new(running(&definition, code, shared)),
            spec: definition.spec,
            shared: Arc::clone(shared),
            slot: Arc::new(tokio::sync::Mutex::new(Slot {
                host: None,
                number: 0,
                last_used: Instant::now(),
            })),
            _ending: end.clone().drop_guard(),
            end,
        }
    }

    /// Replaces code and time limit if the definition is otherwise the same; `false` if it is not.
    pub(crate) fn takes(&self, definition: &Definition, code: Code) -> bool {
        if self.spec != definition.spec {
            return false;
        }
        let next = running(definition, code, &self.shared);
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) = next;
        true
    }

    fn running(&self) -> Running {
        let running = self.code.lock();
        running.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn name(&self) -> &str {
        self.spec.name.as_str()
    }

    fn has_network(&self) -> bool {
        self.shared.confinement.has_network(self.name())
    }

    async fn call(&self, arguments: &Value) -> Result<String, String> {
        let Running { code, limit } = self.running();
        match &*code {
            Code::Python { file, source } => {
                let mut slot = self.slot.lock().await;
                let host = self.host(&mut slot, &code, (file, source));
                let waiting = within(LOAD, host).await?;
                call_host(&mut slot, waiting, arguments, limit).await
            }
            Code::Program { folder, command } => {
                within(limit, self.run_program(folder, command, arguments)).await
            }
        }
    }

    /// Takes the host out of `slot`, or starts one.
    async fn host(
        &self,
        slot: &mut Slot,
        code: &Arc<Code>,
        file: (&str, &str),
    ) -> Result<WaitingHost, String> {
        let places = self.shared.confinement.places().await;
        let is_current =
            |waiting: &WaitingHost| Arc::ptr_eq(&waiting.code, code) && waiting.places == places;
        if let Some(mut waiting) = slot.host.take().filter(is_current)
            && !waiting.host.has_ended()
        {
            return Ok(waiting);
        }
        let host = self.start_host(file, &places).await?;
        slot.number += 1;
        self.end_when_idle(slot.number);
        let code = Arc::clone(code);
        Ok(WaitingHost { host, code, places })
    }

    async fn start_host(&self, file: (&str, &str), places: &Places) -> Result<Host, String> {
        let Shared {
            confinement, tasks, ..
        } = &*self.shared;
        let mut host = Host::start(confinement, self.name(), tasks).await?;
        let loaded = match host.load(confinement.config().scan, file, places).await {
            Ok(loaded) => loaded,
            Err(failure) => return Err(host.explain(&failure).await),
        };
        match (loaded.definition, loaded.error) {
            (Some(_), _) => Ok(host),
            (None, Some(error)) => Err(error),
            (None, None) => Err(loaded.findings.join("; ")),
        }
    }

    /// Starts the task that ends this host when it is idle.
    fn end_when_idle(&self, number: u64) {
        let (slot, idle) = (Arc::downgrade(&self.slot), self.shared.idle);
        let end = self.end.clone();
        self.shared.tasks.spawn(async move {
            end.run_until_cancelled(end_when_idle(slot, number, idle))
                .await;
        });
    }

    /// Runs a program with the arguments as a line of JSON; its output is the result.
    async fn run_program(
        &self,
        folder: &str,
        command: &[String],
        arguments: &Value,
    ) -> Result<String, String> {
        let Shared {
            confinement, tasks, ..
        } = &*self.shared;
        let places = confinement.places().await;
        let folder = places.workspace.join(FOLDER).join(folder);
        let words: Vec<String> = command
            .iter()
            .map(|word| match word.strip_prefix("./") {
                Some(rest) => quoted(&folder.join(rest).to_string_lossy()),
                None => quoted(word),
            })
            .collect();
        let variables = vec![
            ("NANOBOT_TOOL_DIR".into(), folder.into()),
            ("NANOBOT_ALLOWED_DIRS".into(), joined(&places.allowed_dirs)),
        ];
        let script = format!("exec {}", words.join(" "));
        let mut process = confinement
            .start(self.name(), script, variables, tasks)
            .await?;
        // A program may end without reading its input.
        drop(process.write(format!("{arguments}\n").as_bytes()).await);
        process.close_input();
        let output = match process.read_to_end().await {
            Ok(output) => output,
            Err(failure) => return Err(process.explain(&failure).await),
        };
        let output = String::from_utf8_lossy(&output).into_owned();
        let (succeeded, status) = process.wait().await;
        if succeeded {
            return Ok(output);
        }
        let said = process.last_errors().await;
        let parts = [status, said, output];
        let parts: Vec<&str> = parts.iter().map(|part| part.trim()).collect();
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        Err(Vec::from_iter(parts).join("\n"))
    }
}

#[async_trait]
impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// A tool says by itself what its effect is, so that counts only for repeating calls: in a turn
    /// that read strangers' text, a person decides. "Always" holds for one version of a file.
    async fn review(&self, _: &Value, _: &ToolContext) -> CallReview {
        let digest = self.running().code.digest();
        let version = digest.map(|digest| format!("version {digest} of its file"));
        CallReview {
            risk: CallRisk::NeedsConsent("runs a tool that the assistant wrote".to_owned()),
            destination: self.has_network().then(|| "the network".to_owned()),
            circumstances: version.clone().unwrap_or_default(),
            rule: version,
        }
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        // Dropping the call ends its process.
        match context
            .cancel
            .run_until_cancelled(self.call(&arguments))
            .await
        {
            None => ToolResult::error("Error: cancelled"),
            Some(Ok(output)) if output.trim().is_empty() => ToolResult::ok("(no output)"),
            Some(Ok(output)) => {
                let result = ToolResult::ok(sanitize(&output));
                match self.has_network() {
                    true => result.from_strangers(self.name()),
                    false => result,
                }
            }
            Some(Err(error)) => {
                let mut text = format!("Error: {}", sanitize(&error));
                if let Some(hint) = self.shared.confinement.hint(self.name(), &error) {
                    text.push_str(&format!("\n[{hint}]"));
                }
                ToolResult::error(text)
            }
        }
    }
}

fn running(definition: &Definition, code: Code, shared: &Shared) -> Running {
    Running {
        code: Arc::new(code),
        limit: shared.confinement.config().limit(definition.timeout),
    }
}

/// Calls the tool by a host, which goes to `slot` only after an answer.
async fn call_host(
    slot: &mut Slot,
    mut waiting: WaitingHost,
    arguments: &Value,
    limit: Duration,
) -> Result<String, String> {
    let called = async { Ok(waiting.host.call(arguments).await) };
    match within(limit, called).await? {
        Ok(answer) => {
            slot.host = Some(waiting);
            slot.last_used = Instant::now();
            answer.into_result()
        }
        Err(failure) => Err(waiting.host.explain(&failure).await),
    }
}

/// Waits for a result at most for `limit`. What is dropped then ends its process.
async fn within<T>(
    limit: Duration,
    result: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, result).await {
        Ok(result) => result,
        Err(_elapsed) => Err(format!(
            "it did not answer within {} s and was ended",
            limit.as_secs()
        )),
    }
}

/// Ends a host that nobody used for a time.
async fn end_when_idle(slot: Weak<tokio::sync::Mutex<Slot>>, number: u64, idle: Duration) {
    let mut pause = idle;
    loop {
        tokio::time::sleep(pause).await;
        let Some(slot) = slot.upgrade() else { return };
        let mut slot = slot.lock().await;
        if slot.number != number || slot.host.is_none() {
            return;
        }
        let unused = slot.last_used.elapsed();
        if unused >= idle {
            slot.host = None;
            return;
        }
        pause = idle.saturating_sub(unused);
    }
}
