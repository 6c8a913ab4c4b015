//! The process environment as a value, so that this crate never reads the process itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Variables, home directory and working directory, read once at program start.
///
/// `Debug` names the variables and hides their values.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    user_home: Option<PathBuf>,
    current_dir: PathBuf,
}

impl Environment {
    /// Reads the environment of this process. Variables that are not Unicode are omitted.
    #[must_use]
    pub fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            variables,
            user_home: std::env::home_dir(),
            current_dir: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// Creates an environment from its parts. Relative paths are resolved against `current_dir`.
    #[must_use]
    pub fn new(
        variables: impl IntoIterator<Item = (String, String)>,
        user_home: Option<PathBuf>,
        current_dir: PathBuf,
    ) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            user_home,
            current_dir,
        }
    }

    /// Returns the value of a variable if it is set, even if it is empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns all variables, sorted by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the user's home directory, if it is known.
    #[must_use]
    pub fn user_home(&self) -> Option<&Path> {
        self.user_home.as_deref()
    }

    /// Returns the directory that relative paths are resolved against.
    #[must_use]
    pub fn current_dir(&self) -> &Path {
        &self.current_dir
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Environment")
            .field("variables", &self.variables.keys())
            .field("user_home", &self.user_home)
            .field("current_dir", &self.current_dir)
            .finish()
    }
}
