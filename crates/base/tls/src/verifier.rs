//! The verifier of certificates that all clients of a process share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// The verifier with the roots of trust of the system, once they were read.
static WITH_ROOTS: OnceLock<Verifier> = OnceLock::new();

/// Checks certificates with the roots of trust of the system, which the first check reads.
pub(crate) struct SharedVerifier {
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for SharedVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedVerifier").finish_non_exhaustive()
    }
}

impl SharedVerifier {
    pub(crate) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider }
    }

    /// Returns the verifier of the process. A failure to read the roots is not kept.
    fn with_roots(&self) -> Result<&'static Verifier, Error> {
        if let Some(verifier) = WITH_ROOTS.get() {
            return Ok(verifier);
        }
        let verifier = Verifier::new(Arc::clone(&self.provider)).map_err(|error| {
            Error::General(format!(
                "the certificates of authorities that this system trusts cannot be read \
                 (on Debian they are in the package ca-certificates): {error}"
            ))
        })?;
        Ok(WITH_ROOTS.get_or_init(|| verifier))
    }
}

impl ServerCertVerifier for SharedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.with_roots()?.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifier() -> SharedVerifier {
        SharedVerifier::new(Arc::new(crypto::ring::default_provider()))
    }

    #[test]
    fn all_clients_have_the_roots_of_the_first_check() {
        let (first, second) = (verifier(), verifier());
        assert!(std::ptr::eq(
            first.with_roots().unwrap(),
            second.with_roots().unwrap()
        ));
    }

    #[test]
    fn certificate_of_an_unknown_authority_is_refused() {
        let server = ServerName::try_from("localhost").unwrap();
        let nonsense = CertificateDer::from(vec![0x30, 0x00]);
        let now = UnixTime::now();
        verifier()
            .verify_server_cert(&nonsense, &[], &server, &[], now)
            .unwrap_err();
        assert!(!verifier().supported_verify_schemes().is_empty());
    }
}
