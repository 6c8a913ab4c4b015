//! TLS for HTTP clients: one cryptography provider and one set of roots of trust for a process.
//!
//! Decision: the roots of trust of the system are some 140 certificates, about 0.4 MB. An HTTP
//! client loads its own copy when it is built, and a gateway has a client for each platform,
//! provider and MCP server. With [`shared`], all of them check certificates with one verifier.
//! The roots are loaded with the first client; a change of the system's roots needs a restart.

use std::sync::{Arc, OnceLock};

use reqwest::ClientBuilder;
use rustls::{ClientConfig, crypto::CryptoProvider};
use rustls_platform_verifier::Verifier;

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
/// If the roots of trust cannot be loaded, the client loads them itself, and
/// [`ClientBuilder::build`] returns the reason.
pub fn shared(client: ClientBuilder, versions: HttpVersions) -> ClientBuilder {
    match config(versions) {
        Ok(config) => client.tls_backend_preconfigured(config),
        Err(error) => {
            tracing::debug!(%error, "the roots of trust cannot be shared");
            client
        }
    }
}

fn config(versions: HttpVersions) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier(provider)?)
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

/// Returns the verifier of the process, which trusts the roots of the system.
fn verifier(provider: Arc<CryptoProvider>) -> Result<Arc<Verifier>, rustls::Error> {
    static VERIFIER: OnceLock<Arc<Verifier>> = OnceLock::new();
    if let Some(verifier) = VERIFIER.get() {
        return Ok(Arc::clone(verifier));
    }
    let verifier = Arc::new(Verifier::new(provider)?);
    Ok(Arc::clone(VERIFIER.get_or_init(|| verifier)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_have_one_verifier() {
        let (first, second) = (verifier(provider()), verifier(provider()));
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
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
