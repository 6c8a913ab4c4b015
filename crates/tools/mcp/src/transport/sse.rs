//! The HTTP transport of protocol version 2024-11-05: the server sends events, the first of which
//! names the address for messages.
//!
//! Decision: the address for messages has to be of the same origin, because configured headers are
//! sent to it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use eventsource_stream::{Event, Eventsource as _};
use futures_util::{Stream, StreamExt as _};
use nanobot_redact::Secret;
use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use url::Url;

use super::MAX_MESSAGE;
use crate::McpError;
use crate::oauth::Access;

type Events = Pin<Box<dyn Stream<Item = Result<Event, String>> + Send>>;

/// A connection to a server by the older HTTP transport.
pub(crate) struct SseTransport {
    name: String,
    sender: Sender,
    messages: Url,
    events: Option<Events>,
}

impl SseTransport {
    /// Opens the event stream and waits for the address of messages.
    pub(crate) async fn open(
        name: &str,
        url: &Url,
        client: Client,
        headers: HeaderMap,
        access: Arc<Access>,
    ) -> Result<Self, McpError> {
        let sender = Sender {
            client,
            headers,
            access,
        };
        let request = |client: &Client| client.get(url.clone()).header(ACCEPT, "text/event-stream");
        let response = sender
            .send(request)
            .await
            .map_err(|error| failure(&error))?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(McpError::Session(format!("it answered {status}")));
        }
        let mut events = bounded_events(response);
        let ended = || McpError::Session("its event stream ended".to_owned());
        let messages = loop {
            let event = events.next().await.ok_or_else(ended)?;
            let event = event.map_err(McpError::Session)?;
            if event.event == "endpoint" {
                break endpoint(url, event.data.trim())?;
            }
        };
        Ok(Self {
            name: name.to_owned(),
            sender,
            messages,
            events: Some(events),
        })
    }
}

/// What all requests to a server have in common.
#[derive(Clone)]
struct Sender {
    client: Client,
    headers: HeaderMap,
    access: Arc<Access>,
}

impl Sender {
    /// Sends a request with a token, and a second time with another one after status 401.
    async fn send(&self, request: impl Fn(&Client) -> RequestBuilder) -> reqwest::Result<Response> {
        let send = |token: Option<&Secret>| {
            let request = request(&self.client).headers(self.headers.clone());
            let request = match token {
                Some(token) => request.bearer_auth(token.expose()),
                None => request,
            };
            request.send()
        };
        let token = self.access.token().await;
        let response = send(token.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let Some(token) = self.access.renew(token.as_ref()).await else {
            return Ok(response);
        };
        let response = send(Some(&token)).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.access.refuse(Some(&token));
        }
        Ok(response)
    }
}

/// Returns the address for messages.
fn endpoint(url: &Url, text: &str) -> Result<Url, McpError> {
    let found = url.join(text);
    let found = found.map_err(|error| McpError::Session(format!("its endpoint: {error}")))?;
    if found.origin() != url.origin() {
        let text = "its endpoint is of another origin";
        return Err(McpError::Session(text.to_owned()));
    }
    Ok(found)
}

/// Returns the events of a response. An event over the size limit ends the stream with an error.
fn bounded_events(response: Response) -> Events {
    let pending = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pending);
    let bytes = response.bytes_stream().map(move |piece| {
        let piece = piece.map_err(|error| error.to_string())?;
        let before = counter.fetch_add(piece.len(), Ordering::Relaxed);
        match before.saturating_add(piece.len()) > MAX_MESSAGE {
            true => Err("a message exceeds the size limit".to_owned()),
            false => Ok(piece),
        }
    });
    let events = bytes.eventsource().map(move |event| {
        pending.store(0, Ordering::Relaxed);
        event.map_err(|error| error.to_string())
    });
    Box::pin(events)
}

fn failure(error: &reqwest::Error) -> McpError {
    // The URL is left out: it may contain a token.
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, _) => "it cannot be connected to",
        (_, true) => "it did not answer in time",
        _ => "the request failed",
    };
    McpError::Session(kind.to_owned())
}

impl Transport<RoleClient> for SseTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (sender, messages) = (self.sender.clone(), self.messages.clone());
        async move {
            let request = |client: &Client| client.post(messages.clone()).json(&item);
            let response = sender.send(request).await;
            let response =
                response.map_err(|error| io::Error::other(error.without_url().to_string()))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                StatusCode::UNAUTHORIZED => Err(io::ErrorKind::PermissionDenied.into()),
                status => Err(io::Error::other(format!("status {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.events.as_mut()?.next().await?;
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(server = %self.name, %error, "the event stream of an MCP server broke");
                    return None;
                }
            };
            if event.event != "message" {
                continue;
            }
            match serde_json::from_str(&event.data) {
                Ok(message) => return Some(message),
                Err(error) => {
                    tracing::debug!(server = %self.name, %error, "an MCP server sent an event that is no message");
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_stays_on_its_origin() {
        let url = Url::parse("http://127.0.0.1:8000/sse").unwrap();
        for (text, expected) in [
            (
                "/messages?id=1",
                Some("http://127.0.0.1:8000/messages?id=1"),
            ),
            ("http://127.0.0.1:8000/m", Some("http://127.0.0.1:8000/m")),
            ("http://127.0.0.1:8001/m", None),
            ("//evil.example/m", None),
            ("https://127.0.0.1:8000/m", None),
            ("http://[", None),
        ] {
            let found = endpoint(&url, text).ok();
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{text}");
        }
    }
}
