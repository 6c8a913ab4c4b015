//! The mechanism by which commands of this computer are confined.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::{
    Limits, SandboxError,
    launcher::{ARGUMENT, Plan, Task, this_program},
    placeholder::Placeholders,
    probe,
    scratch::ScratchFolder,
    view::View,
};
#[cfg(target_os = "linux")]
use crate::{bubblewrap, landlock_rules};

/// A mechanism of confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces, by the program at this path.
    Bubblewrap(PathBuf),
    /// Landlock. A command cannot create files in a folder that holds a protected or hidden path,
    /// and cannot read `/proc`.
    Landlock,
}

/// Starts commands in a sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    mechanism: Mechanism,
    launcher: PathBuf,
    /// Temporary files of commands, where they have no private `/tmp`.
    scratch: Option<Arc<ScratchFolder>>,
}

/// A command to confine.
#[derive(Debug, Clone)]
pub struct SandboxedCommand<'a> {
    /// Script for the system's shell.
    pub script: &'a str,
    /// Folder that it starts in: absolute, without links, and open to the view.
    pub directory: &'a Path,
    /// All variables of its environment; `TMPDIR` is replaced.
    pub environment: Vec<(OsString, OsString)>,
    /// Resource limits.
    pub limits: Limits,
}

/// A process that is to be started.
#[derive(Debug)]
pub struct ConfinedProcess {
    /// The process.
    pub process: Command,
    /// What it needs until it has ended.
    pub placeholders: Placeholders,
}

impl Sandbox {
    /// Finds the sandbox of this system. `launcher` is a program whose `main` calls
    /// [`enter`](crate::enter), usually this one.
    ///
    /// # Errors
    /// Returns [`SandboxError::Unavailable`] with what to install.
    pub fn find(launcher: PathBuf) -> Result<Self, SandboxError> {
        #[cfg(target_os = "linux")]
        {
            if let Some(program) = bubblewrap::find() {
                let sandbox = Self::new(Mechanism::Bubblewrap(program), launcher.clone())?;
                match sandbox.starts() {
                    Ok(()) => return Ok(sandbox),
                    Err(error) => {
                        tracing::info!(%error, "bubblewrap cannot be used");
                    }
                }
            }
            if landlock_rules::is_available() {
                return Self::new(Mechanism::Landlock, launcher);
            }
            Err(SandboxError::Unavailable(
                "bubblewrap is not installed or may not create namespaces, and the kernel has no \
                 Landlock of Linux 6.12 or later (on Debian and Ubuntu: apt install bubblewrap)"
                    .to_owned(),
            ))
        }
        #[cfg(not(target_os = "linux"))]
        {
            drop(launcher);
            Err(SandboxError::Unavailable(format!(
                "commands can be confined on Linux only, this is {}",
                std::env::consts::OS
            )))
        }
    }

    /// Finds the sandbox of this system, or uses `mechanism` if there is one, and tries to escape
    /// from `view` in it. `launcher` is this program if it is `None`. This starts processes.
    ///
    /// # Errors
    /// Returns the reason why there is no sandbox, or why it does not hold.
    pub fn probed(
        launcher: Option<PathBuf>,
        mechanism: Option<Mechanism>,
        view: &View,
    ) -> Result<Self, SandboxError> {
        let launcher = launcher.map_or_else(this_program, Ok)?;
        let sandbox = match mechanism {
            Some(mechanism) => Self::new(mechanism, launcher)?,
            None => Self::find(launcher)?,
        };
        let closed = view.hidden().find(|path| path.is_dir());
        let tried = closed.map(|folder| sandbox.probe(view, folder));
        match tried {
            // The folder may be full or read-only. That of temporary files is private in all views.
            Some(Err(SandboxError::Start(_))) | None => {
                sandbox.probe(view, &std::env::temp_dir())?;
            }
            Some(tried) => tried?,
        }
        Ok(sandbox)
    }

    /// Uses a certain mechanism.
    ///
    /// # Errors
    /// Returns [`SandboxError::Start`] if no folder for temporary files can be created.
    pub fn new(mechanism: Mechanism, launcher: PathBuf) -> Result<Self, SandboxError> {
        let scratch = match mechanism {
            Mechanism::Bubblewrap(_) => None,
            Mechanism::Landlock => {
                let parent = std::env::temp_dir();
                Some(Arc::new(ScratchFolder::create_in(&parent, "nanobot-")?))
            }
        };
        Ok(Self {
            mechanism,
            launcher,
            scratch,
        })
    }

    /// Returns the mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Returns a process that runs `command` and sees `view`. Protected paths of the view that do not
    /// exist get placeholders as long as the result lives.
    ///
    /// # Errors
    /// Returns [`SandboxError::View`] if the command cannot start in its folder.
    pub fn command(
        &self,
        view: &View,
        command: SandboxedCommand<'_>,
    ) -> Result<ConfinedProcess, SandboxError> {
        if view.access(command.directory) > crate::PathAccess::ReadOnly {
            return Err(SandboxError::View {
                path: command.directory.to_owned(),
                reason: "commands cannot see this folder".to_owned(),
            });
        }
        let placeholders = match self.mechanism {
            Mechanism::Bubblewrap(_) => Placeholders::at(view.missing()),
            Mechanism::Landlock => Placeholders::default(),
        };
        let mut process = self.process(
            view,
            command.directory,
            command.limits,
            Task::Script(command.script.to_owned()),
        )?;
        let environment = command.environment.into_iter();
        process
            .env_clear()
            .envs(environment)
            .env("TMPDIR", self.temporary());
        Ok(ConfinedProcess {
            process,
            placeholders,
        })
    }

    /// Starts a process that tries to write outside of `view`, read a secret, connect and see other
    /// processes. `closed` is an existing folder of this user that the view hides.
    ///
    /// # Errors
    /// Returns [`SandboxError::Broken`] if it could do one of these, and
    /// [`SandboxError::Unavailable`] if it could not be started.
    pub fn probe(&self, view: &View, closed: &Path) -> Result<(), SandboxError> {
        probe::run(view, closed, |attempts| {
            let directory = Path::new("/");
            let mut process =
                self.process(view, directory, Limits::default(), Task::Probe(attempts))?;
            process.env_clear().env("TMPDIR", self.temporary());
            Ok(process)
        })
    }

    /// Checks that a process can be started at all.
    #[cfg(target_os = "linux")]
    fn starts(&self) -> Result<(), SandboxError> {
        let view = View::new(crate::Base::System, None);
        let limits = Limits::default();
        let task = Task::Script("exit 0".to_owned());
        let mut process = self.process(&view, Path::new("/"), limits, task)?;
        let output = process.env_clear().output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(SandboxError::Unavailable(said.trim().to_owned()))
    }

    fn temporary(&self) -> &Path {
        self.scratch
            .as_ref()
            .map_or(Path::new("/tmp"), |folder| folder.path())
    }

    #[cfg(target_os = "linux")]
    fn process(
        &self,
        view: &View,
        directory: &Path,
        limits: Limits,
        task: Task,
    ) -> Result<Command, SandboxError> {
        let (mut process, landlock) = match &self.mechanism {
            Mechanism::Bubblewrap(program) => {
                let mut process = Command::new(program);
                process.args(bubblewrap::arguments(view, &self.launcher, directory));
                (process, None)
            }
            Mechanism::Landlock => (Command::new(&self.launcher), Some(view.clone())),
        };
        let plan = Plan {
            limits,
            landlock,
            task,
        };
        let plan = serde_json::to_string(&plan).map_err(std::io::Error::other)?;
        process.arg(ARGUMENT).arg(plan).current_dir(directory);
        Ok(process)
    }

    #[cfg(not(target_os = "linux"))]
    fn process(
        &self,
        _view: &View,
        _directory: &Path,
        limits: Limits,
        task: Task,
    ) -> Result<Command, SandboxError> {
        // The mechanisms exist on Linux only, so no `Sandbox` can be used here.
        let plan = Plan {
            limits,
            landlock: None,
            task,
        };
        Err(SandboxError::Unavailable(format!(
            "{ARGUMENT} {plan:?} needs Linux"
        )))
    }
}
