//! Looks for what keeps an assistant from working, or makes it less safe than its owner thinks.
//!
//! Decision: every finding says what is wrong, with its place, and what to do about it. Nothing is
//! changed unless that is asked for, and then only what cannot lose anything; nobody is asked over
//! a network unless that is asked for. What cannot be read is a finding, never the end of the visit.

mod channels;
mod configuration;
mod gateway;
mod home;
mod machine;
#[cfg(feature = "email")]
mod mail;
pub(crate) mod models;
mod workspace;

use std::fmt;
use std::path::Path;

use nanobot_config::Config;
use serde::Serialize;

use crate::RuntimeBuilder;

/// What a visit may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoctorOptions {
    /// Mend what can be mended without losing anything.
    pub fix: bool,
    /// Ask the model, and every platform, whether they take the credentials.
    pub probe: bool,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// In order.
    Good,
    /// Worth knowing.
    Note,
    /// Works, but probably not as its owner thinks.
    Warning,
    /// Does not work.
    Fault,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Names the check, the same in every version.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, with its place.
    pub what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// It was mended on this visit.
    pub fixed: bool,
}

/// What a visit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// Everything that was looked at, in the order in which it was.
    pub findings: Vec<Finding>,
}

/// Examines the home of a program's configuration, which need not be usable.
pub async fn examine(program: &RuntimeBuilder, doctor: DoctorOptions) -> Checkup {
    let mut chart = Chart {
        doctor,
        findings: Vec::new(),
    };
    let Some(runtime) = configuration::load_or_report(&mut chart, program.build()) else {
        return Checkup {
            findings: chart.findings,
        };
    };
    let config = runtime.config();
    configuration::examine(&mut chart, config);
    home::examine(&mut chart, config).await;
    workspace::examine(&mut chart, &runtime);
    models::examine(&mut chart, &runtime).await;
    channels::examine(&mut chart, &runtime).await;
    gateway::examine(&mut chart, config).await;
    machine::examine(&mut chart, config);
    Checkup {
        findings: chart.findings,
    }
}

/// What is written down on a visit.
struct Chart {
    doctor: DoctorOptions,
    findings: Vec<Finding>,
}

impl Chart {
    fn note(
        &mut self,
        severity: Severity,
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
        self.note(Severity::Good, id, what, None);
    }

    fn warn(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(Severity::Warning, id, what, Some(remedy.into()));
    }

    fn fault(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.note(Severity::Fault, id, what, Some(remedy.into()));
    }

    /// A finding that can be mended: it is, if that was asked for, and said otherwise.
    fn mendable(
        &mut self,
        severity: Severity,
        (id, what): (&'static str, String),
        remedy: String,
        mend: impl FnOnce() -> std::io::Result<()>,
    ) {
        if !self.doctor.fix {
            let remedy = format!("{remedy}; or let `nanobot doctor --fix` do it");
            return self.note(severity, id, what, Some(remedy));
        }
        match mend() {
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

impl Checkup {
    /// Whether nothing is left that does not work.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.count(Severity::Fault) == 0
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity && !finding.fixed)
            .count()
    }
}

impl fmt::Display for Checkup {
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
                (false, Severity::Good) => "✓",
                (false, Severity::Note) => "·",
                (false, Severity::Warning) => "⚠",
                (false, Severity::Fault) => "✗",
            };
            writeln!(f, "{mark} {what} [{id}]")?;
            if let Some(remedy) = remedy {
                writeln!(f, "    → {remedy}")?;
            }
        }
        let (faults, warnings) = (self.count(Severity::Fault), self.count(Severity::Warning));
        write!(
            f,
            "\n{}, {}.",
            counted(faults, "fault"),
            counted(warnings, "warning")
        )
    }
}

/// So many of something.
fn counted(count: usize, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {one}s")
    }
}

/// Whether a file can be made in a folder.
fn takes_files(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".nanobot-doctor-{}", std::process::id()));
    std::fs::write(&probe, b"x")?;
    std::fs::remove_file(&probe)
}

/// The folder of everything that is kept beside the workspace.
fn data_dir(config: &Config) -> &Path {
    &config.paths().data_dir
}
