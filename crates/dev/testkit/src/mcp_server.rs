//! A fake MCP server by streamable HTTP, and the authorization server that protects it.
//!
//! Both are as strict as the specifications: the MCP server accepts only tokens that are issued for
//! it, in the header. The authorization server accepts registered clients with their exact redirect
//! address, PKCE with S256, the resource parameter, each code once, and each refresh token once. A
//! second use of either ends the login. A request that is not as it has to be is refused with status
//! 400 and noted with the reason.

mod authorization;
mod resource;
mod visit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::TestkitError;
use crate::http::Server;
use crate::sync::Watched;

pub use visit::{Visit, visit};

/// Life of an access token without a wish of the test, in seconds.
const LIFE: u64 = 3600;

/// State of both servers.
#[derive(Debug)]
struct State {
    /// `true` if the authorization server registers clients.
    registers: bool,
    life: u64,
    /// Address that replaces the issuer in the metadata of the resource.
    named_issuer: Option<String>,
    /// Changes to the metadata of the authorization server.
    metadata: BTreeMap<String, Value>,
    /// Registered redirect addresses by client. `None` accepts any port of loopback.
    clients: BTreeMap<String, Option<String>>,
    /// Secrets by client.
    secrets: BTreeMap<String, String>,
    codes: BTreeMap<String, Code>,
    access: BTreeSet<String>,
    refresh: BTreeSet<String>,
    /// Numbers everything that is issued.
    issued: usize,
    journal: Vec<String>,
}

/// An issued code.
#[derive(Clone, Debug)]
struct Code {
    client: String,
    redirect: String,
    challenge: String,
    is_used: bool,
}

impl State {
    fn next(&mut self, kind: &str) -> String {
        self.issued += 1;
        // Long and varied enough to be a secret.
        format!("{kind}-q7Xz-{:04}", self.issued)
    }

    fn end_login(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }
}

/// A running MCP server with its authorization server, each on its own port of loopback. They stop
/// on drop.
#[derive(Debug)]
pub struct McpServerFake {
    resource: Server,
    authorization: Server,
    state: Watched<State>,
}

impl McpServerFake {
    /// Starts both.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(State {
            registers: true,
            life: LIFE,
            named_issuer: None,
            metadata: BTreeMap::new(),
            clients: BTreeMap::new(),
            secrets: BTreeMap::new(),
            codes: BTreeMap::new(),
            access: BTreeSet::new(),
            refresh: BTreeSet::new(),
            issued: 0,
            journal: Vec::new(),
        });
        // Each has to know the address of the other.
        let addresses = std::sync::Arc::new(OnceLock::<Addresses>::new());
        let (shared, known) = (state.clone(), addresses.clone());
        let resource = Server::start(move |request| {
            let response = shared.change(|state| resource::answer(state, known.get(), &request));
            async { response }
        });
        let resource = resource.await?;
        let (shared, known) = (state.clone(), addresses.clone());
        let authorization = Server::start(move |request| {
            let answer = |state: &mut State| authorization::answer(state, known.get(), &request);
            let response = shared.change(answer);
            async { response }
        });
        let authorization = authorization.await?;
        addresses.get_or_init(|| Addresses {
            resource: format!("{}/mcp", resource.url()),
            metadata: format!(
                "{}/.well-known/oauth-protected-resource/mcp",
                resource.url()
            ),
            issuer: authorization.url(),
        });
        Ok(Self {
            resource,
            authorization,
            state,
        })
    }

    /// Returns the address of the MCP server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/mcp", self.resource.url())
    }

    /// Returns the address of the authorization server.
    #[must_use]
    pub fn issuer(&self) -> String {
        self.authorization.url()
    }

    /// Returns the authorization server, for outages.
    #[must_use]
    pub const fn authorization_server(&self) -> &Server {
        &self.authorization
    }

    /// Sets the life of access tokens that are issued from now on, in seconds.
    pub fn set_life(&self, seconds: u64) {
        self.state.change(|state| state.life = seconds);
    }

    /// Registers no clients; knows this one, with its secret, at any port of loopback.
    pub fn set_client(&self, id: &str, secret: &str) {
        self.state.change(|state| {
            state.registers = false;
            state.clients.insert(id.to_owned(), None);
            state.secrets.insert(id.to_owned(), secret.to_owned());
        });
    }

    /// Names another authorization server in the metadata of the resource.
    pub fn name_issuer(&self, issuer: &str) {
        self.state
            .change(|state| state.named_issuer = Some(issuer.to_owned()));
    }

    /// Replaces a member of the metadata of the authorization server.
    pub fn set_metadata(&self, name: &str, value: Value) {
        self.state
            .change(|state| state.metadata.insert(name.to_owned(), value));
    }

    /// Ends all access tokens before their time. Refresh tokens stay valid.
    pub fn end_access(&self) {
        self.state.change(|state| state.access.clear());
    }

    /// Ends all tokens.
    pub fn end_login(&self) {
        self.state.change(State::end_login);
    }

    /// Returns what happened so far: `register`, `authorize`, `code`, `refresh`, `call NAME`,
    /// `401`, and `refused: REASON`.
    #[must_use]
    pub fn journal(&self) -> Vec<String> {
        self.state.read(|state| state.journal.clone())
    }

    /// Returns all tokens that are valid now.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.state
            .read(|state| state.access.union(&state.refresh).cloned().collect())
    }
}

/// Addresses of the servers.
#[derive(Debug)]
struct Addresses {
    resource: String,
    /// Address of the metadata of the resource.
    metadata: String,
    issuer: String,
}

/// Returns the metadata of the authorization server.
fn metadata(state: &State, issuer: &str) -> Value {
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    if let Some(document) = document.as_object_mut() {
        if state.registers {
            let endpoint = format!("{issuer}/register");
            document.insert("registration_endpoint".to_owned(), endpoint.into());
        }
        document.extend(state.metadata.clone());
    }
    document
}
