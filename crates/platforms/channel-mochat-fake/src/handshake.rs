//! Handshakes of the socket: the WebSocket transport of Engine.IO 4, without upgrades.

use nanobot_testkit::Watched;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use url::form_urlencoded;

use crate::fault::Fault;
use crate::state::MochatState;

/// Accepts a client that asks for the right transport.
pub(crate) async fn greet(
    state: &Watched<MochatState>,
    stream: TcpStream,
    fault: Option<Fault>,
) -> Option<WebSocketStream<TcpStream>> {
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = |request: &Request, response: Response| {
        if let Some(Fault::Status(status)) = fault {
            return Err(refusal(status, "<html>A page</html>"));
        }
        let query = request.uri().query().unwrap_or_default();
        match state.change(|state| state.check_handshake(request.uri().path(), query)) {
            Ok(()) => Ok(response),
            Err((status, message)) => Err(refusal(status, message)),
        }
    };
    tokio_tungstenite::accept_hdr_async(stream, check)
        .await
        .ok()
}

fn refusal(status: u16, message: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(message.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

impl MochatState {
    pub(crate) fn check_handshake(
        &mut self,
        path: &str,
        query: &str,
    ) -> Result<(), (u16, &'static str)> {
        if path != format!("{}/", self.socket_path) {
            self.complain(&format!("socket: a handshake at {path}"));
            return Err((404, "not found"));
        }
        let mut transport = String::new();
        let mut version = String::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "transport" => transport = value.into_owned(),
                "EIO" => version = value.into_owned(),
                // Some clients add the time against caches.
                "t" => {}
                other => self.complain(&format!("socket: the unknown parameter {other}")),
            }
        }
        let refusal = if transport != "websocket" {
            r#"{"code":0,"message":"Transport unknown"}"#
        } else if version != "4" {
            r#"{"code":5,"message":"Unsupported protocol version"}"#
        } else {
            return Ok(());
        };
        self.complain(&format!("socket: a handshake with {query}"));
        Err((400, refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_websockets_of_engine_io_4_are_accepted() {
        let right = "EIO=4&transport=websocket";
        let table = [
            ("/socket.io/", right, 0),
            ("/socket.io/", "transport=websocket&EIO=4&t=1", 0),
            ("/socket.io", right, 404),
            ("/", right, 404),
            ("/socket.io/", "EIO=3&transport=websocket", 400),
            ("/socket.io/", "EIO=4&transport=polling", 400),
            ("/socket.io/", "", 400),
        ];
        let mut state = MochatState::default();
        for (path, query, status) in table {
            let refused = state.check_handshake(path, query);
            let refused = refused.err().map_or(0, |(status, _)| status);
            assert_eq!(refused, status, "{path}?{query}");
        }
        assert_eq!(state.complaints.len(), 5);
        let token = format!("{right}&token=x");
        assert_eq!(state.check_handshake("/socket.io/", &token), Ok(()));
        let complaint = "socket: the unknown parameter token";
        assert_eq!(state.complaints.last().map(String::as_str), Some(complaint));
    }
}
