//! The URL guard.
//!
//! A URL is parsed once by the WHATWG rules, so that `0x7f000001` or `①②⑦.0.0.1` is the address
//! that a browser would connect to. Its host is resolved once, and *every* resolved address has to
//! be public. The result is a [`CheckedUrl`] with the addresses that were checked. A caller
//! connects to those or calls [`UrlGuard::addresses`] at the moment of connecting; a second
//! unchecked lookup would allow DNS rebinding. Each redirect is checked again, and redirects are
//! counted here for all callers.
//!
//! URLs that the operator wrote into the configuration (a model server on this machine, say) are
//! not checked: the guard is for URLs supplied by a model, a message or a page.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::IpNet;
use url::{Host, Url};

use crate::{
    address::{canonical, contained, is_metadata, is_public},
    denied::UrlDenied,
    resolver::{Resolver, SystemResolver},
};

/// Maximum number of redirects of a [`CheckedUrl`].
pub const MAX_REDIRECTS: u8 = 5;

/// Names of cloud metadata services, whatever they resolve to.
const METADATA_NAMES: [&str; 4] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
];

/// Ports of services that are not web servers: the list of the Fetch standard, and common data
/// stores and container daemons.
const CLOSED_PORTS: [u16; 94] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 3306, 3659, 4045, 4190, 5060, 5061, 5432,
    5672, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 10080, 11211, 27017,
    27018,
];

/// A URL that may be fetched now, with the addresses that were checked for it.
#[derive(Debug, Clone)]
#[must_use]
pub struct CheckedUrl {
    url: Url,
    addresses: Vec<SocketAddr>,
    redirects: u8,
}

impl CheckedUrl {
    /// Returns the URL in its normalized form.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the addresses to connect to: at least one, each of them checked.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Decides which URLs this program may fetch on behalf of a model, a message or a page.
#[derive(Debug, Clone)]
pub struct UrlGuard {
    resolver: Arc<dyn Resolver>,
    opened: Vec<IpNet>,
}

impl Default for UrlGuard {
    /// Allows the public internet, with the system's resolver.
    fn default() -> Self {
        Self::new(Arc::new(SystemResolver), Vec::new())
    }
}

impl UrlGuard {
    /// Creates a guard that uses `resolver` and allows the networks in `opened` in addition to the
    /// public internet. Metadata services stay closed even there.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, opened: Vec<IpNet>) -> Self {
        Self { resolver, opened }
    }

    /// Parses, resolves and checks `url`.
    ///
    /// # Errors
    /// Returns the first rule that the URL violates.
    pub async fn check(&self, url: &str) -> Result<CheckedUrl, UrlDenied> {
        self.check_hop(Url::parse(url).map_err(UrlDenied::Malformed)?, 0)
            .await
    }

    /// Checks the target of a redirect: the `location` of the response to `from`, absolute or
    /// relative.
    ///
    /// # Errors
    /// Returns the first rule that the target violates, or [`UrlDenied::TooManyRedirects`] after
    /// [`MAX_REDIRECTS`] hops.
    pub async fn redirect(
        &self,
        from: &CheckedUrl,
        location: &str,
    ) -> Result<CheckedUrl, UrlDenied> {
        if from.redirects >= MAX_REDIRECTS {
            return Err(UrlDenied::TooManyRedirects(MAX_REDIRECTS));
        }
        let target = from.url.join(location).map_err(UrlDenied::Malformed)?;
        self.check_hop(target, from.redirects.saturating_add(1))
            .await
    }

    /// Resolves `host` and returns its addresses if *all* of them may be connected to. Call this at
    /// the moment of connecting.
    ///
    /// # Errors
    /// Returns [`UrlDenied::Private`], [`UrlDenied::Metadata`] or [`UrlDenied::Unresolved`].
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, UrlDenied> {
        if METADATA_NAMES.contains(&host.trim_end_matches('.')) {
            return Err(UrlDenied::Metadata(host.to_owned()));
        }
        let unresolved = |source| UrlDenied::Unresolved {
            host: host.to_owned(),
            source,
        };
        let found = self.resolver.resolve(host).await.map_err(unresolved)?;
        if found.is_empty() {
            return Err(unresolved(io::Error::from(io::ErrorKind::NotFound)));
        }
        for address in &found {
            self.check_address(host, *address)?;
        }
        Ok(found)
    }

    async fn check_hop(&self, url: Url, redirects: u8) -> Result<CheckedUrl, UrlDenied> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlDenied::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlDenied::Credentials);
        }
        let port = url.port_or_known_default().ok_or(UrlDenied::NoHost)?;
        if CLOSED_PORTS.contains(&port) {
            return Err(UrlDenied::Port(port));
        }
        let found = match url.host().ok_or(UrlDenied::NoHost)? {
            Host::Domain(name) => self.addresses(name).await?,
            Host::Ipv4(address) => vec![IpAddr::V4(address)],
            Host::Ipv6(address) => vec![IpAddr::V6(address)],
        };
        for address in &found {
            self.check_address(url.host_str().unwrap_or_default(), *address)?;
        }
        let addresses = found
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect();
        Ok(CheckedUrl {
            url,
            addresses,
            redirects,
        })
    }

    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), UrlDenied> {
        let real = canonical(address);
        if is_metadata(real) {
            return Err(UrlDenied::Metadata(host.to_owned()));
        }
        if is_public(real) || contained(&self.opened, real) {
            return Ok(());
        }
        Err(UrlDenied::Private {
            host: host.to_owned(),
            address: real,
        })
    }
}
