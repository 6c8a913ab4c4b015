//! The installation: the package's files, and its dependencies by npm.
//!
//! Decision: everything is prepared in a folder of another name and made durable before it is
//! renamed, so that a folder with the name of a version is complete. One installer at a time.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nanobot_disk::{LocalDisk, sync_names};
use tokio::process::Command;

use crate::environment::Environment;
use crate::folders::{blocking, create_private, remove_tree, sync_tree};
use crate::lock::FileLock;
use crate::output::Output;
use crate::{BridgeError, package, program};

/// Time limit of npm. It takes about ten seconds with a fast connection.
const NPM_TIME: Duration = Duration::from_secs(15 * 60);
/// Time for npm to end if the program that started it was killed.
const PREDECESSOR_TIME: Duration = Duration::from_secs(60);
/// Arguments of npm: exactly the versions and checksums of the lock file, and no scripts of
/// packages.
const NPM_ARGUMENTS: &[&str] = &[
    "ci",
    "--omit=dev",
    "--omit=peer",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
];
/// File in an installed version that its users have locked.
const USED: &str = "in-use.lock";

/// The folder of installed versions.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    folder: PathBuf,
}

impl Installation {
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder of the version that belongs to this program.
    pub(crate) fn version(&self) -> PathBuf {
        self.folder.join(package::version())
    }

    /// `true` if that version is complete.
    pub(crate) fn is_complete(&self) -> bool {
        let version = self.version();
        version.join("index.js").is_file() && version.join("node_modules").is_dir()
    }

    /// `true` if there are other versions alone.
    pub(crate) fn is_outdated(&self) -> bool {
        let is_finished = |path: &PathBuf| path.extension().is_none();
        !self.is_complete() && self.others().iter().any(is_finished)
    }

    /// Keeps other programs from removing the version, until the result is dropped; `None` if it
    /// is not installed.
    pub(crate) fn lock_version(&self) -> Result<Option<FileLock>, BridgeError> {
        if !self.is_complete() {
            return Ok(None);
        }
        let lock = FileLock::try_shared(&self.version().join(USED))?;
        // Another program may have removed it before it was locked.
        Ok(lock.filter(|_| self.is_complete()))
    }

    /// Installs the version if it is missing, and removes the others.
    pub(crate) async fn install(
        &self,
        environment: &Environment,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<(), BridgeError> {
        let this = self.clone();
        if blocking(move || Ok(this.is_complete())).await? {
            return Ok(());
        }
        program::find_node(environment).await?;
        let npm = program::find_npm(environment)?;
        let folder = self.folder.clone();
        blocking(move || create_private(&folder)).await?;
        let on_wait = || progress("Waiting for another program that installs the WhatsApp bridge.");
        let mut lock = FileLock::exclusive(&self.folder.join("install.lock"), on_wait).await?;
        lock.wait_for_predecessor(PREDECESSOR_TIME, on_wait).await;
        let this = self.clone();
        if blocking(move || Ok(this.is_complete())).await? {
            return Ok(());
        }
        let part = self.part();
        blocking(move || prepare(&part)).await?;
        progress("Installing the WhatsApp bridge: npm fetches its packages.");
        self.run_npm(&npm, environment, &mut lock).await?;
        let this = self.clone();
        blocking(move || this.finish()).await?;
        progress("The WhatsApp bridge is installed.");
        Ok(())
    }

    fn part(&self) -> PathBuf {
        let name = format!("{}{}", package::version(), package::PART);
        self.folder.join(name)
    }

    async fn run_npm(
        &self,
        npm: &Path,
        environment: &Environment,
        lock: &mut FileLock,
    ) -> Result<(), BridgeError> {
        let mut command = Command::new(npm);
        command
            .args(NPM_ARGUMENTS)
            .current_dir(self.part())
            .env_clear()
            .envs(environment.for_npm());
        let output = Output::new("npm", environment.secrets());
        let failed = |why: String| BridgeError::Install(output.explain(&why));
        let on_start = |pid| {
            if let Err(error) = lock.name_process(pid) {
                tracing::warn!(%error, "process of npm not noted");
            }
        };
        let status = program::run(command, NPM_TIME, &output, on_start)
            .await
            .map_err(|why| failed(format!("npm cannot install the WhatsApp bridge: {why}")))?;
        if !status.success() {
            let why = format!("npm cannot install the WhatsApp bridge ({status})");
            return Err(failed(why));
        }
        if !self.part().join("node_modules").is_dir() {
            return Err(failed("npm installed no packages".to_owned()));
        }
        Ok(())
    }

    /// Makes the prepared folder the installed version.
    fn finish(&self) -> Result<(), BridgeError> {
        let (part, version) = (self.part(), self.version());
        sync_tree(&part).map_err(BridgeError::file("sync", &part))?;
        // Something incomplete may have the name, if files were removed from it.
        remove_tree(&version).map_err(BridgeError::file("remove", &version))?;
        fs::rename(&part, &version)
            .and_then(|()| sync_names(&LocalDisk, &version))
            .map_err(BridgeError::file("rename", &part))?;
        self.remove_others();
        Ok(())
    }

    /// Removes other versions that no program uses.
    fn remove_others(&self) {
        for path in self.others() {
            let lock = FileLock::try_exclusive(&path.join(USED));
            let is_used = matches!(lock, Ok(None));
            if is_used {
                continue;
            }
            // Windows does not remove open files.
            drop(lock);
            if let Err(error) = remove_tree(&path) {
                tracing::warn!(%error, path = %path.display(), "old WhatsApp bridge not removed");
            }
        }
    }

    /// Returns the folders of other versions, finished or not.
    fn others(&self) -> Vec<PathBuf> {
        let is_other = |name: &OsStr| {
            let name = name.to_string_lossy();
            package::is_version(&name) && name != package::version()
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| is_other(&entry.file_name()))
            .map(|entry| entry.path())
            .collect()
    }
}

/// Writes the package into a new folder. What an interrupted installation left is removed.
fn prepare(part: &Path) -> Result<(), BridgeError> {
    remove_tree(part).map_err(BridgeError::file("remove", part))?;
    create_private(part)?;
    package::write(part)
}
