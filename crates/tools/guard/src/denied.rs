//! Reasons why a guard refuses access.
//!
//! There are two errors rather than one, because no caller handles both: a URL is refused with
//! [`UrlDenied`], a path with [`PathDenied`]. Their texts are written for the model that made the
//! call.

use std::{io, net::IpAddr, path::PathBuf};

/// Reason why a URL may not be fetched. The text never repeats credentials of the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlDenied {
    /// It is not an absolute URL by the WHATWG rules.
    #[error("the URL cannot be parsed ({0})")]
    Malformed(#[source] url::ParseError),
    /// Its scheme is neither `http` nor `https`.
    #[error("only http and https URLs are allowed, got '{0}'")]
    Scheme(String),
    /// It names no host.
    #[error("the URL has no host")]
    NoHost,
    /// It carries a user name or password.
    #[error("URLs with credentials are refused")]
    Credentials,
    /// Its port belongs to a service that does not speak HTTP.
    #[error("port {0} is not a web port")]
    Port(u16),
    /// Its host is, or resolves to, an address outside the public internet.
    #[error("host '{host}' is the private or internal address {address}")]
    Private {
        /// The host as the URL names it.
        host: String,
        /// The address that was refused, in canonical form.
        address: IpAddr,
    },
    /// Its host is the metadata service of a cloud, which no configuration opens.
    #[error("host '{0}' is a cloud metadata service")]
    Metadata(String),
    /// Its host has no address.
    #[error("cannot resolve host '{host}'")]
    Unresolved {
        /// The host as the URL names it.
        host: String,
        /// Error of the resolver.
        #[source]
        source: io::Error,
    },
    /// The chain of redirects is longer than [`MAX_REDIRECTS`](crate::MAX_REDIRECTS).
    #[error("too many redirects (more than {0})")]
    TooManyRedirects(u8),
}

impl UrlDenied {
    /// Returns `true` if a later check may succeed, which is only the case for a name that did not
    /// resolve.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unresolved { .. })
    }
}

/// Reason why a tool may not access a path. `path` is always the path as given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathDenied {
    /// The path is empty or holds a NUL byte.
    #[error("the path is empty or contains a NUL byte")]
    Malformed,
    /// It leads out of the workspace and of all other open folders.
    #[error("Path {path} is outside allowed directory {allowed}")]
    Outside {
        /// The path as given.
        path: String,
        /// The workspace.
        allowed: PathBuf,
    },
    /// It is, lies in, or (for a removal) contains a protected path, which may be read but not
    /// changed.
    #[error("Path {path} is protected: it can be read but not changed")]
    Protected {
        /// The path as given.
        path: String,
    },
    /// It is, lies in, or (for a removal) contains a secret path, which tools neither read nor
    /// change.
    #[error("Path {path} holds secrets and is closed to tools")]
    Secret {
        /// The path as given.
        path: String,
    },
    /// It is a folder with files of several people, which can only be read by their full names.
    #[error(
        "Path {path} holds files of several people and is not listed: name a file that you were given"
    )]
    Unlisted {
        /// The path as given.
        path: String,
    },
    /// It lies in a folder that is open for reading only.
    #[error("Path {path} is in a read-only folder")]
    ReadOnly {
        /// The path as given.
        path: String,
    },
    /// It is a device, pipe, socket, or part of `/proc`, `/sys` or `/dev`.
    #[error("Path {path} is a device or system interface, not a file")]
    Special {
        /// The path as given.
        path: String,
    },
    /// The file system could not resolve it (a loop of links, a name too long, no permission).
    #[error("Path {path} cannot be resolved: {source}")]
    Unresolvable {
        /// The path as given.
        path: String,
        /// Error of the file system.
        source: io::Error,
    },
}
