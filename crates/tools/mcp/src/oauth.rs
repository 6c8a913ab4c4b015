//! Authorization of remote servers: OAuth 2.1 as in the MCP specification of 2025-06-18.
//!
//! Decision: the client is our own. The one of `rmcp` makes its requests with a client that follows
//! redirects and does not check addresses; here every address that a server names passes the URL
//! guard, no redirect is followed, and answers are bounded. A login is a command of the operator:
//! the gateway never starts one, and a server that asks for a login is merely unavailable.

mod access;
mod callback;
mod challenge;
mod client;
mod fetch;
mod grant;
mod login;
mod metadata;
mod request;

pub(crate) use access::Access;
pub(crate) use grant::GrantFile;
pub use grant::known_tokens;
pub use login::McpLogin;
pub(crate) use login::begin;
