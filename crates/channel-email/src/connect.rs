//! Getting to the IMAP server: one of its addresses, and encryption.

use std::io;
use std::net::IpAddr;

use async_imap::Client;
use async_imap::error::Error as ImapError;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::EmailConfig;
use crate::error::MailError;
use crate::mailbox::imap;
use crate::tls::Trust;
use crate::wire::Wire;

/// A server may have several addresses, of which some lead nowhere: each gets this part of the time
/// that connecting may take.
pub(crate) const ADDRESSES: u32 = 3;

/// Connects and greets, encrypted as the configuration says.
pub(crate) async fn connect(config: &EmailConfig, trust: &Trust) -> Result<Client<Wire>, MailError> {
    let host = format!("{}:{}", config.imap_host, config.imap_port);
    let unreachable = |source| MailError::Connect { host: host.clone(), source };
    let stream = reach(config).await.map_err(unreachable)?;
    let is_local = stream.peer_addr().is_ok_and(|address| is_loopback(address.ip()));
    stream.set_nodelay(true).map_err(unreachable)?;
    if config.imap_use_ssl {
        let mut client = Client::new(encrypt(Wire::new(stream), config, trust).await?);
        greeted(&mut client).await?;
        return Ok(client);
    }
    let mut client = Client::new(Wire::new(stream));
    greeted(&mut client).await?;
    if !config.imap_use_tls.unwrap_or(!is_local) {
        return Ok(client);
    }
    if let Err(error) = client.run_command_and_check_ok("STARTTLS", None).await {
        return Err(match error {
            ImapError::No(_) | ImapError::Bad(_) => MailError::NoStartTls(host),
            source => MailError::Imap { doing: "STARTTLS", source },
        });
    }
    // Whatever was sent before the encryption began is forgotten with the client.
    Ok(Client::new(encrypt(client.into_inner(), config, trust).await?))
}

async fn encrypt(wire: Wire, config: &EmailConfig, trust: &Trust) -> Result<Wire, MailError> {
    let failed = |source| MailError::Tls { host: format!("{}:{}", config.imap_host, config.imap_port), source };
    let name = ServerName::try_from(config.imap_host.clone()).map_err(|error| failed(io::Error::other(error)))?;
    let connector = TlsConnector::from(trust.imap().await?);
    Ok(Wire::new(connector.connect(name, wire.into_inner()).await.map_err(failed)?))
}

async fn greeted(client: &mut Client<Wire>) -> Result<(), MailError> {
    let doing = "greeting";
    let greeting = client.read_response().await.map_err(|error| imap(doing)(error.into()))?;
    greeting.map(drop).ok_or_else(|| imap(doing)(ImapError::ConnectionLost))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Connects to the first address of the server that answers.
async fn reach(config: &EmailConfig) -> io::Result<TcpStream> {
    let limit = config.request_timeout() / ADDRESSES;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in lookup_host((config.imap_host.as_str(), config.imap_port)).await? {
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_elapsed) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
