//! The HTTP client of remote servers.
//!
//! Decision: the operator wrote the address, so it may be on this machine or in a private network.
//! Metadata services of clouds stay closed, by name and by every address that a name resolves to.
//! Redirects are not followed, so headers and tokens never reach another origin.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use nanobot_guard::{SystemResolver, UrlGuard};
use nanobot_tls::HttpVersions;
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::Url;

use crate::McpError;
use crate::config::McpServerConfig;

const CONNECT: Duration = Duration::from_secs(10);

/// Returns the client for a server after its address was checked.
pub(crate) async fn http_client(url: &Url) -> Result<Client, McpError> {
    let client = GuardedClient::unrestricted()?;
    client.checked(url).await.cloned()
}

/// A client that connects only to addresses that its guard allows, and follows no redirect.
#[derive(Clone, Debug)]
pub(crate) struct GuardedClient {
    guard: UrlGuard,
    client: Client,
}

impl GuardedClient {
    /// Builds a client for the public internet and `opened`.
    pub(crate) fn new(opened: Vec<IpNet>) -> Result<Self, McpError> {
        let guard = UrlGuard::new(Arc::new(SystemResolver), opened);
        let client = client(guard.clone())?;
        Ok(Self { guard, client })
    }

    /// Builds a client for addresses that the operator wrote: everything except metadata services.
    pub(crate) fn unrestricted() -> Result<Self, McpError> {
        let everything = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        Self::new(everything.to_vec())
    }

    /// Returns the client after a check of the address. Names are resolved again when connecting,
    /// and checked again then.
    pub(crate) async fn checked(&self, url: &Url) -> Result<&Client, McpError> {
        let checked = self
            .guard
            .check(url.as_str())
            .await
            .map_err(McpError::Url)?;
        tracing::trace!(
            addresses = checked.addresses().len(),
            "checked the URL of an MCP server"
        );
        Ok(&self.client)
    }
}

fn client(guard: UrlGuard) -> Result<Client, McpError> {
    nanobot_tls::shared(Client::builder(), HttpVersions::OneAndTwo)
        .user_agent(concat!("nanobot/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(Policy::none())
        .dns_resolver(Arc::new(GuardedNames(guard)))
        .build()
        .map_err(|error| McpError::Http(format!("the HTTP client could not be built: {error}")))
}

/// Returns the configured headers.
pub(crate) fn headers(
    config: &McpServerConfig,
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let header = |(name, value): (&String, &String)| {
        let unusable = || McpError::Http(format!("the header {name:?} is unusable"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_invalid| unusable())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_invalid| unusable())?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    config.headers.iter().map(header).collect()
}

/// Resolves names through the guard at the moment of connecting.
#[derive(Debug)]
struct GuardedNames(UrlGuard);

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let found = guard.addresses(name.as_str()).await;
            let found = found.map_err(|denied| io::Error::other(denied.to_string()))?;
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}
