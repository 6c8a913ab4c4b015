//! What can go wrong with the socket.

use std::io;
use std::path::PathBuf;

use nanobot_bus::BusError;

/// An error of the socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There are no such sockets on this system.
    #[error("this system has no local sockets")]
    Unsupported,
    /// The socket cannot be made: something else is there, or the path is too long for one.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("no gateway listens on {}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// The connection broke, or what came is no answer.
    #[error("the gateway did not answer")]
    Broken(#[source] io::Error),
    /// The queue of the terminal's replies cannot be had.
    #[error("replies to terminals cannot be received")]
    Bus(#[from] BusError),
}
