//! Describes a file: reads its manifest, or scans it and loads it once in the sandbox.

use std::sync::Arc;

use nanobot_escape::sanitize_line;
use tokio::time::Instant;

use crate::code::Code;
use crate::config::ScanMode;
use crate::definition::Definition;
use crate::error::ToolFileError;
use crate::folder::ToolFile;
use crate::host::{Host, LOAD, Loaded, MODULES, NO_PYTHON, OLD_PYTHON};
use crate::manifest;
use crate::process::ProcessFailure;
use crate::tool::Shared;

/// Maximum length of the reason for a refusal, in characters. It may come from the file.
const MAX_REASON: usize = 500;

/// A described file.
#[derive(Debug)]
pub(crate) struct Described {
    /// What the scan found in a file that is used nevertheless.
    pub(crate) findings: Vec<String>,
    /// Its code and definition, or the reason why it is not used.
    pub(crate) outcome: Result<(Code, Definition), ToolFileError>,
}

impl From<ToolFileError> for Described {
    fn from(error: ToolFileError) -> Self {
        Self {
            findings: Vec::new(),
            outcome: Err(error),
        }
    }
}

/// Describes a file, at the latest at `deadline`.
pub(crate) async fn describe(shared: &Shared, file: &ToolFile, deadline: Instant) -> Described {
    let content = match &file.content {
        Ok(content) => content,
        Err(reason) => return refused(reason).into(),
    };
    let described = match file.is_folder {
        true => describe_program(shared, &file.name, content).await,
        false => describe_python(shared, &file.name, content, deadline).await,
    };
    described.unwrap_or_else(Described::from)
}

async fn describe_program(
    shared: &Shared,
    folder: &str,
    content: &str,
) -> Result<Described, ToolFileError> {
    let confinement = Arc::clone(&shared.confinement);
    let find = tokio::task::spawn_blocking(move || confinement.sandbox().map(drop));
    let found = find.await.unwrap_or_else(|error| Err(error.to_string()));
    found.map_err(ToolFileError::Unavailable)?;
    Ok(Described {
        findings: Vec::new(),
        outcome: manifest::read(folder, content).map_err(|reason| refused(&reason)),
    })
}

async fn describe_python(
    shared: &Shared,
    file: &str,
    source: &str,
    deadline: Instant,
) -> Result<Described, ToolFileError> {
    // Whatever imports it names it. The host looks closer.
    if !MODULES.iter().any(|module| source.contains(module)) {
        return Err(ToolFileError::NotATool);
    }
    let Shared {
        confinement, tasks, ..
    } = shared;
    let started = Host::start(confinement, "", tasks).await;
    let mut host = started.map_err(ToolFileError::Unavailable)?;
    let (scan, places) = (confinement.config().scan, confinement.places().await);
    let loading = host.load(scan, (file, source), &places);
    let end = deadline.min(Instant::now() + LOAD);
    let loaded = match tokio::time::timeout_at(end, loading).await {
        Ok(Ok(loaded)) => loaded,
        Ok(Err(failure)) => return Err(failed(host, &failure).await),
        Err(_elapsed) => return Err(late(end == deadline)),
    };
    let Loaded {
        definition,
        findings,
        error,
        is_tool,
    } = loaded;
    if !is_tool {
        return Err(ToolFileError::NotATool);
    }
    if scan == ScanMode::Refuse && !findings.is_empty() {
        return Err(ToolFileError::Scan(findings));
    }
    if let Some(error) = error {
        return Err(refused(&error));
    }
    let definition = Definition::of(&definition.unwrap_or_default());
    let code = Code::Python {
        file: file.to_owned(),
        source: source.to_owned(),
    };
    Ok(Described {
        findings,
        outcome: definition
            .map(|definition| (code, definition))
            .map_err(|reason| refused(&reason)),
    })
}

fn refused(reason: &str) -> ToolFileError {
    let line = sanitize_line(reason);
    ToolFileError::Refused(line.chars().take(MAX_REASON).collect())
}

/// Returns the reason for a host that failed while it loaded a file.
async fn failed(host: Host, failure: &ProcessFailure) -> ToolFileError {
    let reason = host.explain(failure).await;
    match [NO_PYTHON, OLD_PYTHON]
        .iter()
        .find(|known| reason.contains(**known))
    {
        Some(known) => ToolFileError::Unavailable(format!(
            "{known} for tools in files; tools.toolFiles.python can name one"
        )),
        None => refused(&reason),
    }
}

fn late(by_others: bool) -> ToolFileError {
    match by_others {
        true => ToolFileError::Unavailable("other files left no time to load it".to_owned()),
        false => refused(&format!("it was not loaded within {} s", LOAD.as_secs())),
    }
}
