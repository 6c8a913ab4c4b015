//! Diagnoses problems that keep an assistant from working, or make it less safe than its owner
//! thinks.
//!
//! Decision: every finding says what is wrong, where, and what to do about it. Nothing is changed
//! without `fix`, and then only what cannot lose anything. Nothing is asked over a network without
//! `probe`. Unreadable input is a finding and never ends the examination.

mod channels;
mod configuration;
mod gateway;
mod home;
mod machine;
#[cfg(feature = "email")]
mod mail;
mod mcp;
pub(crate) mod models;
mod tool_files;
mod workspace;

use std::fmt;
use std::io;
use std::path::Path;

use nanobot_config::Config;
use nanobot_control::ControlClient;
use serde::Serialize;

use crate::error::disk_failure;
use crate::operator::remote;
use crate::{RuntimeBuilder, RuntimeError};

/// Options of an examination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoctorOptions {
    /// Fix what can be fixed without losing anything.
    pub fix: bool,
    /// Ask the model and every platform whether they accept the credentials.
    pub probe: bool,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// Nothing is wrong.
    Good,
    /// Information.
    Note,
    /// Works, but probably not as its owner thinks.
    Warning,
    /// Does not work.
    Fault,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Id of the check, the same in every version.
    pub id: &'static str,
    /// Severity of the finding.
    pub severity: FindingLevel,
    /// The finding and its location.
    pub what: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Set when this examination fixed it.
    pub fixed: bool,
}

/// Result of an examination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// All findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

/// Examines the home of a program's configuration. The configuration may be invalid.
pub async fn examine(program: &RuntimeBuilder, doctor: DoctorOptions) -> Diagnosis {
    let mut list = FindingList {
        doctor,
        findings: Vec::new(),
    };
    let Some(runtime) = configuration::load_or_report(&mut list, program.build()) else {
        return Diagnosis {
            findings: list.findings,
        };
    };
    let config = runtime.config();
    configuration::examine(&mut list, config);
    // Once, because a gateway that hangs is waited for.
    let gateway = remote::connect(config).await;
    home::examine(&mut list, config, &gateway).await;
    workspace::examine(&mut list, &runtime);
    workspace::backlogs(&mut list, &runtime).await;
    models::examine(&mut list, &runtime).await;
    channels::examine(&mut list, &runtime).await;
    mcp::examine(&mut list, &runtime);
    tool_files::examine(&mut list, &runtime).await;
    gateway::examine(&mut list, config, gateway).await;
    gateway::examine_ports(&mut list, &runtime);
    machine::examine(&mut list, &runtime).await;
    Diagnosis {
        findings: list.findings,
    }
}

/// The gateway of the home, or the reason why it does not answer; `None` if none runs.
type GatewayReached = Result<Option<ControlClient>, RuntimeError>;

/// The findings so far.
struct FindingList {
    doctor: DoctorOptions,
    findings: Vec<Finding>,
}

impl FindingList {
    fn note(
        &mut self,
        severity: FindingLevel,
        id: &'static str,
        what: impl Into<String>,
        remedy: Option<String>,
    ) {
        self.findings.push(Finding {
            id,
            severity,
            what: what.into(),
            remedy,
            fixed: false,
        });
    }

    fn good(&mut self, id: &'static str, what: impl Into<String>) {
        self.note(FindingLevel::Good, id, what, None);
    }

    fn warn(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(FindingLevel::Warning, id, what, Some(remedy.into()));
    }

    fn fault(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(FindingLevel::Fault, id, what, Some(remedy.into()));
    }

    /// Reports a fixable finding. Fixes it if that was asked for, otherwise mentions `--fix`.
    fn fixable(
        &mut self,
        severity: FindingLevel,
        (id, what): (&'static str, String),
        remedy: String,
        repair: impl FnOnce() -> io::Result<()>,
    ) {
        if !self.doctor.fix {
            let remedy = format!("{remedy}; or let `nanobot doctor --fix` do it");
            return self.note(severity, id, what, Some(remedy));
        }
        match repair() {
            Ok(()) => self.findings.push(Finding {
                id,
                severity,
                what,
                remedy: None,
                fixed: true,
            }),
            Err(error) => self.note(
                severity,
                id,
                format!("{what}, and it could not be mended: {error}"),
                Some(remedy),
            ),
        }
    }
}

impl Diagnosis {
    /// `true` if no fault is left.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.count(FindingLevel::Fault) == 0
    }

    fn count(&self, severity: FindingLevel) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity && !finding.fixed)
            .count()
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding {
            id,
            severity,
            what,
            remedy,
            fixed,
        } in &self.findings
        {
            let mark = match (fixed, severity) {
                (true, _) => "✓ mended:",
                (false, FindingLevel::Good) => "✓",
                (false, FindingLevel::Note) => "·",
                (false, FindingLevel::Warning) => "⚠",
                (false, FindingLevel::Fault) => "✗",
            };
            writeln!(f, "{mark} {what} [{id}]")?;
            if let Some(remedy) = remedy {
                writeln!(f, "    → {remedy}")?;
            }
        }
        let (faults, warnings) = (
            self.count(FindingLevel::Fault),
            self.count(FindingLevel::Warning),
        );
        write!(
            f,
            "\n{}, {}.",
            counted(faults, "fault"),
            counted(warnings, "warning")
        )
    }
}

/// Formats a count and a noun.
fn counted(count: usize, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {one}s")
    }
}

/// Checks that a file can be written in a folder. Leaves no file behind.
fn check_writable(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".nanobot-doctor-{}", std::process::id()));
    check_probe(&probe, |probe| std::fs::write(probe, b"x"))
}

/// Writes a file and removes it, also if only its content cannot be written.
fn check_probe(probe: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let written = write(probe);
    match std::fs::remove_file(probe) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

/// Describes an error of writing; a full disk in words.
fn write_failure(error: &io::Error) -> String {
    disk_failure(error).map_or_else(
        || format!("no file can be written there: {error}"),
        str::to_owned,
    )
}

/// Returns the folder of everything outside the workspace.
fn data_dir(config: &Config) -> &Path {
    &config.paths().data_dir
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_is_removed_from_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let probe = folder.path().join("probe");
        let failed = check_probe(&probe, |probe| {
            std::fs::write(probe, b"")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(write_failure(&failed.unwrap_err()), "the disk is full");
        assert!(!probe.exists());
        let denied = check_probe(&probe, |_| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        check_writable(folder.path()).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
