//! The client for an API that holds a token, and what its failures mean to a send.
//!
//! Decision: redirects are not followed, because a token must reach no host that was not named, and
//! connections speak HTTP/1.1, because one connection for all would let a dead one stop everything.
//! The types are reqwest's: this is help for channels, not a layer over a client.
//!
//! It does not retry or parse answers.

use std::fmt;
use std::time::Duration;

use nanobot_channel::{ChannelError, chain, json};
use nanobot_tls::HttpVersions;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Response, Url, redirect};

use crate::wrong;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of an API out of the key `apiBase`, without the slash at its end.
///
/// # Errors
/// [`ChannelError::Config`] with `example`, when it is no address.
pub fn api_base(text: &str, example: &str) -> Result<Url, ChannelError> {
    Url::parse(text.trim().trim_end_matches('/'))
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            wrong(
                "apiBase",
                &format!("is no address; write one like {example}"),
            )
        })
}

/// The proxy of a client.
#[derive(Clone, Default)]
pub enum ProxyMode {
    /// Through the proxy that the environment names (`HTTPS_PROXY` and its like), if it names one.
    #[default]
    Env,
    /// Through no proxy.
    Direct,
    /// Through this proxy.
    Explicit(Box<Proxy>),
}

impl ProxyMode {
    /// Reads the channel's own key `proxy`, else the one that all clients share; an empty one means
    /// no proxy. Hosts that `NO_PROXY` excepts are reached directly.
    ///
    /// # Errors
    /// [`ChannelError::Config`], when it is no address of a proxy.
    pub fn new(own: Option<&str>, shared: Option<&str>) -> Result<Self, ChannelError> {
        let Some(address) = own.or(shared).map(str::trim) else {
            return Ok(Self::Env);
        };
        if address.is_empty() {
            return Ok(Self::Direct);
        }
        let unusable = |_| {
            wrong(
                "proxy",
                "is no address of a proxy; write one like http://host:3128 or socks5://host:1080, or \"\" for none",
            )
        };
        let proxy = Proxy::all(address)
            .map_err(unusable)?
            .no_proxy(NoProxy::from_env());
        Ok(Self::Explicit(Box::new(proxy)))
    }

    /// Adds the name and the password for its proxy.
    #[must_use]
    pub fn with_login(self, name: &str, password: &str) -> Self {
        match self {
            Self::Explicit(proxy) => Self::Explicit(Box::new(proxy.basic_auth(name, password))),
            other => other,
        }
    }
}

impl fmt::Debug for ProxyMode {
    /// A proxy may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Env => "Env",
            Self::Direct => "Direct",
            Self::Explicit(_) => "Explicit(_)",
        })
    }
}

/// A client that follows no redirects and keeps to HTTP/1.1, with which WebSockets begin as well.
pub fn client(proxy: &ProxyMode) -> ClientBuilder {
    let builder = nanobot_tls::shared(Client::builder(), HttpVersions::One)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http1_only()
        .redirect(redirect::Policy::none());
    match proxy {
        ProxyMode::Env => builder,
        ProxyMode::Direct => builder.no_proxy(),
        ProxyMode::Explicit(proxy) => builder.proxy(Proxy::clone(proxy)),
    }
}

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The causes of the error, without the layers of the client that every failure passes, and
    /// without the address, which may hold a token. The host is named if there was no connection.
    /// To be scrubbed all the same.
    pub text: String,
    /// The server may have got the request.
    pub may_have_arrived: bool,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let host = error.url().and_then(Url::host_str).map(str::to_owned);
        let error = error.without_url();
        let causes = causes(&error);
        Self {
            text: match host.filter(|_| error.is_connect()) {
                Some(host) => format!("{host}: {causes}"),
                None => causes,
            },
            may_have_arrived: !error.is_connect() && !error.is_builder(),
        }
    }
}

/// Words of the HTTP client for its own layers. They tell a person nothing: the cause follows them.
const LAYERS: [&str; 4] = [
    "error sending request",
    "client error (Connect)",
    "client error (SendRequest)",
    "tcp connect error",
];

/// Words of the HTTP client for a host without an address.
const UNRESOLVED: &str = "dns error";
/// Words of the standard library before those of the operating system about such a host.
const LOOKUP: &str = "failed to lookup address information: ";

/// Formats an error and its causes, without the [`LAYERS`] unless one is the last. The failure to
/// resolve a host is one clause.
fn causes(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source()
        && LAYERS.contains(&error.to_string().as_str())
    {
        error = source;
    }
    if error.to_string() != UNRESOLVED {
        return chain(error);
    }
    while let Some(source) = error.source() {
        error = source;
    }
    let why = error.to_string();
    let why = why.strip_prefix(LOOKUP).unwrap_or(&why);
    format!("the name cannot be resolved ({why})")
}

/// Reads the body of a JSON answer, at most [`json::BODY_LIMIT`] bytes of it.
///
/// A longer answer is cut; reading it as JSON fails then.
///
/// # Errors
/// If the connection breaks before the end of the answer.
pub async fn json_body(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = json::BODY_LIMIT - bytes.len();
        bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() > room {
            break;
        }
    }
    Ok(bytes)
}

/// The body of an answer; `None` when it is larger than `limit` bytes, of which no more is read.
///
/// # Errors
/// Fails if the answer is incomplete.
pub async fn body_within(
    mut response: Response,
    limit: u64,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::http::{Response as Answer, Server};
    use nanobot_testkit::{check_bounded, check_proxy_routes, gzip_bomb};

    use super::*;

    #[test]
    fn invalid_api_base_is_rejected() {
        assert_eq!(
            api_base(" https://x.test/api/ ", "").unwrap().as_str(),
            "https://x.test/api"
        );
        for text in ["", "x.test", "ftp://x.test"] {
            let error = api_base(text, "https://x.test").unwrap_err().to_string();
            assert_eq!(
                error,
                "apiBase: is no address; write one like https://x.test"
            );
        }
    }

    #[tokio::test]
    async fn refused_connection_is_named_by_its_cause() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let client = client(&ProxyMode::Direct).build().unwrap();
        let failure = Failure::from(client.get(address).send().await.unwrap_err());
        assert!(!failure.may_have_arrived);
        let is_layer = |text: &&str| failure.text.contains(*text);
        assert_eq!(LAYERS.iter().find(|text| is_layer(text)), None);
        assert!(failure.text.starts_with("127.0.0.1: "), "{}", failure.text);
        assert!(failure.text.contains("os error"), "{}", failure.text);
    }

    #[test]
    fn answer_is_limited_after_decompression() {
        let test = "http::tests::answer_is_limited_after_decompression";
        check_bounded(test, ["JSON", "file"], |kind| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let bomb = gzip_bomb(512 << 20);
                let server = Server::start(move |_| {
                    let answer = Answer::bytes(200, "application/json", bomb.clone());
                    async { answer.with_header("Content-Encoding", "gzip") }
                });
                let server = server.await.unwrap();
                let client = client(&ProxyMode::Direct).build().unwrap();
                let response = client.get(server.url()).send().await.unwrap();
                match kind {
                    "JSON" => {
                        let body = json_body(response).await.unwrap();
                        assert_eq!(body.len(), json::BODY_LIMIT);
                    }
                    _ => assert_eq!(body_within(response, 20 << 20).await.unwrap(), None),
                }
            });
        })
        .unwrap();
    }

    /// Knows no host.
    struct NoHosts;

    impl reqwest::dns::Resolve for NoHosts {
        fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
            let error = std::io::Error::other(format!("{LOOKUP}Name or service not known"));
            Box::pin(std::future::ready(Err(error.into())))
        }
    }

    #[tokio::test]
    async fn unresolved_host_is_one_clause() {
        let client = client(&ProxyMode::Direct).dns_resolver(std::sync::Arc::new(NoHosts));
        let client = client.build().unwrap();
        let sent = client.get("http://host.invalid/").send().await;
        let expected = "host.invalid: the name cannot be resolved (Name or service not known)";
        assert_eq!(Failure::from(sent.unwrap_err()).text, expected);
    }

    #[test]
    fn empty_proxy_means_direct() {
        let shared = Some("http://me:word@p.test:1");
        let table = [
            (None, None, "Env"),
            (None, shared, "Explicit(_)"),
            (None, Some(""), "Direct"),
            (Some(" "), shared, "Direct"),
            (Some(""), None, "Direct"),
            (shared, Some(""), "Explicit(_)"),
        ];
        for (own, shared, mode) in table {
            let found = ProxyMode::new(own, shared)
                .unwrap()
                .with_login("me", "other");
            assert_eq!(format!("{found:?}"), mode, "{own:?} {shared:?}");
        }
        assert!(ProxyMode::new(Some("http://"), None).is_err());
    }

    #[test]
    fn environment_proxy_applies_only_without_configuration() {
        let test = "http::tests::environment_proxy_applies_only_without_configuration";
        check_proxy_routes(test, "http", |own, server| {
            let client = client(&ProxyMode::new(own, None).unwrap()).build().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(client.get(server).send()).unwrap_err();
        })
        .unwrap();
    }
}
