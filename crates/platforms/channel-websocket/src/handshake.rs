//! Checks of an upgrade request: path, origin, host, token, ids.
//!
//! Decision: a browser sends its page's origin, and pages that are not from this machine or named
//! in the configuration are refused. Without a token the name the page used for this server counts
//! too, since a page can point its own name at this address (DNS rebinding). Programs send no
//! origin; the token is what keeps them out.

use nanobot_channel::ChatId;
use nanobot_listen::host::{is_this_machine, of_header};
use tokio_tungstenite::tungstenite::http::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN,
};
use tokio_tungstenite::tungstenite::http::{StatusCode, Uri};
use url::{Url, form_urlencoded};
use uuid::Uuid;

use crate::WebSocketConfig;
use crate::protocol::is_id;

/// A client that may open a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The name that it claims.
    pub(crate) client_id: String,
    /// The chat that it asks for, or a new one.
    pub(crate) chat_id: ChatId,
}

/// The refusal of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpgradeRefusal {
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// The reason, for the client's programmer.
    pub(crate) detail: &'static str,
}

/// Checks an upgrade request.
pub(crate) fn admit(
    config: &WebSocketConfig,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Guest, UpgradeRefusal> {
    let refuse = |status, detail| Err(UpgradeRefusal { status, detail });
    if uri.path() != config.path {
        return refuse(StatusCode::NOT_FOUND, "nothing is served at this path");
    }
    if let Some(origin) = header(headers, &ORIGIN)
        && !origin_allowed(config, origin)
    {
        return refuse(
            StatusCode::FORBIDDEN,
            "this origin is not in allowedOrigins",
        );
    }
    if config.token.is_empty()
        && !header(headers, &HOST).is_some_and(|host| host_allowed(config, host))
    {
        return refuse(
            StatusCode::FORBIDDEN,
            "this host name is not the server's own",
        );
    }
    let query: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect();
    let said = |key: &str| {
        query
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    };
    let bearer = header(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if !config.token.is_empty()
        && !bearer
            .or_else(|| said("token"))
            .is_some_and(|token| config.token.matches(token))
    {
        return refuse(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
    }
    let chosen = |key| said(key).filter(|value| !value.is_empty());
    if [chosen("client_id"), chosen("chat_id")]
        .into_iter()
        .flatten()
        .any(|value| !is_id(value))
    {
        return refuse(
            StatusCode::BAD_REQUEST,
            "client_id and chat_id are 1 to 128 of A-Z a-z 0-9 . _ : -",
        );
    }
    Ok(Guest {
        client_id: chosen("client_id")
            .map_or_else(|| format!("anonymous-{}", Uuid::new_v4()), str::to_owned),
        chat_id: chosen("chat_id").map_or_else(new_chat, ChatId::from),
    })
}

/// Returns a new chat id.
pub(crate) fn new_chat() -> ChatId {
    ChatId::from(Uuid::new_v4().to_string())
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // A value that is no text counts as a foreign origin.
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or("invalid"))
}

/// `true` if a page of this origin may connect.
fn origin_allowed(config: &WebSocketConfig, origin: &str) -> bool {
    let listed = config.allowed_origins.iter().any(|allowed| {
        allowed == "*" || allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)
    });
    listed
        || Url::parse(origin).is_ok_and(|url| url.host().is_some_and(|host| is_this_machine(&host)))
}

/// `true` if a `Host` header names this server, and no other domain.
fn host_allowed(config: &WebSocketConfig, host: &str) -> bool {
    let Some(host) = of_header(host) else {
        return false;
    };
    let is_host_of = |origin: &String| {
        Url::parse(origin)
            .is_ok_and(|allowed| allowed.host().map(|it| it.to_owned()).as_ref() == Some(&host))
    };
    is_this_machine(&host) || config.allowed_origins.iter().any(is_host_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    type Headers<'a> = &'a [(HeaderName, &'a str)];

    fn status(token: &str, uri: &str, headers: Headers<'_>) -> Result<Guest, u16> {
        let config = WebSocketConfig {
            token: Token::new(token),
            allowed_origins: vec!["https://chat.example.org".to_owned()],
            ..WebSocketConfig::default()
        };
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        admit(&config, &uri.parse().unwrap(), &headers).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn handshake_admits_only_authorised_requests() {
        let table: [(&str, &str, Headers<'_>, Option<u16>); 17] = [
            ("t", "/?token=t", &[], None),
            ("t", "/", &[], Some(401)),
            ("t", "/?token=x", &[], Some(401)),
            ("t", "/", &[(AUTHORIZATION, "Bearer t")], None),
            ("t", "/", &[(AUTHORIZATION, "Basic t")], Some(401)),
            ("t", "/other?token=t", &[], Some(404)),
            ("t", "/?token=t", &[(ORIGIN, "https://evil.org")], Some(403)),
            ("t", "/?token=t", &[(ORIGIN, "null")], Some(403)),
            (
                "t",
                "/?token=t",
                &[(ORIGIN, "https://chat.example.org")],
                None,
            ),
            ("t", "/?token=t", &[(ORIGIN, "http://localhost:3000")], None),
            ("t", "/?token=t", &[(HOST, "evil.org:8765")], None),
            ("t", "/?token=t&client_id=1%7Cann", &[], Some(400)),
            ("", "/", &[(HOST, "127.0.0.1:8765")], None),
            ("", "/", &[(HOST, "[::1]:8765")], None),
            ("", "/", &[(HOST, "evil.org:8765")], Some(403)),
            ("", "/", &[], Some(403)),
            (
                "",
                "/",
                &[(HOST, "127.0.0.1:8765"), (ORIGIN, "http://evil.org:8765")],
                Some(403),
            ),
        ];
        for (token, uri, headers, refused) in table {
            assert_eq!(
                status(token, uri, headers).err(),
                refused,
                "{token} {uri} {headers:?}"
            );
        }
    }

    #[test]
    fn guest_ids_are_taken_from_the_query_or_generated() {
        let named = status("t", "/?token=t&client_id=ann&chat_id=c-1", &[]).unwrap();
        assert_eq!(
            named,
            Guest {
                client_id: "ann".to_owned(),
                chat_id: "c-1".into()
            }
        );
        let (one, other) = (
            status("t", "/?token=t", &[]).unwrap(),
            status("t", "/?token=t", &[]).unwrap(),
        );
        assert_ne!(one.client_id, other.client_id);
        assert_ne!(one.chat_id, other.chat_id);
    }
}
