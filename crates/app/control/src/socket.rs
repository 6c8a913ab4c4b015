//! The Unix socket: private to its owner, and replaced if it is stale.

#[cfg(unix)]
pub(crate) use unix::{ControlListener, Stream, connect};

#[cfg(not(unix))]
pub(crate) use unsupported::{ControlListener, Stream, connect};

#[cfg(unix)]
mod unix {
    use std::fs::{File, Permissions};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use tokio::net::UnixListener;

    use crate::ControlError;

    /// A connection.
    pub(crate) type Stream = tokio::net::UnixStream;

    /// A listening socket. Dropping it removes the socket file.
    #[derive(Debug)]
    pub(crate) struct ControlListener {
        listener: UnixListener,
        path: PathBuf,
        owner: u32,
    }

    impl ControlListener {
        /// Listens on `path`. A stale socket is replaced; any other file is left alone.
        pub(crate) async fn bind(path: &Path) -> Result<Self, ControlError> {
            let fault = |source| ControlError::Bind {
                path: path.to_owned(),
                source,
            };
            remove_stale(path).await.map_err(fault)?;
            let listener = Reachable::of(path)
                .and_then(|socket| UnixListener::bind(&socket.path))
                .map_err(fault)?;
            // A peer that connects before this takes effect is still checked by its user id.
            std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fault)?;
            let owner = std::fs::metadata(path).map_err(fault)?.uid();
            Ok(Self {
                listener,
                path: path.to_owned(),
                owner,
            })
        }

        /// Accepts the next connection from the socket's owner. Others are disconnected.
        pub(crate) async fn accept(&self) -> io::Result<Stream> {
            loop {
                let (stream, _) = self.listener.accept().await?;
                let peer = stream.peer_cred()?.uid();
                if peer == self.owner {
                    return Ok(stream);
                }
                tracing::warn!(peer, "another user tried to use the gateway's socket");
            }
        }
    }

    impl Drop for ControlListener {
        fn drop(&mut self) {
            // Best effort: a socket file that remains is recognized as stale.
            drop(std::fs::remove_file(&self.path));
        }
    }

    /// Removes a stale socket.
    async fn remove_stale(path: &Path) -> io::Result<()> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "something that is no socket is there",
                ));
            }
            Ok(_) => {}
        }
        match Stream::connect(&Reachable::of(path)?.path).await {
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens there",
            )),
            Err(_) => std::fs::remove_file(path),
        }
    }

    /// Connects to a socket.
    pub(crate) async fn connect(path: &Path) -> Result<Stream, ControlError> {
        let connected = match Reachable::of(path) {
            Ok(socket) => Stream::connect(&socket.path).await,
            Err(error) => Err(error),
        };
        connected.map_err(|source| ControlError::Unreachable {
            path: path.to_owned(),
            source,
        })
    }

    /// Longest path that every system accepts for a socket (`sun_path` is 104 bytes on macOS, 108
    /// on Linux).
    const MAX_SOCKET_PATH: usize = 100;

    /// A path that is short enough for a socket. On Linux a longer path is reached through its
    /// folder, which is kept open meanwhile. On other systems it is refused.
    struct Reachable {
        path: PathBuf,
        _folder: Option<File>,
    }

    impl Reachable {
        fn of(path: &Path) -> io::Result<Self> {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            if !cfg!(target_os = "linux") || path.as_os_str().len() <= MAX_SOCKET_PATH {
                return Ok(Self {
                    path: path.to_owned(),
                    _folder: None,
                });
            }
            let folder = File::open(folder)?;
            let path = Path::new("/proc/self/fd")
                .join(folder.as_raw_fd().to_string())
                .join(name);
            Ok(Self {
                path,
                _folder: Some(folder),
            })
        }
    }
}

#[cfg(not(unix))]
mod unsupported {
    use std::io;
    use std::path::Path;

    use crate::ControlError;

    /// A connection; there are none.
    pub(crate) type Stream = tokio::io::DuplexStream;

    /// A socket that listens; there are none.
    #[derive(Debug)]
    pub(crate) struct ControlListener;

    impl ControlListener {
        pub(crate) async fn bind(_path: &Path) -> Result<Self, ControlError> {
            Err(ControlError::Unsupported)
        }

        pub(crate) async fn accept(&self) -> io::Result<Stream> {
            std::future::pending().await
        }
    }

    pub(crate) async fn connect(_path: &Path) -> Result<Stream, ControlError> {
        Err(ControlError::Unsupported)
    }
}
