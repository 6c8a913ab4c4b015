//! Handshakes of the gateway.

use nanobot_testkit::Watched;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use url::form_urlencoded;

use crate::connection::Subscription;
use crate::fault::Fault;
use crate::state::DingTalkState;

/// Accepts a client that has a ticket, and returns its subscriptions, too.
pub(crate) async fn greet(
    state: &Watched<DingTalkState>,
    stream: TcpStream,
    fault: Option<Fault>,
) -> Option<(WebSocketStream<TcpStream>, Vec<Subscription>)> {
    let mut subscriptions = Vec::new();
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is tungstenite's"
    )]
    let check = |request: &Request, response: Response| {
        if let Some(Fault::Status(status)) = fault {
            return Err(refusal(status, "<html>A page</html>"));
        }
        match state.change(|state| state.redeem(request)) {
            Some(found) => {
                subscriptions = found;
                Ok(response)
            }
            None => Err(refusal(401, "invalid ticket")),
        }
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, check).await;
    Some((socket.ok()?, subscriptions))
}

fn refusal(status: u16, message: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(message.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

impl DingTalkState {
    /// Takes the ticket of a handshake. A ticket is good for one connection, for a short time.
    fn redeem(&mut self, request: &Request) -> Option<Vec<Subscription>> {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let ticket = pairs.find(|(name, _)| name == "ticket")?.1.into_owned();
        let now = self.now();
        let ticket = self.tickets.remove(&ticket)?;
        let is_good = request.uri().path() == "/connect" && ticket.expires > now;
        is_good.then_some(ticket.subscriptions)
    }
}
