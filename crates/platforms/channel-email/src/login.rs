//! Connection and login to the IMAP server.

use async_imap::error::Error as ImapError;
use async_imap::imap_proto::{Response, Status};
use async_imap::{Authenticator, Client, Session};

use crate::EmailConfig;
use crate::error::{MailError, imap, shortened, within};
use crate::imap_stream::LimitedStream;
use crate::oauth::AccessToken;
use crate::proxy::Dialed;
use crate::servers::Servers;

/// The name of the authentication mechanism.
const MECHANISM: &str = "XOAUTH2";

/// Connects and logs in; once more with a new access token if the server refuses the old one.
pub(crate) async fn log_in(servers: &Servers) -> Result<Session<LimitedStream>, MailError> {
    let Servers {
        config,
        trust,
        tokens,
        ..
    } = servers;
    let limit = config.request_timeout();
    let Some(tokens) = tokens else {
        let client = within(limit, "connecting", connect(servers)).await??;
        let login = client.login(&config.imap_username, config.imap_password.expose_exact());
        return within(limit, "logging in", login)
            .await?
            .map_err(|(error, _)| login_error(config, error));
    };
    loop {
        let access = tokens.access(trust).await?;
        let client = within(limit, "connecting", connect(servers)).await??;
        let outcome = within(limit, "logging in", authenticate(client, config, &access)).await?;
        match outcome {
            Err(MailError::Login { .. }) if tokens.invalidate(&access) => {}
            outcome => return outcome,
        }
    }
}

/// Connects and reads the greeting, encrypted as the configuration says.
async fn connect(servers: &Servers) -> Result<Client<LimitedStream>, MailError> {
    let Servers {
        config,
        dialer,
        trust,
        ..
    } = servers;
    let (host, port) = (config.imap_host.as_str(), config.imap_port);
    let address = format!("{host}:{port}");
    let unreachable = |source| MailError::Connect {
        host: address.clone(),
        source,
    };
    let reached = dialer.dial(host, port, config.request_timeout()).await;
    let Dialed { stream, is_local } = reached.map_err(unreachable)?;
    if config.imap_use_ssl {
        let mut client = Client::new(LimitedStream::new(trust.encrypt(stream, host, port).await?));
        read_greeting(&mut client).await?;
        return Ok(client);
    }
    let mut client = Client::new(LimitedStream::new(stream));
    read_greeting(&mut client).await?;
    if !config.imap_use_tls.unwrap_or(!is_local) {
        return Ok(client);
    }
    if let Err(error) = client.run_command_and_check_ok("STARTTLS", None).await {
        return Err(match error {
            ImapError::No(_) | ImapError::Bad(_) => MailError::NoStartTls(address),
            source => MailError::Imap {
                doing: "STARTTLS",
                source,
            },
        });
    }
    // Bytes that arrived before the encryption are dropped with the client.
    let stream = client.into_inner();
    Ok(Client::new(LimitedStream::new(
        trust.encrypt(stream.into_inner(), host, port).await?,
    )))
}

async fn read_greeting(client: &mut Client<LimitedStream>) -> Result<(), MailError> {
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

async fn authenticate(
    client: Client<LimitedStream>,
    config: &EmailConfig,
    access: &AccessToken,
) -> Result<Session<LimitedStream>, MailError> {
    let shown = format!(
        "user={}\x01auth=Bearer {}\x01\x01",
        config.imap_username.trim(),
        access.token.expose()
    );
    let authenticated = client
        .authenticate(MECHANISM, Bearer { shown: Some(shown) })
        .await;
    authenticated.map_err(|(error, _)| match login_error(config, error) {
        MailError::Login { user, text, known } => MailError::Login {
            user,
            text: access.token.scrub(&text),
            known,
        },
        error => error,
    })
}

/// Sends the token once, and an empty answer to any challenge after it.
struct Bearer {
    shown: Option<String>,
}

impl Authenticator for Bearer {
    type Response = String;

    fn process(&mut self, _challenge: &[u8]) -> String {
        self.shown.take().unwrap_or_default()
    }
}

/// Maps a failed login. Busy servers refuse it, too; only some give a reason (RFC 5530).
fn login_error(config: &EmailConfig, error: ImapError) -> MailError {
    let (ImapError::No(text) | ImapError::Bad(text)) = error else {
        return MailError::Imap {
            doing: "logging in",
            source: error,
        };
    };
    let text = shortened(&config.scrub(&text));
    let known = ["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"]
        .iter()
        .any(|code| text.contains(code));
    MailError::Login {
        user: config.imap_username.clone(),
        text,
        known,
    }
}
