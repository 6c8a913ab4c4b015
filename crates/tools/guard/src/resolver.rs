//! Host name lookup as a trait: tests script the results, production uses the system's resolver.

use std::{io, net::IpAddr};

use async_trait::async_trait;

/// Looks up the addresses of a host name.
#[async_trait]
pub trait Resolver: Send + Sync + std::fmt::Debug {
    /// Returns all addresses of `host`, which is a name and never an address. An empty list means
    /// that the name exists but has no addresses.
    ///
    /// # Errors
    /// Returns the error of the lookup; a name that does not exist is an error.
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
