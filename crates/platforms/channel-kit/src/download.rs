//! Downloads of files at addresses that a platform names.
//!
//! Decision: such an address comes from a message, so it follows the rules of web tools: public
//! addresses only, judged by the [`UrlGuard`]. Literal addresses, `localhost` names, ports and
//! metadata services are checked before the request. Other names are checked when they are
//! resolved for the connection, so that the address that was checked is the one connected to (DNS
//! rebinding). A proxy resolves names itself, so through a proxy only the first check applies. The
//! operator wrote the address of the API, so files at its host and port may be private. Redirects
//! are not followed.
//!
//! It does not read the answer: headers, limits and content differ between platforms.

use std::error::Error as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use nanobot_channel::async_trait;
use nanobot_guard::{Resolver, SystemResolver, UrlDenied, UrlGuard, canonical, proxy_hosts};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, Response, Url};

use crate::call::CallError;
use crate::rest::{FILE_TIMEOUT, Rest};

/// Begins downloads from the hosts of a platform's API and from public addresses.
#[derive(Debug)]
pub struct Downloads {
    /// Addresses of the API, at whose hosts and ports files may be private.
    own: Vec<Url>,
    /// `true` if all ports of this machine belong to the platform.
    is_local: bool,
    /// Checks an address without a lookup.
    literal: UrlGuard,
    /// Host names of the proxies, which may be private.
    proxies: Vec<String>,
    public: Rest,
}

impl Downloads {
    /// Creates the downloads of the platform whose API is at the base of `rest`, which becomes the
    /// client for all other hosts. `proxy` is the configured proxy of `rest`, if any; files may be
    /// in the `opened` networks, too. Does no I/O.
    #[must_use]
    pub fn new(rest: Rest, proxy: Option<&str>, opened: &[IpNet]) -> Self {
        Self::with_resolver(rest, proxy, opened, Arc::new(SystemResolver))
    }

    fn with_resolver(
        rest: Rest,
        proxy: Option<&str>,
        opened: &[IpNet],
        resolver: Arc<dyn Resolver>,
    ) -> Self {
        let guard = UrlGuard::new(resolver, opened.to_vec());
        let proxies = proxy_hosts(proxy);
        let names = Arc::new(GuardedNames {
            guard,
            proxies: proxies.clone(),
        });
        Self {
            own: vec![rest.base().clone()],
            is_local: false,
            literal: UrlGuard::new(Arc::new(NoLookup), opened.to_vec()),
            proxies,
            public: rest.configure_client(move |builder| builder.dns_resolver(Arc::clone(&names))),
        }
    }

    /// Allows private files at the host and port of another configured address of the platform.
    #[must_use]
    pub fn with_origin(mut self, base: &Url) -> Self {
        self.own.push(base.clone());
        self
    }

    /// Allows files at every port of this machine if the API is on this machine: the whole platform
    /// is local then. For platforms whose files never have the port of the API.
    #[must_use]
    pub fn with_local_ports(mut self) -> Self {
        self.is_local = self.own.iter().any(is_this_machine);
        self
    }

    /// Begins a download, without any token. `api` is the client for files at the API's own host.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] naming the host, if its address is not public, and those of
    /// [`Rest::send`].
    pub async fn begin<R>(&self, api: &Rest, address: Url) -> Result<Response, CallError<R>> {
        let timeout = api.timeout() + FILE_TIMEOUT;
        if self.is_own(&address) {
            let request = api.request_to(Method::GET, address)?;
            return api.send(request.timeout(timeout)).await;
        }
        let host = address.host_str().unwrap_or_default().to_owned();
        if self.proxies.contains(&host) {
            return Err(refusal(&host, "it is the proxy"));
        }
        self.check(&address)
            .await
            .map_err(|denied| refusal(&host, &denied.to_string()))?;
        let request = self.public.request_to(Method::GET, address)?;
        let sent = request.timeout(timeout).send().await;
        sent.map_err(|error| match denied(&error) {
            Some(denied) => refusal(&host, &denied.to_string()),
            None => self.public.failure(error),
        })
    }

    /// Drops the client for public addresses and its connections.
    pub fn renew(&self) {
        self.public.renew();
    }

    fn is_own(&self, address: &Url) -> bool {
        let origin = |url: &Url| {
            (
                url.host_str().map(str::to_owned),
                url.port_or_known_default(),
            )
        };
        let is_own = self.own.iter().any(|own| origin(own) == origin(address));
        is_own || (self.is_local && is_this_machine(address))
    }

    /// Checks everything about an address that needs no lookup.
    async fn check(&self, address: &Url) -> Result<(), UrlDenied> {
        match self.literal.check(address.as_str()).await {
            Err(unresolved) if unresolved.is_transient() => Ok(()),
            checked => checked.map(drop),
        }
    }
}

fn refusal<R>(host: &str, reason: &str) -> CallError<R> {
    CallError::Unreachable(format!("no file is fetched from {host}: {reason}"))
}

/// Returns the refusal of the guard that ended a request; `None` if the guard did not refuse.
fn denied(error: &reqwest::Error) -> Option<&UrlDenied> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(denied) = error.downcast_ref::<UrlDenied>() {
            return Some(denied).filter(|denied| !denied.is_transient());
        }
        source = error.source();
    }
    None
}

/// `true` if an address leads to this machine by its text.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    match literal.parse::<IpAddr>() {
        Ok(address) => canonical(address).is_loopback(),
        Err(_) => is_localhost(host),
    }
}

/// `true` for the names of RFC 6761, section 6.3, which no name server is asked for.
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Knows the address of `localhost` names, and no other.
#[derive(Debug)]
struct NoLookup;

#[async_trait]
impl Resolver for NoLookup {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ok(is_localhost(host).then_some(here).into_iter().collect())
    }
}

/// Resolves names through the guard at the moment of connecting, except those of the proxies.
#[derive(Debug)]
struct GuardedNames {
    guard: UrlGuard,
    proxies: Vec<String>,
}

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.guard.clone();
        let mut proxies = self.proxies.iter();
        let is_proxy = proxies.any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let found = match is_proxy {
                true => SystemResolver.resolve(name.as_str()).await?,
                false => guard.addresses(name.as_str()).await?,
            };
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use nanobot_testkit::Watched;
    use nanobot_testkit::corpus::{self, CorpusRow};
    use nanobot_testkit::http::{Response as Answer, Server};

    use super::*;
    use crate::http::ProxyMode;

    type Error = CallError<String>;

    /// Answers lookups by a script, and records them.
    #[derive(Debug, Default)]
    struct Script {
        answers: HashMap<String, Vec<IpAddr>>,
        lookups: Mutex<Vec<String>>,
    }

    impl Script {
        fn new(answers: &[(&str, &str)]) -> Arc<Self> {
            let answers = answers.iter();
            let answers = answers.map(|(name, to)| ((*name).to_owned(), vec![to.parse().unwrap()]));
            Arc::new(Self {
                answers: answers.collect(),
                ..Self::default()
            })
        }

        /// The first answers of a row.
        fn of(row: &CorpusRow) -> Arc<Self> {
            let answers = row.json["dns"].as_object().into_iter().flatten();
            let answers = answers.map(|(name, lists)| {
                let first = serde_json::from_value(lists[0].clone()).unwrap();
                (name.clone(), first)
            });
            Arc::new(Self {
                answers: answers.collect(),
                ..Self::default()
            })
        }
    }

    #[async_trait]
    impl Resolver for Script {
        async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            self.lookups.lock().unwrap().push(host.to_owned());
            let known = self.answers.get(host).or_else(|| self.answers.get("*"));
            known.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    fn rest(base: &str, proxy: &str) -> Rest {
        let proxy = ProxyMode::new(Some(proxy), None).unwrap();
        Rest::new(base, "", proxy, Duration::from_secs(20)).unwrap()
    }

    /// Downloads without a proxy, of a platform at `base`.
    fn direct(base: &str, names: Arc<dyn Resolver>, opened: &[IpNet]) -> (Downloads, Rest) {
        let downloads = Downloads::with_resolver(rest(base, ""), Some(""), opened, names);
        (downloads, rest(base, ""))
    }

    /// A server that records the targets of its requests.
    async fn server() -> (Server, Watched<Vec<String>>) {
        let asked = Watched::new(Vec::new());
        let noted = asked.clone();
        let server = Server::start(move |request| {
            noted.change(|asked: &mut Vec<String>| asked.push(request.target.clone()));
            async { Answer::bytes(200, "text/plain", "x") }
        });
        (server.await.unwrap(), asked)
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    const API: &str = "https://api.example/v1";

    #[tokio::test]
    async fn denied_rows_of_the_corpus_are_refused() {
        let rows = corpus::rows("ssrf").unwrap();
        let mut failed = Vec::new();
        // The first answer to those two is public, and redirects are not followed.
        let is_checked = |row: &&CorpusRow| {
            row.text("expect") == "deny" && !["redirect", "dns-rebind"].contains(&row.text("cls"))
        };
        for row in rows.iter().filter(is_checked) {
            let Ok(address) = Url::parse(row.text("url")) else {
                continue;
            };
            let script = Script::of(row);
            let (downloads, api) = direct(API, script.clone(), &[]);
            let host = address.host_str().unwrap_or_default().to_owned();
            let error: Error = downloads.begin(&api, address).await.unwrap_err();
            let error = error.to_string();
            // The host of one row is too long for a request.
            let is_built = !error.starts_with("builder error");
            if is_built && !error.starts_with(&format!("no file is fetched from {host}: ")) {
                failed.push(format!("{} {error}", row.id));
            }
        }
        assert_eq!(failed, Vec::<String>::new());
    }

    #[tokio::test]
    async fn allowed_rows_of_the_corpus_pass_the_check() {
        let (downloads, _) = direct(API, Arc::new(SystemResolver), &[]);
        for row in corpus::rows("ssrf").unwrap() {
            if row.text("expect") == "allow" && row.text("cls") == "public" {
                let checked = downloads.check(&url(row.text("url"))).await;
                assert!(checked.is_ok(), "{}", row.id);
            }
        }
    }

    #[tokio::test]
    async fn name_is_resolved_once_and_checked_then() {
        let (server, asked) = server().await;
        let file = url(&format!(
            "http://files.example:{}/a",
            server.address().port()
        ));
        let answers = [("files.example", "127.0.0.1")];
        // Opened in place of a public address.
        let opened = ["127.0.0.1/32".parse().unwrap()];
        let script = Script::new(&answers);
        let (downloads, api) = direct(API, script.clone(), &opened);
        let answer = downloads.begin::<String>(&api, file.clone()).await;
        assert!(answer.unwrap().status().is_success());
        assert_eq!(*script.lookups.lock().unwrap(), ["files.example"]);
        let (downloads, api) = direct(API, Script::new(&answers), &[]);
        let error: Error = downloads.begin(&api, file).await.unwrap_err();
        let expected = "no file is fetched from files.example: host 'files.example' is the private \
             or internal address 127.0.0.1";
        assert_eq!(error.to_string(), expected);
        assert_eq!(asked.read(Clone::clone), ["/a"]);
    }

    #[tokio::test]
    async fn private_files_are_fetched_from_configured_hosts_and_ports_only() {
        let ((api_server, at_api), (other, at_other)) = (server().await, server().await);
        let (base, file) = (api_server.url(), url(&format!("{}/b", other.url())));
        let fetch = async |downloads: Downloads, file: &Url| {
            let began = downloads.begin(&rest(&base, ""), file.clone()).await;
            began.map(drop).map_err(|error: Error| error.to_string())
        };
        let downloads = || direct(&base, Arc::new(SystemResolver), &[]).0;
        fetch(downloads(), &url(&format!("{base}/a")))
            .await
            .unwrap();
        fetch(downloads(), &file).await.unwrap_err();
        assert_eq!(at_other.read(Vec::len), 0);
        fetch(downloads().with_origin(&url(&other.url())), &file)
            .await
            .unwrap();
        fetch(downloads().with_local_ports(), &file).await.unwrap();
        // An API elsewhere does not open this machine.
        let remote = direct(API, Arc::new(SystemResolver), &[]).0;
        fetch(remote.with_local_ports(), &file).await.unwrap_err();
        assert_eq!(at_api.read(Clone::clone), ["/a"]);
        assert_eq!(at_other.read(Clone::clone), ["/b", "/b"]);
    }

    #[tokio::test]
    async fn proxy_is_asked_for_names_only() {
        let (proxy, asked) = server().await;
        // The name of the proxy is private, unlike those of files.
        let proxy = format!("http://localhost:{}", proxy.address().port());
        let names = Script::new(&[]);
        let downloads = Downloads::with_resolver(rest(API, &proxy), Some(&proxy), &[], names);
        let api = rest(API, &proxy);
        for (address, is_fetched) in [
            ("http://files.example/a", true),
            ("http://8.8.8.8/b", true),
            ("http://10.0.0.1/", false),
            ("http://[::ffff:127.0.0.1]/", false),
            ("http://localhost/", false),
            ("http://A.localhost./", false),
            ("http://metadata.google.internal/", false),
            ("http://files.example:22/", false),
        ] {
            let began = downloads.begin::<String>(&api, url(address)).await;
            assert_eq!(began.is_ok(), is_fetched, "{address}");
        }
        let expected = ["http://files.example/a", "http://8.8.8.8/b"];
        assert_eq!(asked.read(Clone::clone), expected);
    }

    #[tokio::test]
    async fn no_file_is_fetched_from_the_proxy_itself() {
        let (proxy, asked) = server().await;
        let proxy = proxy.url().replace("127.0.0.1", "proxy.example");
        let downloads = Downloads::new(rest(API, &proxy), Some(&proxy), &[]);
        let (api, file) = (rest(API, &proxy), url(&format!("{proxy}/a")));
        let error: Error = downloads.begin(&api, file).await.unwrap_err();
        let expected = "no file is fetched from proxy.example: it is the proxy";
        assert_eq!(error.to_string(), expected);
        assert_eq!(asked.read(Vec::len), 0);
    }
}
