//! MCP servers as an operator sees them: their state, a test of one, the approval of changes, and
//! logins.

use nanobot_escape::shell_word;
use nanobot_redact::Secrets;
use serde::Serialize;
use serde_json::Value;

use crate::assembly::mcp::Mcp;
use crate::{Runtime, RuntimeError};

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpReport {
    /// Its name in the configuration.
    pub name: String,
    /// `new` before it was seen, `idle`, `connecting`, `connected`, `unavailable` or `unusable`.
    pub state: String,
    /// The last failure to connect, or the problem of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its tools.
    pub tools: Vec<McpToolReport>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolReport {
    /// Name by which the model calls it.
    pub name: String,
    /// Name on the server.
    pub own_name: String,
    /// Description as the model reads it.
    pub description: String,
    /// `true` if requests do not list it.
    pub is_deferred: bool,
    /// `true` if it is withheld until its changed or new definition is approved.
    pub is_withheld: bool,
    /// `true` if it was never approved, so the model does not know it.
    pub is_new: bool,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpTest {
    /// The server after it was connected to.
    pub server: McpReport,
    /// Result of the call, and `true` if it succeeded; `None` without a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<(String, bool)>,
}

/// The servers of a home.
#[derive(Debug)]
pub struct McpHome {
    mcp: Mcp,
}

impl McpHome {
    /// Reads the configuration and the record of the servers. Starts nothing.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn of(runtime: &Runtime) -> Result<Self, RuntimeError> {
        let mcp = Mcp::of(runtime.config(), &Secrets::default())?;
        Ok(Self { mcp })
    }
}

/// Returns the problems of the servers, each with its remedy. Contacts none.
pub(crate) fn problems(runtime: &Runtime) -> Result<Vec<(String, String)>, RuntimeError> {
    let mut problems = Vec::new();
    for server in McpHome::of(runtime)?.list() {
        let name = shell_word(&server.name);
        if let Some(failure) = &server.failure {
            problems.push((
                format!(
                    "the MCP server {} is {}: {failure}",
                    server.name, server.state
                ),
                format!("Check tools.mcpServers; `nanobot mcp test {name}` tries it."),
            ));
        }
        let withheld = server.tools.iter().filter(|tool| tool.is_withheld);
        let withheld: Vec<&str> = withheld.map(|tool| tool.own_name.as_str()).collect();
        if !withheld.is_empty() {
            problems.push((
                format!(
                    "the MCP server {} changed or added tools, which are withheld: {}",
                    server.name,
                    withheld.join(", ")
                ),
                format!(
                    "`nanobot mcp list` shows them; `nanobot mcp approve {name}` accepts them."
                ),
            ));
        }
    }
    Ok(problems)
}

#[cfg(feature = "mcp")]
impl McpHome {
    /// Returns the state of all servers by name. Contacts none.
    #[must_use]
    pub fn list(&self) -> Vec<McpReport> {
        let all = self.mcp.servers.status().into_iter();
        all.map(McpReport::from).collect()
    }

    /// Connects to a server, calls one of its tools if one is named, and ends it.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`] if there is no such server or tool, or it does not start.
    pub async fn test(
        &self,
        name: &str,
        call: Option<(&str, &Value)>,
    ) -> Result<McpTest, RuntimeError> {
        let result = self.connect_and_call(name, call).await;
        self.mcp.close().await;
        result
    }

    async fn connect_and_call(
        &self,
        name: &str,
        call: Option<(&str, &Value)>,
    ) -> Result<McpTest, RuntimeError> {
        let servers = &self.mcp.servers;
        let server = servers
            .connect(name)
            .await
            .map_err(|error| failure(&error))?;
        let call = match call {
            None => None,
            Some((tool, arguments)) => {
                let result = servers.call(name, tool, arguments).await;
                let result = result.map_err(|error| failure(&error))?;
                Some((result.output, result.success))
            }
        };
        Ok(McpTest {
            server: server.into(),
            call,
        })
    }

    /// Begins a login at a remote server, and passes its address to `show`. It ends with the answer
    /// of a browser on this machine, or with the address of the browser's last page from `pasted`.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`] if there is no such server, it offers no login, the login is
    /// refused or not completed in five minutes, or the tokens cannot be stored; and the error of
    /// `show`.
    pub async fn login<E: From<RuntimeError>>(
        &self,
        name: &str,
        show: impl FnOnce(&str) -> Result<(), E>,
        pasted: impl Future<Output = Option<String>>,
    ) -> Result<(), E> {
        let login = self.mcp.servers.begin_login(name).await;
        let login = login.map_err(|error| failure(&error))?;
        show(login.address().as_str())?;
        let finished = login.finish(pasted).await;
        finished.map_err(|error| failure(&error).into())
    }

    /// Removes the tokens of a server. Returns `true` if there were some.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`] if there is no such server, or the tokens cannot be removed.
    pub async fn logout(&self, name: &str) -> Result<bool, RuntimeError> {
        let removed = self.mcp.servers.logout(name).await;
        removed.map_err(|error| failure(&error))
    }

    /// Approves the changed and new definitions of a server and returns the names of their tools on the
    /// server. A running gateway uses them after its next start.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`] if there is no such server, or the record cannot be written.
    pub fn approve(&self, name: &str) -> Result<Vec<String>, RuntimeError> {
        let approved = self.mcp.servers.approve(name);
        approved.map_err(|error| failure(&error))
    }
}

#[cfg(feature = "mcp")]
fn failure(error: &nanobot_mcp::McpError) -> RuntimeError {
    RuntimeError::Mcp(crate::chain(error))
}

#[cfg(feature = "mcp")]
impl From<nanobot_mcp::McpServerStatus> for McpReport {
    fn from(status: nanobot_mcp::McpServerStatus) -> Self {
        let tools = status.tools.into_iter().map(|tool| McpToolReport {
            name: tool.name,
            own_name: tool.own_name,
            description: tool.description,
            is_deferred: tool.is_deferred,
            is_withheld: tool.is_withheld,
            is_new: tool.is_new,
        });
        Self {
            name: status.name,
            state: status.state.to_owned(),
            failure: status.failure,
            tools: tools.collect(),
        }
    }
}

#[cfg(not(feature = "mcp"))]
impl McpHome {
    /// Returns nothing: this build has no MCP client.
    #[must_use]
    pub fn list(&self) -> Vec<McpReport> {
        let Mcp {} = self.mcp;
        Vec::new()
    }

    /// Fails: this build has no MCP client.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`].
    pub async fn test(
        &self,
        _name: &str,
        _call: Option<(&str, &Value)>,
    ) -> Result<McpTest, RuntimeError> {
        std::future::ready(Err(missing())).await
    }

    /// Fails: this build has no MCP client.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`].
    pub async fn login<E: From<RuntimeError>>(
        &self,
        _name: &str,
        _show: impl FnOnce(&str) -> Result<(), E>,
        _pasted: impl Future<Output = Option<String>>,
    ) -> Result<(), E> {
        std::future::ready(Err(missing().into())).await
    }

    /// Fails: this build has no MCP client.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`].
    pub async fn logout(&self, _name: &str) -> Result<bool, RuntimeError> {
        std::future::ready(Err(missing())).await
    }

    /// Fails: this build has no MCP client.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Mcp`].
    pub fn approve(&self, _name: &str) -> Result<Vec<String>, RuntimeError> {
        Err(missing())
    }
}

#[cfg(not(feature = "mcp"))]
fn missing() -> RuntimeError {
    RuntimeError::Mcp("this build has no MCP client".to_owned())
}
