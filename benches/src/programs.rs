//! The measured programs, and how to run them.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tokio::process::Command;

use crate::ProcessUsage;
use crate::home::Home;

/// Paths of the programs.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) nanobot: PathBuf,
    pub(crate) documents: PathBuf,
    pub(crate) floor_version: PathBuf,
    pub(crate) floor_turn: PathBuf,
    pub(crate) exchange: PathBuf,
    meter: PathBuf,
}

impl Programs {
    /// Finds the programs: the given nanobot, and the programs of this package in the driver's
    /// folder.
    pub(crate) fn find(nanobot: Option<&Path>) -> Result<Self> {
        let driver = std::env::current_exe()?;
        let folder = driver.parent().context("the driver is in no folder")?;
        let nanobot = nanobot.map_or_else(|| folder.join("nanobot"), Path::to_owned);
        let programs = Self {
            documents: nanobot.with_file_name(nanobot_extract::PROGRAM),
            nanobot,
            floor_version: folder.join("floor-version"),
            floor_turn: folder.join("floor-turn"),
            exchange: folder.join("exchange"),
            meter: folder.join("meter"),
        };
        for path in [
            &programs.nanobot,
            &programs.documents,
            &programs.floor_version,
            &programs.floor_turn,
            &programs.exchange,
            &programs.meter,
        ] {
            ensure!(
                path.is_file(),
                "{} is missing: cargo build --profile dist -p nanobot -p nanobot-benches",
                path.display()
            );
            forget(path).with_context(|| format!("cannot settle {}", path.display()))?;
        }
        Ok(programs)
    }

    /// Runs a program to its end in a home and returns its resource usage.
    ///
    /// # Errors
    /// Returns an error with the program's standard error if it fails.
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        home: &Home,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<ProcessUsage> {
        let report = home.path().join("usage.json");
        let output = home
            .isolate(&mut Command::new(&self.meter))
            .arg(&report)
            .arg(program)
            .args(arguments)
            .output();
        let output = output.await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "meter: {said}");
        let usage = ProcessUsage::read(&report)?;
        ensure!(usage.exit_code == 0, "{} failed: {said}", program.display());
        Ok(usage)
    }

    /// Like [`run`](Self::run), for nanobot.
    pub(crate) async fn nanobot(&self, home: &Home, arguments: &[&str]) -> Result<ProcessUsage> {
        self.run(home, &self.nanobot, arguments).await
    }

    /// Asks one question in a session.
    pub(crate) async fn ask(&self, home: &Home, session: &str) -> Result<ProcessUsage> {
        self.nanobot(
            home,
            &[
                "agent",
                "--session",
                session,
                "--message",
                "Hello, how are you?",
            ],
        )
        .await
    }

    /// Returns the command of a gateway, which is killed when dropped.
    pub(crate) fn gateway(&self, home: &Home) -> Command {
        let mut command = Command::new(&self.nanobot);
        home.isolate(&mut command)
            .arg("gateway")
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

/// Evicts a file from the page cache, so that it is read as after a boot. The resident size of a
/// program depends on the size of the cache's folios, and those of a file that was just written are
/// the largest.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}
