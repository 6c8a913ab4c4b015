//! Errors of the control socket.

use std::io;
use std::path::PathBuf;

use nanobot_bus::BusError;

/// Error of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// This system has no Unix sockets.
    #[error("this system has no local sockets")]
    Unsupported,
    /// The socket cannot be created: another file is there, or the path is too long for a socket.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// No gateway listens on the socket.
    #[error("no gateway listens on {}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The connection broke, or the response is invalid.
    #[error("the gateway did not answer")]
    Broken(#[source] io::Error),
    /// The request is longer than the gateway accepts.
    #[error("the message is longer than the {limit} bytes that the gateway accepts")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The gateway refused the request.
    #[error("the gateway refused the request: {why}")]
    Refused {
        /// Its reason.
        why: String,
    },
    /// The subscription to terminal replies failed.
    #[error("replies to terminals cannot be received")]
    Bus(#[from] BusError),
}
