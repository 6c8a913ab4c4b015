//! The beginning of a connection: the token, and the version that the bridge speaks.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::websocket::Incoming;
use nanobot_channel_kit::{Rest, WebSocket};
use serde_json::json;
use tokio::time::timeout;

use crate::Secret;
use crate::error::CallError;
use crate::frame::{Frame, Version};

/// Time in which a bridge of version 2 answers the token; one of version 1 does not answer.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of pings, and the longest silence of a bridge.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const MAX_SILENCE: Duration = Duration::from_mins(1);
/// Codes with which the bridge closes a connection.
const NO_TOKEN: u16 = 4001;
const WRONG_TOKEN: u16 = 4003;
const SECOND_CLIENT: u16 = 4009;

/// The address of a bridge, and the token for it.
#[derive(Clone, Debug)]
pub(crate) struct BridgeAddress {
    pub(crate) url: String,
    pub(crate) token: Secret,
    /// `true` if nanobot started the bridge, which therefore speaks version 2.
    pub(crate) is_own: bool,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenBridge {
    pub(crate) socket: WebSocket,
    pub(crate) version: Version,
    /// The first frame after the token, if there was one.
    pub(crate) first: Option<Frame>,
}

/// The reason why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// The bridge cannot be reached.
    Unreachable(String),
    /// The bridge does not accept the token.
    WrongToken,
    /// The bridge serves another client.
    InUse,
}

impl From<HandshakeError> for ChannelError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Unreachable(why) => Self::Unavailable(why),
            HandshakeError::WrongToken => {
                let why = "the bridge does not accept the token; check bridgeToken";
                Self::Auth(why.to_owned())
            }
            HandshakeError::InUse => {
                let why = "another program is connected to the bridge, which serves one";
                Self::Conflict(why.to_owned())
            }
        }
    }
}

/// Returns the reason for which the bridge closed a connection; `None` for any other code.
pub(crate) fn closing_reason(code: u16) -> Option<HandshakeError> {
    match code {
        NO_TOKEN | WRONG_TOKEN => Some(HandshakeError::WrongToken),
        SECOND_CLIENT => Some(HandshakeError::InUse),
        _ => None,
    }
}

/// Connects to a bridge within `patience`, and finds out its version.
pub(crate) async fn open(
    rest: &Rest,
    address: &BridgeAddress,
    patience: Duration,
) -> Result<OpenBridge, HandshakeError> {
    let unreachable = |why: String| {
        HandshakeError::Unreachable(rest.scrub(&format!("the bridge cannot be reached: {why}")))
    };
    let socket = WebSocket::open(rest, &address.url, patience).await;
    let socket = socket.map_err(|error: CallError| unreachable(error.to_string()))?;
    let mut socket = socket.with_pings(PING_INTERVAL, MAX_SILENCE);
    let auth = json!({"type": "auth", "token": address.token.expose_exact(), "protocol": 2});
    socket.send(auth.to_string()).await.map_err(unreachable)?;
    let silence = if address.is_own {
        patience
    } else {
        READY_TIMEOUT
    };
    let Ok(first) = timeout(silence, first_frame(&mut socket)).await else {
        if address.is_own {
            return Err(unreachable("it does not answer".to_owned()));
        }
        return Ok(OpenBridge {
            socket,
            version: Version::One,
            first: None,
        });
    };
    let first = first.map_err(|error| match error {
        HandshakeError::Unreachable(why) => unreachable(why),
        error => error,
    })?;
    let version = match &first {
        Frame::Ready(_) => Version::Two,
        _ if address.is_own => return Err(unreachable("it answers oddly".to_owned())),
        _ => Version::One,
    };
    Ok(OpenBridge {
        socket,
        version,
        first: Some(first),
    })
}

async fn first_frame(socket: &mut WebSocket) -> Result<Frame, HandshakeError> {
    loop {
        return match socket.next().await.map_err(HandshakeError::Unreachable)? {
            Incoming::Control => continue,
            Incoming::Text(text) => Frame::parse(&text).map_err(HandshakeError::Unreachable),
            Incoming::Binary(_) => {
                let why = "it sends binary frames".to_owned();
                Err(HandshakeError::Unreachable(why))
            }
            Incoming::Closed(close) => {
                let reason = close.and_then(|(code, _)| closing_reason(code));
                let closed = || HandshakeError::Unreachable("it closed the connection".to_owned());
                Err(reason.unwrap_or_else(closed))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_right_meaning() {
        let error = |code| closing_reason(code).map(ChannelError::from);
        for code in [NO_TOKEN, WRONG_TOKEN] {
            let error = error(code).unwrap();
            assert!(error.to_string().contains("bridgeToken"), "{error}");
            assert!(error.is_permanent());
        }
        let in_use = error(SECOND_CLIENT).unwrap();
        assert!(matches!(in_use, ChannelError::Conflict(_)), "{in_use}");
        assert!(error(1000).is_none() && error(1011).is_none());
    }
}
