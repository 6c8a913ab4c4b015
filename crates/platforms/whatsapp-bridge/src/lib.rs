//! Installs, starts and supervises the WhatsApp bridge.
//!
//! The bridge is a package for Node.js, which is part of this crate as text
//! (`bridges/whatsapp`). `Bridge::install` writes it into a folder and lets `npm` fetch its
//! dependencies, by the checksums of its lock file. A running bridge is a child process: it gets
//! its token through its environment, listens on a free port of the loopback interface, and ends
//! with the program that started it. See `bridges/whatsapp/PROTOCOL.md`.

use std::path::{Path, PathBuf};

/// An installed bridge, or the place for one. Does no I/O until asked.
#[derive(Clone, Debug)]
pub struct Bridge {}

/// A failure of the bridge's installation or process.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Node.js or npm is missing or too old, the installation failed, or a file cannot be written;
    /// says what to do.
    #[error("{0}")]
    Install(String),
    /// Another program runs the bridge of this folder.
    #[error("another program runs this bridge")]
    InUse,
    /// The process did not start, or ended.
    #[error("the WhatsApp bridge {0}")]
    Process(String),
}

/// A running bridge. Dropping it ends the process.
#[derive(Debug)]
pub struct RunningBridge {}

impl Bridge {
    /// The bridge in `data_dir/whatsapp-bridge`, with its keys in `data_dir/whatsapp-auth` (where
    /// the Python program has them). `instance` keeps several accounts apart: the channel's name
    /// if it is not `whatsapp`.
    #[must_use]
    pub fn new(_data_dir: &Path, _instance: Option<&str>) -> Self {
        Self {}
    }

    /// `true` if this version of the bridge is installed with all its dependencies.
    pub async fn is_installed(&self) -> bool {
        false
    }

    /// Installs the bridge; a finished installation is left as it is, an interrupted one is
    /// repeated. `progress` gets lines for a person.
    pub async fn install(&self, _progress: &(dyn Fn(&str) + Sync)) -> Result<(), BridgeError> {
        Err(BridgeError::InUse)
    }

    /// Starts the bridge and waits until it listens.
    pub async fn start(&self) -> Result<RunningBridge, BridgeError> {
        Err(BridgeError::InUse)
    }
}

impl RunningBridge {
    /// The address for the client (`ws://127.0.0.1:40123`).
    #[must_use]
    pub fn url(&self) -> &str {
        ""
    }

    /// The token for the client.
    #[must_use]
    pub fn token(&self) -> &str {
        ""
    }

    /// Waits until the process has ended, and returns why.
    pub async fn ended(&mut self) -> BridgeError {
        BridgeError::InUse
    }

    /// Ends the process, by force after two seconds.
    pub async fn stop(self) {}

    /// The folder of the installation.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        PathBuf::new()
    }
}
