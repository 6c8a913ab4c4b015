//! HTTP clients shared by all providers, each built on first use.
//!
//! Decision: servers on this machine get their own client, which uses no proxy and loads no
//! certificates. Redirects are not followed: a model API has no reason to send a key elsewhere.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use nanobot_provider::ProviderError;
use nanobot_tls::HttpVersions;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Shared HTTP clients. A process needs one instance.
#[derive(Default)]
pub struct HttpClients {
    proxy_mode: ProxyMode,
    remote: OnceLock<Client>,
    local: OnceLock<Client>,
}

/// Proxy mode for remote servers.
#[derive(Default)]
enum ProxyMode {
    #[default]
    Env,
    Direct,
    Custom(Box<Proxy>),
}

/// Omits the proxy, whose address may contain a password.
impl fmt::Debug for HttpClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_proxy = matches!(self.proxy_mode, ProxyMode::Custom(_));
        f.debug_struct("HttpClients")
            .field("has_proxy", &has_proxy)
            .finish_non_exhaustive()
    }
}

/// Error for a proxy address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("web.proxy is not a valid proxy address (http://host:port or socks5://host:port): {0}")]
pub struct ProxyError(String);

impl ProxyError {
    /// Returns the problem, without the address.
    pub(crate) fn reason(&self) -> &str {
        &self.0
    }
}

impl HttpClients {
    /// Creates clients that use this proxy, or no proxy if it is empty. With `None` they use the
    /// proxy from the environment.
    ///
    /// # Errors
    /// Returns [`ProxyError`] if the address is invalid.
    pub fn new(proxy: Option<&str>) -> Result<Self, ProxyError> {
        let proxy_mode = match proxy.map(str::trim) {
            None => ProxyMode::Env,
            Some("") => ProxyMode::Direct,
            Some(address) => {
                let proxy = Proxy::all(address)
                    .map_err(|error| ProxyError(innermost(&error.without_url())))?;
                ProxyMode::Custom(Box::new(proxy.no_proxy(NoProxy::from_env())))
            }
        };
        Ok(Self {
            proxy_mode,
            ..Self::default()
        })
    }

    /// Returns the client for this address.
    ///
    /// # Errors
    /// Returns [`ProviderError::Network`] if the client cannot be built.
    pub(crate) fn client_for(&self, url: &Url) -> Result<Client, ProviderError> {
        if is_local(url) {
            return built(&self.local, || common().no_proxy().tls_certs_only([]));
        }
        let remote = || nanobot_tls::shared(common(), HttpVersions::OneAndTwo);
        built(&self.remote, || match &self.proxy_mode {
            ProxyMode::Env => remote(),
            ProxyMode::Direct => remote().no_proxy(),
            ProxyMode::Custom(proxy) => remote().proxy(Proxy::clone(proxy)),
        })
    }
}

fn common() -> ClientBuilder {
    nanobot_tls::install_provider();
    Client::builder()
        .user_agent(concat!("nanobot/", env!("CARGO_PKG_VERSION")))
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_LIMIT)
        .redirect(Policy::none())
}

fn built(
    cell: &OnceLock<Client>,
    builder: impl FnOnce() -> ClientBuilder,
) -> Result<Client, ProviderError> {
    if let Some(client) = cell.get() {
        return Ok(client.clone());
    }
    let client = builder().build().map_err(|error| {
        ProviderError::Network(format!(
            "the HTTP client cannot be set up: {}",
            innermost(&error)
        ))
    })?;
    Ok(cell.get_or_init(|| client).clone())
}

/// Returns `true` for plain HTTP to this machine.
fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    url.scheme() == "http" && matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Returns the address of a method of the API.
pub(crate) fn endpoint_url(mut base: Url, method: &str) -> Url {
    let path = format!("{}/{method}", base.path().trim_end_matches('/'));
    base.set_path(&path);
    base
}

/// Describes an error of a request to `url` for the user, without path, query or key.
pub(crate) fn network_error(url: &Url, error: reqwest::Error) -> ProviderError {
    let origin = url.origin().ascii_serialization();
    let error = error.without_url();
    let what = if error.is_connect() {
        format!("cannot reach {origin}")
    } else {
        format!("talking to {origin} failed")
    };
    ProviderError::Network(format!("{what} ({})", innermost(&error)))
}

/// Returns the innermost cause, which is the specific one; the outer errors only say that there was
/// one.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::check_proxy_routes;

    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        let table = [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1:8000", true),
            ("http://[::1]:8000", true),
            ("https://localhost/v1", false),
            ("http://localhost.example.org/v1", false),
            ("http://192.168.0.2/v1", false),
        ];
        for (url, expected) in table {
            assert_eq!(is_local(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn a_bad_proxy_is_refused() {
        assert!(HttpClients::new(Some("::not a url::")).is_err());
        let clients = HttpClients::new(Some("socks5://me:secret@127.0.0.1:1080")).unwrap();
        assert_eq!(
            format!("{clients:?}"),
            "HttpClients { has_proxy: true, .. }"
        );
        assert!(HttpClients::new(Some(" ")).is_ok());
    }

    #[test]
    fn environment_proxy_is_used_only_without_a_configured_one() {
        let test = "client::tests::environment_proxy_is_used_only_without_a_configured_one";
        // HTTPS, because plain HTTP to this machine never uses a proxy.
        check_proxy_routes(test, "https", |own, server| {
            let (clients, server) = (HttpClients::new(own).unwrap(), Url::parse(server).unwrap());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime
                .block_on(clients.client_for(&server).unwrap().get(server).send())
                .unwrap_err();
        })
        .unwrap();
    }
}
