//! Names to addresses, as a seam: tests script the answers, production asks the system.

use std::{io, net::IpAddr};

use async_trait::async_trait;

/// Looks up the addresses of a host name.
#[async_trait]
pub trait Resolver: Send + Sync + std::fmt::Debug {
    /// All addresses of `host`, which is a name and never an address. An empty answer means that
    /// the name exists without addresses.
    ///
    /// # Errors
    /// Whatever the lookup failed with; a name that does not exist is an error.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system, hosts file included.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|socket| socket.ip()).collect())
    }
}
