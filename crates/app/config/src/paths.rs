//! Locations of files and directories.
//!
//! There are two base directories. The *home* (`~/.nanobot`, or `NANOBOT_HOME`) is one per user.
//! The *data directory* is the parent of the configuration file in use, so `--config` creates a
//! second instance with its own state, logs and media. They are the same unless `--config` is
//! given. The workspace depends on neither: it is a setting
//! ([`Config::workspace`](crate::Config::workspace)). Nothing is created here.

use std::path::{Component, Path, PathBuf};

use crate::{ConfigError, Environment};

const HOME_VARIABLE: &str = "NANOBOT_HOME";
const HOME_NAME: &str = ".nanobot";

/// The files and directories of one instance; all absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paths {
    /// `NANOBOT_HOME`, or `~/.nanobot`.
    pub home: PathBuf,
    /// The configuration file in use; it may not exist.
    pub config_file: PathBuf,
    /// Parent of `config_file`.
    pub data_dir: PathBuf,
    /// Workspace to use if none is set.
    pub default_workspace: PathBuf,
    /// Log files.
    pub logs: PathBuf,
    /// Media received by channels, one directory per channel.
    pub media: PathBuf,
    /// State that channels persist across restarts, one directory per channel.
    pub channel_notes: PathBuf,
    /// The SQLite database of internal state, which users do not edit.
    pub state_db: PathBuf,
    /// The Python program's job store in the data directory.
    pub cron_store: PathBuf,
    /// History of lines typed at the prompt; always in the home.
    pub history: PathBuf,
    /// Session directory of the oldest releases of the Python program; always in the home.
    pub legacy_sessions: PathBuf,
    explicit: bool,
    user_home: Option<PathBuf>,
    current_dir: PathBuf,
}

impl Paths {
    /// Resolves the paths for the given `--config` (relative to the working directory, `~`
    /// understood), or for the home's own `config.json`.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoHome`] if neither `NANOBOT_HOME` nor a home directory is known.
    pub fn resolve(environment: &Environment, config: Option<&Path>) -> Result<Self, ConfigError> {
        let user_home = environment.user_home().map(Path::to_path_buf);
        let absolute = |path: &Path| {
            environment
                .current_dir()
                .join(tilde(path, user_home.as_deref()))
        };
        let home = match environment.variable(HOME_VARIABLE) {
            Some(home) if !home.is_empty() => absolute(Path::new(home)),
            _ => user_home
                .as_deref()
                .ok_or(ConfigError::NoHome)?
                .join(HOME_NAME),
        };
        let config_file = config.map_or_else(|| home.join("config.json"), absolute);
        let data_dir = config_file
            .parent()
            .map_or_else(|| home.clone(), Path::to_path_buf);
        Ok(Self {
            default_workspace: home.join("workspace"),
            logs: data_dir.join("logs"),
            media: data_dir.join("media"),
            channel_notes: data_dir.join("channels"),
            state_db: data_dir.join("state.db"),
            cron_store: data_dir.join("cron").join("jobs.json"),
            history: home.join("history").join("cli_history"),
            legacy_sessions: home.join("sessions"),
            home,
            config_file,
            data_dir,
            explicit: config.is_some(),
            user_home,
            current_dir: environment.current_dir().to_path_buf(),
        })
    }

    /// Returns `true` if the caller named the configuration file, so that it has to exist.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Expands a path from a setting: `~` is the user's home directory, `~/.nanobot` is
    /// [`Paths::home`] even if `NANOBOT_HOME` moved it, and relative paths are resolved against the
    /// working directory.
    #[must_use]
    pub fn expand(&self, text: &str) -> PathBuf {
        let path = Path::new(text);
        if let Ok(rest) = path.strip_prefix(Path::new("~").join(HOME_NAME)) {
            return without_dots(&self.home.join(rest));
        }
        without_dots(
            &self
                .current_dir
                .join(tilde(path, self.user_home.as_deref())),
        )
    }
}

fn tilde(path: &Path, user_home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user_home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    }
}

/// Removes `.` parts and trailing separators. `..` is kept, because links may be on the way.
fn without_dots(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}
