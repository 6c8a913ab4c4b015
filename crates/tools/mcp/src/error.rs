//! Errors of servers, as operators read them.

use std::io;
use std::path::PathBuf;

/// Reason why a server or its state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The configuration of the server is unusable.
    #[error("{0}")]
    Config(String),
    /// There is no server of this name.
    #[error("there is no MCP server named {name:?}")]
    UnknownServer {
        /// The name.
        name: String,
    },
    /// The server has no tool of this name.
    #[error("the MCP server has no tool named {name:?}")]
    UnknownTool {
        /// The name.
        name: String,
    },
    /// The tool was never approved.
    #[error(
        "the tool {name:?} is new and not approved: nanobot mcp approve {}",
        nanobot_escape::shell_word(server)
    )]
    NewTool {
        /// Name of the tool.
        name: String,
        /// Name of the server.
        server: String,
    },
    /// The program could not be started.
    #[error("the command {command:?} could not be started")]
    Start {
        /// The command.
        command: String,
        /// The error of the platform.
        #[source]
        source: io::Error,
    },
    /// The URL may not be connected to.
    #[error("the URL is refused")]
    Url(#[source] nanobot_guard::UrlDenied),
    /// The HTTP client could not be built, or a header is unusable.
    #[error("{0}")]
    Http(String),
    /// The authorization of a remote server failed.
    #[error("the authorization failed: {0}")]
    Authorization(String),
    /// The server requires an authorization that the operator has not given, or that has ended.
    #[error(
        "it requires a login: run `nanobot mcp login {}`",
        nanobot_escape::shell_word(name)
    )]
    LoginNeeded {
        /// Name of the server.
        name: String,
    },
    /// The server refuses the configured `Authorization` header.
    #[error("it refuses the configured Authorization header")]
    HeaderRefused,
    /// The server did not complete the start of a session.
    #[error("the server did not start a session: {0}")]
    Session(String),
    /// The server did not answer in time.
    #[error("the server did not answer within {seconds} s")]
    Timeout {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The last attempt to connect failed, and the next one is not due.
    #[error("the server is unavailable: {0}")]
    Unavailable(String),
    /// The file with the approved definitions, or that with tokens, cannot be read or written.
    #[error("{} cannot be used", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The error of the platform or of the content.
        #[source]
        source: io::Error,
    },
}

impl McpError {
    /// Returns the error and its sources in one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text.push_str(&format!(": {error}"));
            source = error.source();
        }
        text
    }
}
