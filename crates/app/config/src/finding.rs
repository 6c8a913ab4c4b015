//! Remarks about a configuration that is nevertheless usable.

use std::fmt;

use crate::ValueOrigin;

/// Importance of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSeverity {
    /// Shown only in reports; no action is needed.
    Note,
    /// Shown at every start: something probably does not work as the user expects.
    Warning,
}

/// A remark about a configuration. `Display` writes a full sentence with the position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigFinding {
    /// The file is empty; the defaults are used.
    EmptyFile {
        /// The file.
        origin: ValueOrigin,
    },
    /// The key is unknown. It is kept.
    UnknownKey {
        /// Full path, with the last part as written.
        key: String,
        /// Position of the key.
        origin: ValueOrigin,
        /// The known key that was most likely meant.
        nearest: Option<String>,
    },
    /// A key of the Python program that this version accepts and keeps but does not read.
    NotRead {
        /// Full path.
        key: String,
        /// Position of the key.
        origin: ValueOrigin,
    },
    /// An older key, read as its successor.
    Migrated {
        /// The older key.
        from: String,
        /// The key that it is read as.
        to: String,
        /// Position of the older key.
        origin: ValueOrigin,
    },
    /// An older key without effect: its successor is set too, or it has none.
    Superseded {
        /// The older key.
        key: String,
        /// The key that takes precedence.
        by: String,
        /// Position of the older key.
        origin: ValueOrigin,
        /// `true` if the key that takes precedence is set as well.
        successor_set: bool,
    },
    /// An older key that is read as long as its replacement is not set.
    Outdated {
        /// The older key.
        key: String,
        /// The key to set instead.
        by: String,
        /// Position of the older key.
        origin: ValueOrigin,
    },
    /// One key written twice, with the same value.
    Repeated {
        /// Full path.
        key: String,
        /// Position of the second one.
        origin: ValueOrigin,
        /// Line of the first one.
        first_line: u32,
    },
}

impl ConfigFinding {
    /// Returns the severity, which decides whether the finding is shown at every start or only in
    /// reports.
    #[must_use]
    pub fn severity(&self) -> ConfigSeverity {
        match self {
            Self::EmptyFile { .. }
            | Self::UnknownKey { .. }
            | Self::Repeated { .. }
            | Self::Outdated { .. } => ConfigSeverity::Warning,
            Self::Superseded { successor_set, .. } if !successor_set => ConfigSeverity::Warning,
            Self::NotRead { .. } | Self::Migrated { .. } | Self::Superseded { .. } => {
                ConfigSeverity::Note
            }
        }
    }
}

impl fmt::Display for ConfigFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyFile { origin } => {
                write!(
                    formatter,
                    "{origin}: the file is empty; the defaults are used"
                )
            }
            Self::UnknownKey {
                key,
                origin,
                nearest,
            } => {
                let meant = crate::error::meant(nearest.as_deref());
                write!(
                    formatter,
                    "{origin}: unknown key `{key}` is kept but has no effect{meant}"
                )
            }
            Self::NotRead { key, origin } => {
                write!(
                    formatter,
                    "{origin}: `{key}` is kept but not read by this version"
                )
            }
            Self::Migrated { from, to, origin } => {
                write!(formatter, "{origin}: `{from}` is read as `{to}`")
            }
            Self::Superseded {
                key,
                by,
                origin,
                successor_set: true,
            } => {
                write!(formatter, "{origin}: `{key}` has no effect; `{by}` counts")
            }
            Self::Superseded {
                key, by, origin, ..
            } => {
                write!(
                    formatter,
                    "{origin}: `{key}` has no effect any more; set `{by}` instead (`nanobot onboard` refreshes the file)"
                )
            }
            Self::Outdated { key, by, origin } => {
                write!(
                    formatter,
                    "{origin}: `{key}` is still read, but `{by}` measures better: set that instead"
                )
            }
            Self::Repeated {
                key,
                origin,
                first_line,
            } => {
                write!(
                    formatter,
                    "{origin}: `{key}` was already set to the same value in line {first_line}"
                )
            }
        }
    }
}
