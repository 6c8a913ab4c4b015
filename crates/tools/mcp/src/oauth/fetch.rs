//! Requests to authorization servers.
//!
//! Decision: the address of the MCP server was written by the operator, so requests to its origin
//! may go to private networks. All other addresses were named by a server, so they follow the rules
//! of web tools: the public internet and the networks in `tools.ssrfWhitelist`. Tokens are sent by
//! HTTPS only, except to this machine and to an origin that the operator wrote with `http`.

use std::time::Duration;

use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode, header};
use ipnet::IpNet;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use url::{Host, Url};

use crate::McpError;
use crate::transport::GuardedClient;

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Time for one request with its answer.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The client for one MCP server and its authorization server.
#[derive(Debug)]
pub(super) struct Fetcher {
    server: Url,
    own: GuardedClient,
    others: GuardedClient,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// The challenges of an answer with status 401, joined.
    pub(super) challenge: Option<String>,
    /// The body; `Null` if it is no JSON.
    pub(super) body: Value,
}

impl Answer {
    /// Returns the status and the error code of a refusal.
    pub(super) fn refusal(&self) -> (StatusCode, &str) {
        let error = self.body.get("error").and_then(Value::as_str);
        (self.status, error.unwrap_or_default())
    }
}

/// The body of a request.
#[derive(Debug)]
pub(super) enum Body<'a> {
    None,
    Json(&'a Value),
    Form(&'a [(&'a str, &'a str)]),
}

impl Fetcher {
    /// Builds the client for the MCP server at `server`. `opened` are networks that addresses named
    /// by servers may be in, besides the public internet.
    pub(super) fn new(server: &Url, opened: &[IpNet]) -> Result<Self, McpError> {
        Ok(Self {
            server: server.clone(),
            own: GuardedClient::unrestricted()?,
            others: GuardedClient::new(opened.to_vec())?,
        })
    }

    /// Sends a request: a GET without a body, otherwise a POST.
    ///
    /// # Errors
    /// Returns [`McpError::Url`] if the address is refused, before any connection, and
    /// [`McpError::Authorization`] if there is no complete answer within the limits.
    pub(super) async fn send(
        &self,
        url: &Url,
        body: Body<'_>,
        headers: HeaderMap,
    ) -> Result<Answer, McpError> {
        let client = match (self.is_own(url), is_confidential(url)) {
            (true, _) => &self.own,
            (false, true) => &self.others,
            (false, false) => {
                let text = format!("{} would send tokens without encryption", shown(url));
                return Err(McpError::Authorization(text));
            }
        };
        let client = client.checked(url).await?;
        let request = match body {
            Body::None => client.get(url.clone()),
            Body::Json(value) => client.post(url.clone()).json(value),
            Body::Form(fields) => client
                .post(url.clone())
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form(fields)),
        };
        answer(url, request.headers(headers).timeout(TIME_LIMIT)).await
    }

    /// Gets a JSON document; `None` if there is none at the address.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Value>, McpError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::ACCEPT,
            header::HeaderValue::from_static("application/json"),
        );
        let answer = self.send(url, Body::None, headers).await?;
        let is_document = answer.status.is_success() && answer.body.is_object();
        Ok(is_document.then_some(answer.body))
    }

    /// `true` if a person may be sent to an address that a server named.
    pub(super) fn is_for_people(&self, url: &Url) -> bool {
        (self.is_own(url) || is_confidential(url)) && url.username().is_empty()
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.server.origin()
    }

    /// Returns the address of the MCP server.
    pub(super) const fn server(&self) -> &Url {
        &self.server
    }
}

/// `true` if no one on the network can read what is sent to this address.
fn is_confidential(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

async fn answer(url: &Url, request: RequestBuilder) -> Result<Answer, McpError> {
    let failed = |what: &str| McpError::Authorization(format!("{} {what}", shown(url)));
    let response = request.send().await.map_err(|error| {
        let kind = match (error.is_connect(), error.is_timeout()) {
            (true, _) => "cannot be connected to",
            (_, true) => "did not answer in time",
            _ => "did not answer",
        };
        failed(kind)
    })?;
    let status = response.status();
    let challenges = response.headers().get_all(header::WWW_AUTHENTICATE);
    let challenges: Vec<&str> = challenges
        .iter()
        .filter_map(|one| one.to_str().ok())
        .collect();
    let challenge = (status == StatusCode::UNAUTHORIZED).then(|| challenges.join(", "));
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    // A stream of events does not end.
    let bytes = match is_stream {
        true => Vec::new(),
        false => bounded(response).await.map_err(failed)?,
    };
    Ok(Answer {
        status,
        challenge,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    })
}

async fn bounded(response: Response) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_broken| "did not send its answer to the end")?;
        if bytes.len().saturating_add(piece.len()) > MAX_ANSWER {
            return Err("sent an answer that is too large");
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Returns an address without its query, which may hold secrets.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    nanobot_escape::sanitize_line(url.as_str())
}
