//! Getting to the IMAP server: the greeting, and encryption.

use async_imap::Client;
use async_imap::error::Error as ImapError;
use async_imap::imap_proto::{Response, Status};

use crate::error::{MailError, shortened};
use crate::mailbox::imap;
use crate::route::Reached;
use crate::servers::Servers;
use crate::wire::Wire;

/// Connects and greets, encrypted as the configuration says.
pub(crate) async fn connect(servers: &Servers) -> Result<Client<Wire>, MailError> {
    let Servers {
        config,
        route,
        trust,
        ..
    } = servers;
    let (host, port) = (config.imap_host.as_str(), config.imap_port);
    let place = format!("{host}:{port}");
    let unreachable = |source| MailError::Connect {
        host: place.clone(),
        source,
    };
    let reached = route.reach(host, port, config.request_timeout()).await;
    let Reached { stream, is_local } = reached.map_err(unreachable)?;
    if config.imap_use_ssl {
        let mut client = Client::new(Wire::new(trust.encrypt(stream, host, port).await?));
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
            ImapError::No(_) | ImapError::Bad(_) => MailError::NoStartTls(place),
            source => MailError::Imap {
                doing: "STARTTLS",
                source,
            },
        });
    }
    // Whatever was sent before the encryption began is forgotten with the client.
    let wire = client.into_inner();
    Ok(Client::new(Wire::new(
        trust.encrypt(wire.into_inner(), host, port).await?,
    )))
}

async fn greeted(client: &mut Client<Wire>) -> Result<(), MailError> {
    let doing = "greeting";
    let greeting = client
        .read_response()
        .await
        .map_err(|error| imap(doing)(error.into()))?;
    let greeting = greeting.ok_or_else(|| imap(doing)(ImapError::ConnectionLost))?;
    match greeting.parsed() {
        Response::Data {
            status: Status::Bye,
            outcome,
        } => Err(MailError::TurnedAway(shortened(
            outcome.information.as_deref().unwrap_or_default(),
        ))),
        _ => Ok(()),
    }
}
