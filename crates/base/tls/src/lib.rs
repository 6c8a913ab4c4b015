//! TLS for HTTP clients: one cryptography provider and one set of roots of trust for a process.
//!
//! Decision: the roots of trust of the system are some 140 certificates, about 0.4 MB, and take
//! milliseconds to read. A gateway has an HTTP client for each platform, provider and MCP server,
//! so all of them check certificates with one verifier. It reads the roots at the first handshake,
//! because many programs speak only with servers on the same machine; a change of the system's
//! roots needs a restart.

mod verifier;

use std::sync::Arc;

use reqwest::ClientBuilder;
use rustls::{ClientConfig, crypto::CryptoProvider};

use crate::verifier::SharedVerifier;

/// The versions of HTTP that a client offers to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/1.1 only, as after [`ClientBuilder::http1_only`].
    One,
    /// HTTP/2 and HTTP/1.1.
    OneAndTwo,
}

/// Installs the cryptography provider of the process, unless the program has installed one.
pub fn install_provider() {
    provider();
}

/// Returns a client that checks certificates with the verifier of the process.
///
/// If the roots of trust cannot be read, the first request over TLS fails with the reason, and the
/// next one tries again.
pub fn shared(client: ClientBuilder, versions: HttpVersions) -> ClientBuilder {
    match config(versions) {
        Ok(config) => client.tls_backend_preconfigured(config),
        Err(error) => {
            tracing::debug!(%error, "the client has a verifier of its own");
            client
        }
    }
}

fn config(versions: HttpVersions) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(SharedVerifier::new(provider)))
        .with_no_client_auth();
    // Names of RFC 7301; the preferred one is first.
    config.alpn_protocols = match versions {
        HttpVersions::One => vec![b"http/1.1".to_vec()],
        HttpVersions::OneAndTwo => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Arc::clone(installed);
    }
    let ring = rustls::crypto::ring::default_provider();
    if ring.clone().install_default().is_err() {
        tracing::debug!("another thread has installed a cryptography provider");
    }
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring), Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_is_installed() {
        install_provider();
        assert!(CryptoProvider::get_default().is_some());
    }

    #[test]
    fn http2_is_offered_first_where_it_may_be_used() {
        let offered = |versions| config(versions).unwrap().alpn_protocols;
        assert_eq!(offered(HttpVersions::One), [b"http/1.1".to_vec()]);
        assert_eq!(
            offered(HttpVersions::OneAndTwo),
            [b"h2".to_vec(), b"http/1.1".to_vec()]
        );
        assert!(
            shared(reqwest::Client::builder(), HttpVersions::OneAndTwo)
                .build()
                .is_ok()
        );
    }
}
