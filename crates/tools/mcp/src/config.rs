//! The configuration of servers: `tools.mcpServers.<name>` and `tools.mcpTokenBudget`.
//!
//! Keys and defaults are those of the Python program. A server without a usable transport is
//! reported and left out; it never prevents a start.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::McpError;

/// Keys of `tools` that concern all servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct McpConfig {
    /// Maximum size of the tools of MCP servers in every request, in tokens. Tools of servers that
    /// exceed it are not listed; the model finds them with `tool_search`. 0 lists none.
    pub mcp_token_budget: usize,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            mcp_token_budget: 2000,
        }
    }
}

/// `tools.mcpServers.<name>`: a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerConfig {
    /// Transport: `stdio`, `streamableHttp` or `sse`. Without it, a server with a command uses
    /// stdio, one whose URL ends in `/sse` uses SSE, and any other URL streamable HTTP.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["stdio", "streamableHttp", "sse", null]))]
    pub kind: Option<String>,
    /// Program of a server on this machine.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, besides `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and
    /// `USER`.
    pub env: BTreeMap<String, String>,
    /// Working folder of the program; if empty, that of this process.
    pub cwd: String,
    /// Address of a remote server.
    pub url: String,
    /// Headers of every request to a remote server.
    pub headers: BTreeMap<String, String>,
    /// `oauth` in the Python program. Not needed: a server that requires a login says so.
    pub auth: Option<String>,
    /// Client of the authorization server, for servers with which a program cannot register.
    pub oauth: McpOAuthConfig,
    /// Timeout of a call, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub tool_timeout: u64,
    /// Tools that the model may use, by their own or their full name; `*` is all of them, resources
    /// and prompts included.
    pub enabled_tools: Vec<String>,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            kind: None,
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: String::new(),
            url: String::new(),
            headers: BTreeMap::new(),
            auth: None,
            oauth: McpOAuthConfig::default(),
            tool_timeout: 30,
            enabled_tools: vec!["*".to_owned()],
        }
    }
}

/// `tools.mcpServers.<name>.oauth`: the client of a login.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct McpOAuthConfig {
    /// Identifier of a registered client. Without it, each login registers one.
    pub client_id: String,
    /// Secret of the client, if it has one.
    pub client_secret: String,
    /// Scopes of a login; without any, those that the server names.
    pub scopes: Vec<String>,
}

impl fmt::Debug for McpOAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpOAuthConfig")
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Shows no values of variables and headers, which may be secrets.
impl fmt::Debug for McpServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerConfig")
            .field("kind", &self.kind)
            .field("command", &self.command)
            .field("url", &self.url)
            .field("env", &self.env.keys())
            .field("headers", &self.headers.keys())
            .field("oauth", &self.oauth)
            .field("tool_timeout", &self.tool_timeout)
            .field("enabled_tools", &self.enabled_tools)
            .finish_non_exhaustive()
    }
}

/// Transport of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    Http(Url),
    /// The older HTTP transport: an event stream, and messages by POST.
    Sse(Url),
}

impl McpServerConfig {
    /// Returns the transport.
    ///
    /// # Errors
    /// Returns [`McpError::Config`] if the type is unknown, or the command or URL for it is missing
    /// or unusable.
    pub(crate) fn target(&self) -> Result<Target, McpError> {
        let url = || {
            let url = Url::parse(self.url.trim())
                .map_err(|error| McpError::Config(format!("url is unusable: {error}")))?;
            match url.scheme() {
                "http" | "https" => Ok(url),
                other => Err(McpError::Config(format!("url has the scheme {other}"))),
            }
        };
        let has_command = !self.command.trim().is_empty();
        let (has_url, is_sse) = (
            !self.url.trim().is_empty(),
            self.url.trim().trim_end_matches('/').ends_with("/sse"),
        );
        match self.kind.as_deref().filter(|kind| !kind.is_empty()) {
            Some("stdio") if has_command => Ok(Target::Stdio),
            Some("stdio") => Err(McpError::Config("command is missing".to_owned())),
            Some("streamableHttp" | "sse") if !has_url => {
                Err(McpError::Config("url is missing".to_owned()))
            }
            Some("streamableHttp") => url().map(Target::Http),
            Some("sse") => url().map(Target::Sse),
            Some(other) => Err(McpError::Config(format!("type {other:?} is unknown"))),
            None if has_command => Ok(Target::Stdio),
            None if has_url && is_sse => url().map(Target::Sse),
            None if has_url => url().map(Target::Http),
            None => Err(McpError::Config("command and url are missing".to_owned())),
        }
    }

    /// Returns the address at which a login applies; `None` for processes, and for servers with a
    /// configured `Authorization` header.
    pub(crate) fn login_url(&self) -> Option<Url> {
        let is_header = |name: &String| name.eq_ignore_ascii_case("authorization");
        match self.target().ok()? {
            Target::Http(url) | Target::Sse(url) if !self.headers.keys().any(is_header) => {
                Some(url)
            }
            Target::Http(_) | Target::Sse(_) | Target::Stdio => None,
        }
    }

    /// Returns the timeout of a call.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.tool_timeout.clamp(1, 3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_follows_type_then_command_then_url() {
        let config = |kind: Option<&str>, command: &str, url: &str| McpServerConfig {
            kind: kind.map(str::to_owned),
            command: command.to_owned(),
            url: url.to_owned(),
            ..McpServerConfig::default()
        };
        let parsed = |url: &str| Url::parse(url).unwrap();
        let (plain, sse) = ("http://127.0.0.1:1/mcp", "http://127.0.0.1:1/sse");
        for (kind, command, url, expected) in [
            (None, "npx", "", Ok(Target::Stdio)),
            (None, "npx", plain, Ok(Target::Stdio)),
            (None, "", plain, Ok(Target::Http(parsed(plain)))),
            (None, "", sse, Ok(Target::Sse(parsed(sse)))),
            (
                Some("streamableHttp"),
                "npx",
                sse,
                Ok(Target::Http(parsed(sse))),
            ),
            (Some("sse"), "", plain, Ok(Target::Sse(parsed(plain)))),
            (Some(""), "npx", "", Ok(Target::Stdio)),
            (Some("stdio"), "", plain, Err("command is missing")),
            (Some("sse"), "npx", "", Err("url is missing")),
            (
                Some("carrier-pigeon"),
                "npx",
                "",
                Err("type \"carrier-pigeon\" is unknown"),
            ),
            (None, "", "ftp://x/y", Err("url has the scheme ftp")),
            (None, " ", "", Err("command and url are missing")),
        ] {
            let found = config(kind, command, url).target();
            assert_eq!(
                found.map_err(|error| error.to_string()),
                expected.map_err(str::to_owned),
                "{kind:?} {command:?} {url:?}"
            );
        }
    }

    #[test]
    fn reads_the_keys_of_the_python_program() {
        let text = r#"{"type": null, "command": "npx", "args": ["-y", "x"], "env": {"A_B": "1"},
            "url": "", "headers": {}, "toolTimeout": 5, "enabledTools": ["*"], "cwd": ""}"#;
        let config: McpServerConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.timeout(), Duration::from_secs(5));
        let debug = format!("{config:?}");
        assert!(debug.contains("A_B") && !debug.contains("\"1\""), "{debug}");
    }
}
