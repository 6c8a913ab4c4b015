//! TLS with the authorities of the system and of `caFile`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lettre::transport::smtp::client::{AsyncTokioStream, Certificate, TlsParameters};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::MailError;

/// The settings of encrypted connections, read from disk once.
#[derive(Default)]
pub(crate) struct Trust {
    ca_file: Option<PathBuf>,
    settings: OnceCell<Arc<ClientConfig>>,
    starttls: OnceCell<TlsParameters>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl Trust {
    /// Trusts the authorities in `ca_file` besides the system's. Reads nothing yet.
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            ..Self::default()
        }
    }

    /// Returns the settings of connections that the channel encrypts itself.
    pub(crate) async fn settings(&self) -> Result<Arc<ClientConfig>, MailError> {
        let ca_file = self.ca_file.clone();
        self.settings
            .get_or_try_init(|| off_thread(move || client_config(ca_file.as_deref())))
            .await
            .cloned()
    }

    /// Encrypts a connection with the server `host`.
    pub(crate) async fn encrypt<S>(
        &self,
        stream: S,
        host: &str,
        port: u16,
    ) -> Result<TlsStream<S>, MailError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let failed = |source| MailError::Tls {
            host: format!("{host}:{port}"),
            source,
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| failed(io::Error::other(error)))?;
        TlsConnector::from(self.settings().await?)
            .connect(name, stream)
            .await
            .map_err(failed)
    }

    /// Returns the settings of STARTTLS with the SMTP server `host`.
    pub(crate) async fn starttls(&self, host: &str) -> Result<TlsParameters, MailError> {
        let (ca_file, host) = (self.ca_file.clone(), host.to_owned());
        self.starttls
            .get_or_try_init(|| off_thread(move || tls_parameters(ca_file.as_deref(), host)))
            .await
            .cloned()
    }
}

/// A connection that is encrypted from its beginning, for lettre.
#[derive(Debug)]
pub(crate) struct Encrypted(pub(crate) TlsStream<TcpStream>);

impl AsyncTokioStream for Encrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().0.peer_addr()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The system's authorities are hundreds of files.
async fn off_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, MailError> + Send + 'static,
) -> Result<T, MailError> {
    let broken = |_error| MailError::Trust {
        message: "the trusted certificates could not be read".to_owned(),
    };
    tokio::task::spawn_blocking(read).await.map_err(broken)?
}

fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, MailError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        for certificate in certificates(path)? {
            roots
                .add(certificate)
                .map_err(|error| unusable(path, &error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| MailError::Trust {
        message: error.to_string(),
    })?;
    Ok(Arc::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}

fn tls_parameters(ca_file: Option<&Path>, host: String) -> Result<TlsParameters, MailError> {
    let mut builder = TlsParameters::builder(host);
    if let Some(path) = ca_file {
        for certificate in certificates(path)? {
            let certificate = Certificate::from_der(certificate.to_vec())
                .map_err(|error| unusable(path, &error))?;
            builder = builder.add_root_certificate(certificate);
        }
    }
    builder.build().map_err(|error| MailError::Trust {
        message: error.to_string(),
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, MailError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"it holds no certificate"));
    }
    Ok(certificates)
}

fn unusable(path: &Path, error: &dyn fmt::Display) -> MailError {
    MailError::Trust {
        message: format!("{} cannot be used: {error}", path.display()),
    }
}
