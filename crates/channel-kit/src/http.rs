//! The client for an API that holds a token, and what its failures mean to a send.
//!
//! Decision: redirects are not followed, because a token must reach no host that was not named, and
//! connections speak HTTP/1.1, because one connection for all would let a dead one stop everything.
//! The types are reqwest's: this is help for channels, not a layer over a client.
//!
//! What it does not do: retry, and read answers.

use std::error::Error as _;
use std::time::Duration;

use nanobot_channel::ChannelError;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Response, Url, redirect};

use crate::wrong;

const CONNECT: Duration = Duration::from_secs(10);

/// The address of an API out of the key `apiBase`, without the slash at its end.
///
/// # Errors
/// [`ChannelError::Config`] with `example`, when it is no address.
pub fn api_base(text: &str, example: &str) -> Result<Url, ChannelError> {
    Url::parse(text.trim().trim_end_matches('/'))
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| wrong("apiBase", &format!("is no address; write one like {example}")))
}

/// The proxy out of the channel's own key `proxy`, else the one that all clients share; empty is
/// none. Hosts that the environment excepts are reached without it.
///
/// # Errors
/// [`ChannelError::Config`], when it is no address of a proxy.
pub fn proxy(own: Option<&str>, shared: Option<&str>) -> Result<Option<Proxy>, ChannelError> {
    let proxy = own.or(shared).map(str::trim).filter(|proxy| !proxy.is_empty());
    let unusable =
        |_| wrong("proxy", "is no address of a proxy; write one like http://host:3128 or socks5://host:1080");
    let proxy = proxy.map(Proxy::all).transpose().map_err(unusable)?;
    Ok(proxy.map(|proxy| proxy.no_proxy(NoProxy::from_env())))
}

/// A client that follows no redirects and keeps to HTTP/1.1, with which WebSockets begin as well.
pub fn client(proxy: Option<&Proxy>) -> ClientBuilder {
    provide_cryptography();
    let builder =
        Client::builder().connect_timeout(CONNECT).tcp_nodelay(true).http1_only().redirect(redirect::Policy::none());
    match proxy {
        Some(proxy) => builder.proxy(proxy.clone()),
        None => builder,
    }
}

/// TLS needs a provider for the whole process. Programs install one first thing; an embedder may
/// not have.
fn provide_cryptography() {
    let missing = rustls::crypto::CryptoProvider::get_default().is_none();
    if missing && rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("another thread has installed a cryptography provider");
    }
}

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened, with its causes and without the address, which may hold a token. To be
    /// scrubbed all the same.
    pub text: String,
    /// The server may have got the request.
    pub may_have_arrived: bool,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        Self { text: chain(&error), may_have_arrived: !error.is_connect() && !error.is_builder() }
    }
}

/// An error and what caused it.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The body of an answer; `None` when it is larger than `limit` bytes, of which no more is read.
///
/// # Errors
/// When the answer ends before its end.
pub async fn body_within(mut response: Response, limit: u64) -> Result<Option<Vec<u8>>, reqwest::Error> {
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
    use super::*;

    #[test]
    fn addresses_are_checked_before_they_are_used() {
        assert_eq!(api_base(" https://x.test/api/ ", "").unwrap().as_str(), "https://x.test/api");
        for text in ["", "x.test", "ftp://x.test"] {
            let error = api_base(text, "https://x.test").unwrap_err().to_string();
            assert_eq!(error, "apiBase: is no address; write one like https://x.test");
        }
    }

    #[test]
    fn an_empty_proxy_of_its_own_is_none_at_all() {
        let shared = Some("http://p.test:1");
        let table = [(None, None, false), (None, shared, true), (Some(" "), shared, false), (shared, None, true)];
        for (own, shared, is_some) in table {
            assert_eq!(proxy(own, shared).unwrap().is_some(), is_some, "{own:?}");
        }
        assert!(proxy(Some("http://"), None).is_err());
    }
}
