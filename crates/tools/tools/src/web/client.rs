//! The HTTP clients of the web tools, built when they are first needed.
//!
//! There are two, because they connect by different rules. The *guarded* one fetches URLs named by
//! a model: it resolves through the [`UrlGuard`] at connect time, so that it connects to the
//! address that was checked. The *plain* one talks to services configured by the operator, which
//! may well be on this machine; a redirect of theirs to another origin is followed by the guarded
//! one, without credentials. Neither follows a redirect by itself.
//!
//! With a proxy, the proxy resolves names. They are still checked here first, but the guard cannot
//! control the address that the proxy then connects to.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nanobot_extract::Extract;
use nanobot_guard::{CheckedUrl, UrlGuard, proxy_hosts};
use nanobot_tls::HttpVersions;
use reqwest::{
    Client, ClientBuilder, Method, Proxy, RequestBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::LOCATION,
    redirect,
};
use tokio::sync::Semaphore;
use url::Url;

use super::WebError;
use crate::config::WebConfig;

const DESKTOP: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/140.0.0.0 Safari/537.36";
const CONNECT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
const PROXY_SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// Builds and keeps the clients of the web tools, their guard, and the extractor for downloaded
/// pages. Share one value between the tools.
#[derive(Debug)]
pub struct HttpClients {
    guard: Arc<UrlGuard>,
    extractor: Arc<dyn Extract>,
    /// Proxy URL, empty for none; `None` uses the proxy variables of the environment.
    proxy: Option<String>,
    user_agent: String,
    guarded: OnceLock<Result<Client, String>>,
    plain: OnceLock<Result<Client, String>>,
    /// Serializes requests to DuckDuckGo, which rejects concurrent ones.
    duckduckgo: Semaphore,
}

impl HttpClients {
    /// Creates the set of clients for `config`; builds and opens nothing yet.
    #[must_use]
    pub fn new(config: &WebConfig, guard: Arc<UrlGuard>, extractor: Arc<dyn Extract>) -> Self {
        let user_agent = config
            .user_agent
            .clone()
            .filter(|text| !text.trim().is_empty());
        Self {
            guard,
            extractor,
            proxy: config.proxy.as_deref().map(|proxy| proxy.trim().to_owned()),
            user_agent: user_agent.unwrap_or_else(|| DESKTOP.to_owned()),
            guarded: OnceLock::new(),
            plain: OnceLock::new(),
            duckduckgo: Semaphore::const_new(1),
        }
    }

    /// Returns the guard that decides which URLs may be fetched.
    #[must_use]
    pub const fn guard(&self) -> &Arc<UrlGuard> {
        &self.guard
    }

    /// Returns the extractor for untrusted documents.
    pub(crate) const fn extractor(&self) -> &Arc<dyn Extract> {
        &self.extractor
    }

    /// Returns the client for URLs that a model names and the guard has checked.
    pub(super) fn guarded(&self) -> Result<&Client, String> {
        let build = || {
            let builder = self.builder()?.redirect(redirect::Policy::none());
            // The operator chose the proxy, so its own host name is exempt from the guard.
            let exempt = match self.proxy.as_deref() {
                None | Some("") => proxy_hosts(self.proxy.as_deref()),
                Some(_) => return builder.build().map_err(super::failure),
            };
            let names = GuardedNames {
                guard: Arc::clone(&self.guard),
                exempt,
            };
            builder
                .dns_resolver(Arc::new(names))
                .build()
                .map_err(super::failure)
        };
        self.guarded
            .get_or_init(build)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Requests `target` and follows its redirects until there is a response. The guard checks
    /// every hop, and `check` each redirect before it is requested.
    pub(super) async fn follow<E: From<WebError>>(
        &self,
        mut target: CheckedUrl,
        check: impl Fn(&Url) -> Result<(), E>,
    ) -> Result<(Response, CheckedUrl), E> {
        let client = self.guarded().map_err(WebError::from)?;
        loop {
            let request = client.get(target.url().clone());
            let response = request.send().await.map_err(WebError::from)?;
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok());
            match location.filter(|_| response.status().is_redirection()) {
                Some(location) => {
                    let next = self.guard.redirect(&target, location).await;
                    target = next.map_err(WebError::from)?;
                    check(target.url())?;
                }
                None => return Ok((response, target)),
            }
        }
    }

    /// Returns the client for services that the operator configured; send its requests by
    /// [`ask`](Self::ask).
    pub(super) fn plain(&self) -> Result<&Client, String> {
        let build = || {
            let builder = self.builder()?.redirect(redirect::Policy::none());
            builder.build().map_err(super::failure)
        };
        self.plain.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// Sends a request of the plain client and follows its redirects: to the same origin as they are,
    /// to any other if the guard allows it, without the headers of the request.
    pub(super) async fn ask(&self, request: RequestBuilder) -> Result<Response, WebError> {
        let client = self.plain()?;
        let mut request = request.build()?;
        for _ in 0..=MAX_REDIRECTS {
            let again = request.try_clone();
            let origin = request.url().clone();
            let response = client.execute(request).await?;
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok());
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            let target = origin.join(location).map_err(|error| error.to_string())?;
            let Some(mut next) = again.filter(|request| request.method() == Method::GET) else {
                return Err("the service redirects to another address".to_owned().into());
            };
            if target.origin() != origin.origin() {
                let checked = self.guard.check(target.as_str()).await?;
                let followed = self.follow(checked, |_| Ok::<_, WebError>(()));
                return Ok(followed.await?.0);
            }
            *next.url_mut() = target;
            request = next;
        }
        Err(format!("too many redirects (more than {MAX_REDIRECTS})").into())
    }

    /// Returns the permit for requests to DuckDuckGo.
    pub(super) const fn duckduckgo(&self) -> &Semaphore {
        &self.duckduckgo
    }

    fn builder(&self) -> Result<ClientBuilder, String> {
        let builder = nanobot_tls::shared(Client::builder(), HttpVersions::OneAndTwo)
            .user_agent(&self.user_agent)
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        match self.proxy.as_deref() {
            None => Ok(builder),
            Some("") => Ok(builder.no_proxy()),
            Some(proxy) => Ok(builder.proxy(parsed(proxy)?)),
        }
    }
}

/// Parses the configured proxy; without a scheme it is an HTTP proxy.
fn parsed(proxy: &str) -> Result<Proxy, String> {
    let address = if proxy.contains("://") {
        proxy.to_owned()
    } else {
        format!("http://{proxy}")
    };
    let known = |url: &Url| PROXY_SCHEMES.contains(&url.scheme()) && url.has_host();
    let proxy = Url::parse(&address)
        .ok()
        .filter(known)
        .and_then(|url| Proxy::all(url).ok());
    proxy.ok_or_else(|| {
        // The proxy URL may contain a password, so it is not repeated.
        format!(
            "tools.web.proxy is not a URL with one of the schemes {}",
            PROXY_SCHEMES.join(", ")
        )
    })
}

/// DNS resolver that asks the guard.
#[derive(Debug)]
struct GuardedNames {
    guard: Arc<UrlGuard>,
    exempt: Vec<String>,
}

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.guard);
        let mut exempt = self.exempt.iter();
        let exempt = exempt.any(|host| host.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let addresses: Addrs = if exempt {
                let found: io::Result<Vec<_>> = tokio::net::lookup_host((name.as_str(), 0))
                    .await
                    .map(Iterator::collect);
                Box::new(found?.into_iter())
            } else {
                let found = guard.addresses(name.as_str()).await?;
                Box::new(found.into_iter().map(|address| (address, 0).into()))
            };
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::{InProcess, check_proxy_routes};

    use super::*;

    #[test]
    fn environment_proxy_is_used_only_without_a_configured_one() {
        let test = "web::client::tests::environment_proxy_is_used_only_without_a_configured_one";
        check_proxy_routes(test, "http", |own, server| {
            let config = WebConfig {
                proxy: own.map(str::to_owned),
                ..WebConfig::default()
            };
            let clients =
                HttpClients::new(&config, Arc::new(UrlGuard::default()), Arc::new(InProcess));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            for client in [clients.plain().unwrap(), clients.guarded().unwrap()] {
                runtime.block_on(client.get(server).send()).unwrap_err();
            }
        })
        .unwrap();
    }
}
