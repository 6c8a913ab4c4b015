//! The process that runs a Python file: `host.py`, spoken to in lines of JSON.
//!
//! Decision: the host and the source of the tool arrive through its input. So the process needs no
//! file of its own, and what runs is what was read and checked. Each answer repeats the number of
//! its request; any other line ends the process, so that no stray output becomes a result.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_util::task::TaskTracker;

use crate::ScanMode;
use crate::confinement::{Confinement, Places, quoted};
use crate::process::{Process, ProcessFailure};

/// The program of the host.
const HOST: &str = include_str!("host.py");
/// Reads the host from its input. Works with every Python, to say which one is needed.
const START: &str = r#"import sys
if sys.version_info < (3, 9): sys.exit("Python 3.9 or later is needed")
import json, os
REQUESTS = os.fdopen(os.dup(0), "rb")
exec(compile(json.loads(REQUESTS.readline()), "<host>", "exec"))
"#;
/// Places of the system's Python, then that of `PATH`.
const PLACES: [&str; 3] = ["/usr/bin/python3", "/usr/local/bin/python3", "python3"];

/// Time in which a host has to start and to load its file.
pub(crate) const LOAD: Duration = Duration::from_secs(30);
/// Modules that have the class of tools; a part of the name is sufficient.
pub(crate) const MODULES: [&str; 2] = ["tool_api", "nanobot"];
/// Error output of a Python that is too old.
pub(crate) const OLD_PYTHON: &str = "Python 3.9 or later is needed";
/// Error output where there is no Python.
pub(crate) const NO_PYTHON: &str = "there is no python3";

/// A host, for one tool file.
#[derive(Debug)]
pub(crate) struct Host {
    process: Process,
    requests: u64,
}

/// The answer to `load`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    /// The definition, unless the file was refused.
    pub(crate) definition: Option<Map<String, Value>>,
    /// What the scan found.
    pub(crate) findings: Vec<String>,
    /// `false` if the file does not import the class of tools, so that it was not run.
    pub(crate) is_tool: bool,
    /// The reason why there is no definition, unless the scan refused the file.
    pub(crate) error: Option<String>,
}

/// The answer to `call`.
#[derive(Debug, Deserialize)]
pub(crate) struct Answered {
    output: Option<String>,
    error: Option<String>,
}

impl Answered {
    /// Returns the output, or the error that the tool raised.
    pub(crate) fn into_result(self) -> Result<String, String> {
        match (self.output, self.error) {
            (_, Some(error)) => Err(error),
            (output, None) => Ok(output.unwrap_or_default()),
        }
    }
}

impl Host {
    /// Starts a host for the tool called `tool`; the name is empty while it is unknown. Loads
    /// nothing yet.
    ///
    /// # Errors
    /// Returns the reason why it cannot be confined or started.
    pub(crate) async fn start(
        confinement: &Arc<Confinement>,
        tool: &str,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let script = script(&confinement.config().python);
        let process = confinement.start(tool, script, Vec::new(), tasks).await?;
        Ok(Self {
            process,
            requests: 0,
        })
    }

    /// Loads a file. Afterwards the host has to be used for its calls or dropped.
    ///
    /// # Errors
    /// Returns the failure of the host; a refused file is an answer.
    pub(crate) async fn load(
        &mut self,
        scan: ScanMode,
        (file, source): (&str, &str),
        places: &Places,
    ) -> Result<Loaded, ProcessFailure> {
        let host = serde_json::to_vec(HOST).unwrap_or_default();
        self.process
            .write(&[host.as_slice(), b"\n"].concat())
            .await?;
        self.request(json!({
            "op": "load",
            "file": file,
            "source": source,
            "refuses": scan == ScanMode::Refuse,
            "allowed_dirs": places.allowed_dirs,
            "workspace": places.workspace,
        }))
        .await
    }

    /// Calls the loaded tool.
    ///
    /// # Errors
    /// Returns the failure of the host; an error of the tool is an answer.
    pub(crate) async fn call(&mut self, arguments: &Value) -> Result<Answered, ProcessFailure> {
        self.request(json!({"op": "call", "arguments": arguments}))
            .await
    }

    /// `true` if its process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Ends the host and says why it failed.
    pub(crate) async fn explain(self, failure: &ProcessFailure) -> String {
        self.process.explain(failure).await
    }

    async fn request<T: DeserializeOwned>(
        &mut self,
        mut request: Value,
    ) -> Result<T, ProcessFailure> {
        self.requests += 1;
        if let Some(request) = request.as_object_mut() {
            request.insert("id".to_owned(), self.requests.into());
        }
        let line = format!("{request}\n");
        self.process.write(line.as_bytes()).await?;
        let answer = self.process.read_line().await?;
        let answer: Value =
            serde_json::from_slice(&answer).map_err(|_no_json| ProcessFailure::Garbled)?;
        if answer.get("id") != Some(&self.requests.into()) {
            return Err(ProcessFailure::Garbled);
        }
        serde_json::from_value(answer).map_err(|_other_form| ProcessFailure::Garbled)
    }
}

/// Returns the script that becomes the host.
fn script(python: &str) -> String {
    let places = match python {
        "" => PLACES.map(quoted).join(" "),
        python => quoted(python),
    };
    let start = quoted(START);
    format!(
        "for python in {places}; do\n\
         command -v \"$python\" >/dev/null 2>&1 && exec \"$python\" -I -S -B -X utf8 -c {start}\n\
         done\n\
         echo {NO_PYTHON} >&2\n\
         exit 127"
    )
}
