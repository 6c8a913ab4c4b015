//! Handshakes of the long connection.

use nanobot_testkit::Watched;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};

use crate::fault::Fault;
use crate::frame::SERVICE;
use crate::state::FeishuState;

/// A refused handshake.
struct Refusal {
    /// Status of the HTTP response.
    http: u16,
    /// Value of `handshake-status`; without it, the refusal is not Feishu's but a proxy's.
    status: Option<u32>,
    message: String,
    auth_code: Option<u32>,
}

impl Refusal {
    fn new(status: u32, message: String, auth_code: Option<u32>) -> Self {
        Self {
            http: 400,
            status: Some(status),
            message,
            auth_code,
        }
    }

    fn response(&self) -> ErrorResponse {
        let mut response = ErrorResponse::new(Some(self.message.clone()));
        *response.status_mut() = StatusCode::from_u16(self.http).unwrap_or_default();
        let Some(status) = self.status else {
            return response;
        };
        let headers = response.headers_mut();
        headers.insert("handshake-status", HeaderValue::from(status));
        if let Ok(message) = HeaderValue::from_str(&self.message) {
            headers.insert("handshake-msg", message);
        }
        if let Some(code) = self.auth_code {
            headers.insert("handshake-autherrcode", HeaderValue::from(code));
        }
        response
    }
}

/// Accepts a client that has a URL from the endpoint. A URL is good for one connection.
pub(crate) async fn greet(
    state: &Watched<FeishuState>,
    stream: TcpStream,
    fault: Option<Fault>,
) -> Option<WebSocketStream<TcpStream>> {
    let shared = state.clone();
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = move |request: &Request, response: Response| {
        let refusal = match fault {
            Some(Fault::Handshake {
                status,
                message,
                auth_code,
            }) => Some(Refusal::new(status, message, auth_code)),
            Some(Fault::Status(http)) => Some(Refusal {
                http,
                status: None,
                message: "<html>A page</html>".to_owned(),
                auth_code: None,
            }),
            _ => shared.change(|state| refusal(state, request)),
        };
        match refusal {
            Some(refusal) => Err(refusal.response()),
            None => Ok(response),
        }
    };
    tokio_tungstenite::accept_hdr_async(stream, check)
        .await
        .ok()
}

fn refusal(state: &mut FeishuState, request: &Request) -> Option<Refusal> {
    let query = request.uri().query().unwrap_or_default();
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let refused =
        |message: &str, auth_code| Some(Refusal::new(514, message.to_owned(), Some(auth_code)));
    let is_service = parameter("service_id") == Some(SERVICE.to_string().as_str());
    let ticket = parameter("access_key").unwrap_or_default();
    if !is_service || parameter("device_id").is_none() || !state.tickets.remove(ticket) {
        return refused("invalid connection parameters", 1000040351);
    }
    if state.connections.len() >= state.connection_limit {
        return refused("exceed connection limit", 1000040350);
    }
    None
}
