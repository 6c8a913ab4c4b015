//! The first run on a home that another program wrote.

use std::path::{Path, PathBuf};

use nanobot_config::{Config, ImportReport, RunningProgram, running_python_program};
use nanobot_state::StateDb;

use crate::RuntimeError;
use crate::assembly::older_tasks::OlderTasks;

/// Findings in a home of the Python program, made before anything is written into it.
#[derive(Debug)]
pub struct FirstRun {
    /// Report of what is read, kept, ignored and changed.
    pub report: ImportReport,
    /// The copy of `config.json`.
    pub backup: Option<PathBuf>,
    /// Import of the jobs of an older layout.
    pub tasks: Option<OlderTasks>,
    /// The Python program, if it seems to run on this home.
    pub running: Option<RunningProgram>,
}

impl std::fmt::Display for FirstRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.report)?;
        if let Some(tasks) = &self.tasks {
            // The report ends with a newline.
            writeln!(f, "  {tasks}")?;
        }
        if let Some(backup) = &self.backup {
            write!(f, "\nThe configuration was copied to {}.", backup.display())?;
        }
        if let Some(running) = &self.running {
            write!(
                f,
                "\nWarning: another nanobot ({}, process {}) seems to be running on this home. \
                 Stop it before both write to the same sessions.",
                running.command, running.pid
            )?;
        }
        Ok(())
    }
}

impl FirstRun {
    /// Reports on a home and backs its configuration up. Does so once: it creates the state
    /// database, which marks the home as ours. Returns `None` for a home that is new or already
    /// ours. Every command calls this before it writes into a home.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be read or copied, and
    /// [`RuntimeError::State`] if the state database cannot be created.
    pub async fn perform(config: &Config) -> Result<Option<Self>, RuntimeError> {
        let paths = config.paths();
        if paths.state_db.exists() {
            return Ok(None);
        }
        let first_run = match config.is_first_run() {
            true => Some(Self {
                report: ImportReport::new(config)?,
                running: running_python_program(Path::new("/proc"), std::process::id(), paths),
                backup: config.back_up(chrono::Utc::now())?,
                tasks: OlderTasks::import(config),
            }),
            false => None,
        };
        StateDb::open(&paths.state_db).await?.close().await;
        Ok(first_run)
    }
}
