//! The HTTP server of the health endpoint.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::get;
use nanobot_listen::{SeatLimits, host, http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{HealthReport, HealthSource};

/// Few monitors connect, and connections must not use up the descriptors of the process.
const CONNECTION_LIMITS: SeatLimits = SeatLimits {
    total: 64,
    per_address: 32,
};

/// Length below which a token is considered guessable, in characters.
const SHORT_TOKEN: usize = 16;

/// Address and token of the endpoint.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerConfig {
    /// Address to listen on: an IP address, or `localhost`.
    pub host: String,
    /// Port to listen on; 0 chooses a free one.
    pub port: u16,
    /// Token that clients send as `Authorization: Bearer …`. Required to bind any address but
    /// loopback.
    pub token: String,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 18790,
            token: String::new(),
        }
    }
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Reason why the endpoint cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The host is not an IP address.
    #[error("gateway.host: {host:?} is not an IP address; write 127.0.0.1 or 0.0.0.0")]
    Host {
        /// The configured host.
        host: String,
    },
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}; choose another gateway.port or stop what uses it")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// A bound endpoint.
#[derive(Debug)]
pub struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Arc<str>>,
}

#[derive(Clone)]
struct ServerHealth {
    source: Arc<dyn HealthSource>,
    token: Option<Arc<str>>,
}

impl HealthServer {
    /// Binds the address. A host that others can reach is replaced by loopback if there is no
    /// token.
    ///
    /// # Errors
    /// Returns [`ServerError`] if the host is invalid or cannot be bound.
    pub async fn bind(config: &ServerConfig) -> Result<Self, ServerError> {
        let token = (!config.token.is_empty()).then(|| Arc::from(config.token.as_str()));
        let mut host = parse_host(&config.host)?;
        if !host.is_loopback() && token.is_none() {
            tracing::warn!(%host, "gateway.host can be reached by others but gateway.token is empty: binding 127.0.0.1");
            host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        }
        let address = SocketAddr::new(host, config.port);
        let bind_error = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        Ok(Self {
            listener,
            address,
            token,
        })
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `true` for a token that is short enough to guess, but `false` for no token at all.
    #[must_use]
    pub fn has_short_token(config: &ServerConfig) -> bool {
        !config.token.is_empty() && config.token.chars().count() < SHORT_TOKEN
    }

    /// Serves until `cancel` is cancelled. Requests in progress then have one second to finish.
    pub async fn serve(self, source: Arc<dyn HealthSource>, cancel: CancellationToken) {
        if self
            .token
            .as_ref()
            .is_some_and(|token| token.chars().count() < SHORT_TOKEN)
        {
            tracing::warn!(
                "gateway.token is shorter than {SHORT_TOKEN} characters: it can be guessed"
            );
        }
        let router = Router::new()
            .route("/health", get(health))
            .with_state(ServerHealth {
                source,
                token: self.token,
            });
        http::serve(self.listener, router, CONNECTION_LIMITS, cancel).await;
    }
}

fn parse_host(host: &str) -> Result<IpAddr, ServerError> {
    match host.trim() {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        other => {
            let trimmed = other.trim_start_matches('[').trim_end_matches(']');
            trimmed.parse().ok().ok_or_else(|| ServerError::Host {
                host: host.to_owned(),
            })
        }
    }
}

async fn health(State(shared): State<ServerHealth>, headers: HeaderMap) -> Response {
    if shared.token.is_none() && !names_this_machine(&headers) {
        let why = "this host name is not the server's own: use localhost, or set gateway.token";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    if !is_authorized(&shared, &headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let report: HealthReport = shared.source.health();
    let status = if report.is_healthy() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(report)).into_response()
}

fn is_authorized(shared: &ServerHealth, headers: &HeaderMap) -> bool {
    let Some(token) = &shared.token else {
        return true;
    };
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    given
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|given| constant_time_eq(given.as_bytes(), token.as_bytes()))
}

/// Returns `true` if the request names this machine. A web page can point its own name at it (DNS
/// rebinding). If there is a token, that keeps such a page out.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut names = headers.get_all(header::HOST).iter();
    let (Some(name), None) = (names.next(), names.next()) else {
        return false;
    };
    name.to_str()
        .ok()
        .and_then(host::of_header)
        .is_some_and(|host| host::is_this_machine(&host))
}

/// Compares in constant time for values of equal length.
fn constant_time_eq(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given
            .iter()
            .zip(wanted)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ChannelHealth;

    struct Fixed(&'static str);

    impl HealthSource for Fixed {
        fn health(&self) -> HealthReport {
            let channel = ChannelHealth {
                state: self.0.to_owned(),
                why: None,
                since: None,
            };
            HealthReport {
                version: "1".to_owned(),
                uptime_s: 2,
                channels: BTreeMap::from([("telegram".into(), channel)]),
            }
        }
    }

    async fn ask(config: &ServerConfig, state: &'static str, token: Option<&str>) -> (u16, String) {
        drop(rustls::crypto::ring::default_provider().install_default());
        let server = HealthServer::bind(config).await.unwrap();
        let url = format!("http://{}/health", server.address());
        let cancel = CancellationToken::new();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = client.get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let serving = server.serve(Arc::new(Fixed(state)), cancel.clone());
        let asking = async {
            let response = request.send().await.unwrap();
            let answer = (response.status().as_u16(), response.text().await.unwrap());
            cancel.cancel();
            answer
        };
        tokio::join!(serving, asking).1
    }

    #[tokio::test]
    async fn health_reports_channels_and_fails_if_one_failed() {
        let config = ServerConfig {
            port: 0,
            ..ServerConfig::default()
        };
        let body = r#"{"version":"1","uptime_s":2,"channels":{"telegram":{"state":"running"}}}"#;
        assert_eq!(ask(&config, "running", None).await, (200, body.to_owned()));
        assert_eq!(ask(&config, "failed", None).await.0, 503);
    }

    #[tokio::test]
    async fn public_address_without_token_becomes_loopback() {
        let open = ServerConfig {
            host: "0.0.0.0".to_owned(),
            port: 0,
            ..ServerConfig::default()
        };
        assert!(
            HealthServer::bind(&open)
                .await
                .unwrap()
                .address()
                .ip()
                .is_loopback()
        );
        let guarded = ServerConfig {
            token: "secret".to_owned(),
            ..open
        };
        assert!(
            !HealthServer::bind(&guarded)
                .await
                .unwrap()
                .address()
                .ip()
                .is_loopback()
        );
        assert_eq!(
            ask(
                &ServerConfig {
                    host: "localhost".to_owned(),
                    ..guarded.clone()
                },
                "running",
                None
            )
            .await
            .0,
            401
        );
        if std::net::TcpListener::bind("[::1]:0").is_err() {
            eprintln!("SKIPPED: this machine has no IPv6");
            return;
        }
        assert_eq!(
            ask(
                &ServerConfig {
                    host: "::1".to_owned(),
                    ..guarded
                },
                "running",
                Some("secret")
            )
            .await
            .0,
            200
        );
    }
}
