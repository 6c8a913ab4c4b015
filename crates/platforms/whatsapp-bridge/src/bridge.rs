//! The bridge of one account: its installation and its start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::account::Account;
use crate::environment::Environment;
use crate::folders::blocking;
use crate::install::Installation;
use crate::lock::FileLock;
use crate::process::{self, Started};
use crate::{BridgeError, RunningBridge, program};

/// Limit of V8's heap, without files, which are outside of it. V8 frees memory late if it believes
/// that it has gigabytes; and a defect in a dependency ends the bridge, not the computer. The keys
/// and the chats of a large account have to fit while a device is linked, so it is not tighter.
const HEAP: &str = "--max-old-space-size=512";

/// An installed bridge, or the place for one. Does no I/O until asked.
#[derive(Clone, Debug)]
pub struct Bridge {
    source: Source,
    account: Account,
    environment: Environment,
    /// The name of the channel, for messages.
    instance: String,
}

/// The program of a bridge.
#[derive(Clone, Debug)]
enum Source {
    /// The package of this crate.
    Package(Installation),
    /// Another implementation of the protocol.
    Program {
        program: PathBuf,
        arguments: Vec<OsString>,
    },
}

impl Bridge {
    /// The bridge in `data_dir/whatsapp-bridge`, with its keys in `data_dir/whatsapp-auth` (where
    /// the Python program has them). `instance` keeps several accounts apart: the channel's name
    /// if it is not `whatsapp`.
    #[must_use]
    pub fn new(data_dir: &Path, instance: Option<&str>) -> Self {
        let installation = Installation::in_folder(bridges(data_dir));
        Self::of(Source::Package(installation), data_dir, instance)
    }

    /// A bridge that is another program, an implementation of the protocol: it is started as
    /// `PROGRAM ARGUMENTS…` with the same variables and the same rules as the package. There is
    /// nothing to install.
    #[must_use]
    pub fn of_program(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        data_dir: &Path,
        instance: Option<&str>,
    ) -> Self {
        let source = Source::Program {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        };
        Self::of(source, data_dir, instance)
    }

    fn of(source: Source, data_dir: &Path, instance: Option<&str>) -> Self {
        Self {
            source,
            account: Account::new(data_dir, &bridges(data_dir), instance),
            environment: Environment::new(std::env::vars_os()),
            instance: instance.unwrap_or("whatsapp").to_owned(),
        }
    }

    /// Takes the variables of npm and the bridge from these ones instead of those of this process.
    /// `PATH` is where `node` and `npm` are searched. Only a few pass: language, time zone,
    /// proxies, npm's settings.
    #[must_use]
    pub fn with_environment<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        self.environment = Environment::new(variables);
        self
    }

    /// `true` if this version of the bridge is installed with all its dependencies.
    pub async fn is_installed(&self) -> bool {
        let source = self.source.clone();
        let check = move || {
            Ok(match source {
                Source::Package(installation) => installation.is_complete(),
                Source::Program { program, .. } => program.is_file(),
            })
        };
        blocking(check).await.unwrap_or(false)
    }

    /// Installs the bridge; a finished installation is left as it is, an interrupted one is
    /// repeated. `progress` gets lines for a person. If the returned future is dropped, npm and
    /// everything that it started is killed. Waits for another program that installs at the same
    /// time.
    ///
    /// # Errors
    /// Returns [`BridgeError::Install`] if Node.js or npm is missing or too old, npm fails (with
    /// the last lines of its output) or takes more than 15 minutes, or a file cannot be written.
    pub async fn install(&self, progress: &(dyn Fn(&str) + Sync)) -> Result<(), BridgeError> {
        match &self.source {
            Source::Package(installation) => {
                installation.install(&self.environment, progress).await
            }
            Source::Program { .. } => Ok(()),
        }
    }

    /// Starts the bridge and waits until it listens, for at most 30 seconds.
    ///
    /// # Errors
    /// Returns [`BridgeError::Install`] if it is not installed, [`BridgeError::InUse`] if another
    /// program runs the bridge of this account, or [`BridgeError::Process`] if it does not start,
    /// with the last lines of its output.
    pub async fn start(&self) -> Result<RunningBridge, BridgeError> {
        let (mut command, folder, version_lock) = match &self.source {
            Source::Package(installation) => self.package_command(installation).await?,
            Source::Program { program, arguments } => {
                let mut command = Command::new(program);
                command.args(arguments);
                let folder = program.parent().unwrap_or(Path::new("")).to_owned();
                (command, folder, None)
            }
        };
        let account = self.account.clone();
        let taking = move || {
            account.create_folders()?;
            FileLock::try_exclusive(&account.lock())
        };
        let lock = blocking(taking).await?.ok_or(BridgeError::InUse)?;
        command
            .env_clear()
            .envs(self.environment.for_bridge())
            .env("AUTH_DIR", &self.account.keys)
            .env("BRIDGE_DIR", self.account.state());
        let started = Started {
            command,
            folder,
            lock,
            version_lock,
            secrets: self.environment.secrets(),
        };
        process::start(started).await
    }

    /// Returns the account as it was [noted](Self::note_account) last, also while another program
    /// runs the bridge; `None` if there is no note.
    pub async fn account_note(&self) -> Option<String> {
        let account = self.account.clone();
        blocking(move || Ok(account.note())).await.unwrap_or(None)
    }

    /// Notes the account, for people: its name or number, at most 4 KiB. The note is durable
    /// afterwards; an empty one means that no account is linked.
    ///
    /// # Errors
    /// Returns [`BridgeError::Install`] if the note is too long, or cannot be written.
    pub async fn note_account(&self, note: &str) -> Result<(), BridgeError> {
        let (account, note) = (self.account.clone(), note.to_owned());
        blocking(move || account.write_note(&note)).await
    }

    /// Returns the command of the package, its folder, and the lock of its version.
    async fn package_command(
        &self,
        installation: &Installation,
    ) -> Result<(Command, PathBuf, Option<FileLock>), BridgeError> {
        let locking = installation.clone();
        let Some(lock) = blocking(move || locking.lock_version()).await? else {
            return Err(BridgeError::Install(format!(
                "the WhatsApp bridge is not installed; `nanobot channels login {}` installs it",
                nanobot_escape::shell_word(&self.instance)
            )));
        };
        let node = program::find_node(&self.environment).await?;
        let folder = installation.version();
        let mut command = Command::new(node);
        command.args([HEAP, "index.js"]).current_dir(&folder);
        Ok((command, folder, Some(lock)))
    }
}

fn bridges(data_dir: &Path) -> PathBuf {
    data_dir.join("whatsapp-bridge")
}
