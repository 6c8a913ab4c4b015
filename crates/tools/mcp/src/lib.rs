//! MCP servers as tools.
//!
//! Decision: a server is untrusted code of others that the operator chose to run. Its definitions
//! are recorded when it is first seen; a changed one is withheld until the operator approves it.
//! It gets few variables of the environment, cannot ask the model or a person anything, and can
//! fail in every way without more than an error result. The protocol is `rmcp`'s; processes, the
//! older HTTP transport and all limits are ours.
//!
//! Tools that exceed the token budget are deferred: requests do not list them, and the model finds
//! them with `tool_search` (see [`nanobot_tool::Registry::register_deferred`]). A remote server is
//! authorized by a configured header or by a login of the operator ([`McpServers::begin_login`]).

mod config;
mod content;
mod definition;
mod error;
mod name;
mod oauth;
mod output;
mod record;
mod server;
mod servers;
mod session;
mod tool;
mod transport;

pub use config::{McpConfig, McpOAuthConfig, McpServerConfig};
pub use definition::DefinitionKind;
pub use error::McpError;
pub use oauth::{McpLogin, known_tokens};
pub use servers::{McpServerStatus, McpServers, McpSettings, McpToolStatus};
