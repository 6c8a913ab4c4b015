//! One connection to a server: start, lists, requests.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest::Client;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, GetPromptRequestParams,
    Implementation, PaginatedRequestParams, ReadResourceRequestParams,
};
use rmcp::service::{
    NotificationContext, Peer, RoleClient, RunningService, ServiceError, serve_client_with_ct,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::McpError;
use crate::config::{McpServerConfig, Target};
use crate::content::{Answer, prompt_answer, resource_answer, tool_answer};
use crate::definition::{Definition, DefinitionKind};
use crate::oauth::Access;
use crate::output::OutputTail;
use crate::transport::{
    AuthorizedClient, MAX_MESSAGE, SseTransport, StdioTransport, headers, http_client,
};

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 512;
/// Maximum number of resources, and of prompts, of a server.
const MAX_OTHERS: usize = 64;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 64;

/// A connection. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Distinguishes the connections of a server.
    pub(crate) number: u64,
    peer: Peer<RoleClient>,
    end: CancellationToken,
    changed: Arc<Notify>,
}

/// The service of a connection. It ends with the connection.
pub(crate) type Running = RunningService<RoleClient, Handler>;

/// Answers and notifications that a server may expect of this client. Sampling, elicitation and
/// roots are not offered.
#[derive(Debug)]
pub(crate) struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("nanobot", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// What a connection is made of.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a McpServerConfig,
    pub(crate) number: u64,
    /// Ends the connection.
    pub(crate) end: CancellationToken,
    pub(crate) tasks: &'a TaskTracker,
    pub(crate) tail: &'a OutputTail,
    pub(crate) access: &'a Arc<Access>,
}

impl Connection<'_> {
    /// Connects and starts a session.
    pub(crate) async fn open(self) -> Result<(Session, Running), McpError> {
        self.access.load().await;
        let access = Arc::clone(self.access);
        let opened = self.open_transport().await;
        // The transport's error does not say what the operator can do.
        opened.map_err(|error| access.problem().unwrap_or(error))
    }

    async fn open_transport(self) -> Result<(Session, Running), McpError> {
        let changed = Arc::new(Notify::new());
        let handler = Handler {
            changed: Arc::clone(&changed),
        };
        let end = self.end.clone();
        let running = match self.config.target()? {
            Target::Stdio => {
                let transport =
                    StdioTransport::start(self.name, self.config, self.tasks, self.tail)?;
                serve_client_with_ct(handler, transport, end.clone()).await
            }
            Target::Http(url) => {
                let client = http_client(&url).await?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config = config
                    .custom_headers(headers(self.config)?)
                    .max_sse_event_size(MAX_MESSAGE)
                    .max_json_response_size(MAX_MESSAGE);
                let client = AuthorizedClient::new(client, Arc::clone(self.access));
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve_client_with_ct(handler, transport, end.clone()).await
            }
            Target::Sse(url) => {
                let client: Client = http_client(&url).await?;
                let headers: HeaderMap = headers(self.config)?.into_iter().collect();
                let access = Arc::clone(self.access);
                let transport =
                    SseTransport::open(self.name, &url, client, headers, access).await?;
                serve_client_with_ct(handler, transport, end.clone()).await
            }
        };
        let running = running.map_err(|error| McpError::Session(short(&error.to_string())))?;
        let session = Session {
            number: self.number,
            peer: running.peer().clone(),
            end,
            changed,
        };
        Ok((session, running))
    }
}

/// Failure of a request.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The connection is lost and the request was not sent.
    NotSent,
    /// The connection is lost and the server may have received the request.
    Lost,
    /// The server cancelled the request.
    Cancelled,
    /// The server refused the request, or its answer is unusable.
    Refused(String),
}

impl Session {
    /// `true` if the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_cancelled() || self.peer.is_transport_closed()
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }

    /// Waits until the server says that a list changed.
    pub(crate) async fn list_changed(&self) {
        self.changed.notified().await;
    }

    /// Returns what the server offers. Resources and prompts are left out unless `with_others`.
    pub(crate) async fn definitions(
        &self,
        server: &str,
        with_others: bool,
    ) -> Result<Vec<Definition>, McpError> {
        let offers = self.peer.peer_info().map(|info| info.capabilities.clone());
        let offers = offers.unwrap_or_default();
        let mut found = Found {
            server,
            definitions: Vec::new(),
        };
        if offers.tools.is_some() {
            let listed = self.tools(&mut found).await;
            listed.map_err(|error| McpError::Session(short(&error.to_string())))?;
        }
        if with_others && offers.resources.is_some() {
            let listed = self.resources(&mut found).await;
            report(server, "resources", listed);
        }
        if with_others && offers.prompts.is_some() {
            let listed = self.prompts(&mut found).await;
            report(server, "prompts", listed);
        }
        Ok(found.definitions)
    }

    async fn tools(&self, found: &mut Found<'_>) -> Result<(), ServiceError> {
        let (mut cursor, mut room) = (None, MAX_TOOLS);
        for _ in 0..MAX_PAGES {
            let page = self.peer.list_tools(page(cursor)).await?;
            for tool in page.tools {
                found.add(&mut room, &tool.name, Definition::of_tool(&tool));
            }
            cursor = page.next_cursor;
            if cursor.is_none() || room == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn resources(&self, found: &mut Found<'_>) -> Result<(), ServiceError> {
        let (mut cursor, mut room) = (None, MAX_OTHERS);
        for _ in 0..MAX_PAGES {
            let page = self.peer.list_resources(page(cursor)).await?;
            for resource in page.resources {
                let definition = Definition::of_resource(&resource);
                found.add(&mut room, &resource.name, definition);
            }
            cursor = page.next_cursor;
            if cursor.is_none() || room == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn prompts(&self, found: &mut Found<'_>) -> Result<(), ServiceError> {
        let (mut cursor, mut room) = (None, MAX_OTHERS);
        for _ in 0..MAX_PAGES {
            let page = self.peer.list_prompts(page(cursor)).await?;
            for prompt in page.prompts {
                found.add(&mut room, &prompt.name, Definition::of_prompt(&prompt));
            }
            cursor = page.next_cursor;
            if cursor.is_none() || room == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Calls a tool, reads a resource or gets a prompt. Dropping the future cancels the request on
    /// the server, too.
    pub(crate) async fn request(
        &self,
        definition: &Definition,
        arguments: Map<String, Value>,
    ) -> Result<Answer, RequestFailure> {
        if self.has_ended() {
            return Err(RequestFailure::NotSent);
        }
        let name = definition.name.clone();
        let answer = match definition.kind {
            DefinitionKind::Tool => {
                let request = CallToolRequestParams::new(name).with_arguments(arguments);
                self.peer.call_tool(request).await.map(tool_answer)
            }
            DefinitionKind::Resource => {
                let request = ReadResourceRequestParams::new(definition.uri.clone());
                let read = self.peer.read_resource(request).await;
                read.map(|read| resource_answer(&read.contents))
            }
            DefinitionKind::Prompt => {
                let request = GetPromptRequestParams::new(name).with_arguments(arguments);
                let got = self.peer.get_prompt(request).await;
                got.map(|got| prompt_answer(&got.messages))
            }
        };
        answer.map_err(|error| failure(&error))
    }
}

fn failure(error: &ServiceError) -> RequestFailure {
    match error {
        ServiceError::McpError(refusal) => RequestFailure::Refused(short(&refusal.message)),
        ServiceError::TransportClosed => RequestFailure::Lost,
        ServiceError::TransportSend(error) => transport_failure(error.error.as_ref()),
        ServiceError::Cancelled { .. } => RequestFailure::Cancelled,
        other => RequestFailure::Refused(short(&other.to_string())),
    }
}

/// Returns what an error of a transport means for the request. A server that refuses the login has
/// not processed it.
fn transport_failure(error: &(dyn std::error::Error + 'static)) -> RequestFailure {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return match error {
                StreamableHttpError::SessionExpired | StreamableHttpError::AuthRequired(_) => {
                    RequestFailure::NotSent
                }
                StreamableHttpError::Client(error) if error.is_connect() => RequestFailure::NotSent,
                StreamableHttpError::InsufficientScope(error) => {
                    let scope = error.required_scope.as_deref().unwrap_or_default();
                    let text = format!("the authorization does not include this ({scope})");
                    RequestFailure::Refused(short(&text))
                }
                _ => RequestFailure::Lost,
            };
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::PermissionDenied => RequestFailure::NotSent,
                _ => RequestFailure::Lost,
            };
        }
        next = error.source();
    }
    RequestFailure::Lost
}

/// Returns a text of a server in one bounded line.
pub(crate) fn short(text: &str) -> String {
    let cut: String = text.chars().take(300).collect();
    nanobot_escape::sanitize_line(&cut)
}

fn page(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
}

fn report(server: &str, list: &str, listed: Result<(), ServiceError>) {
    if let Err(error) = listed {
        let error = short(&error.to_string());
        tracing::warn!(
            server,
            list,
            error,
            "an MCP server did not list what it offers"
        );
    }
}

/// Definitions that were accepted so far.
struct Found<'a> {
    server: &'a str,
    definitions: Vec<Definition>,
}

impl Found<'_> {
    fn add(&mut self, room: &mut usize, name: &str, definition: Result<Definition, &'static str>) {
        let reason = match definition {
            Ok(_) if *room == 0 => "the server offers too many",
            Ok(one)
                if self
                    .definitions
                    .iter()
                    .any(|known| known.key() == one.key()) =>
            {
                "its name is taken"
            }
            Ok(one) => {
                *room -= 1;
                self.definitions.push(one);
                return;
            }
            Err(reason) => reason,
        };
        let (server, name) = (self.server, short(name));
        tracing::warn!(server, name, reason, "a tool of an MCP server was left out");
    }
}

/// Time that a server has to start a session and to list what it offers.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);
