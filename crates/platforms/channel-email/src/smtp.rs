//! Sends mails by SMTP.
//!
//! Decision: lettre's connection is driven step by step instead of its transport, because the step
//! of a failure decides: before the content was sent, sending again is harmless; after that, the
//! outcome is unknown. A connection lasts for one mail, so none can have gone stale.

use std::time::Duration;

use lettre::address::{Address, Envelope};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Auth, Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use nanobot_channel::ChannelError;
use tokio::time::timeout;

use crate::EmailConfig;
use crate::error::{MailError, is_about_login, shortened, within};
use crate::oauth::AccessTokens;
use crate::proxy::Dialed;
use crate::servers::Servers;
use crate::tls::Encrypted;

/// Multiple of the time limit of an answer for the content of a mail. RFC 5321 allows ten minutes.
const CONTENT_TIMEOUT_FACTOR: u32 = 4;
/// Time limit of QUIT.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Logs in and out again.
pub(crate) async fn probe(servers: &Servers) -> Result<(), MailError> {
    let mut connection = open(servers).await?;
    quit(&mut connection).await;
    Ok(())
}

/// Sends one mail to one address.
pub(crate) async fn send(
    servers: &Servers,
    envelope: &Envelope,
    mail: &[u8],
) -> Result<(), ChannelError> {
    let config = servers.config.as_ref();
    let mut connection = open(servers).await?;
    let limit = config.request_timeout();
    let started = timeout(limit, start_transaction(&mut connection, envelope)).await;
    let started = started.unwrap_or_else(|_elapsed| {
        Err(ChannelError::Unavailable(timeout_message(
            "taking a mail",
            limit,
        )))
    });
    if let Err(error) = started {
        quit(&mut connection).await;
        return Err(error);
    }
    let limit = limit.saturating_mul(CONTENT_TIMEOUT_FACTOR);
    match timeout(limit, connection.message(mail)).await {
        Ok(Ok(_)) => {
            quit(&mut connection).await;
            Ok(())
        }
        Ok(Err(error)) => Err(post_data_error(config, &error)),
        Err(_elapsed) => Err(ChannelError::Ambiguous(timeout_message(
            "keeping a mail",
            limit,
        ))),
    }
}

/// Connects and logs in; once more with a new access token if the server refuses the old one.
async fn open(servers: &Servers) -> Result<AsyncSmtpConnection, MailError> {
    let Some(tokens) = &servers.tokens else {
        let config = &servers.config;
        let password = config.smtp_password.expose_exact().to_owned();
        let credentials = Credentials::new(config.smtp_username.clone(), password);
        return connect(servers, async |connection| {
            connection
                .auth(&[Mechanism::Plain, Mechanism::Login], &credentials)
                .await
                .map(drop)
        })
        .await;
    };
    open_with_token(servers, tokens).await
}

async fn open_with_token(
    servers: &Servers,
    tokens: &AccessTokens,
) -> Result<AsyncSmtpConnection, MailError> {
    loop {
        let access = tokens.access(&servers.trust).await?;
        let token = access.token.expose().to_owned();
        let credentials = Credentials::new(servers.config.smtp_username.clone(), token);
        let connected = connect(servers, async |connection| {
            let answer = connection
                .command(Auth::new(Mechanism::Xoauth2, credentials.clone(), None)?)
                .await?;
            // A refusal has two steps: the reasons have to be acknowledged first.
            if answer.has_code(334) {
                connection.command("\r\n").await.map(drop)
            } else {
                Ok(())
            }
        });
        match connected.await {
            Err(MailError::Smtp(error)) if is_about_login(&error) && tokens.invalidate(&access) => {
            }
            outcome => return outcome,
        }
    }
}

/// Connects, encrypted as the configuration says, and logs in with `log_in`.
async fn connect(
    servers: &Servers,
    log_in: impl AsyncFnOnce(&mut AsyncSmtpConnection) -> Result<(), SmtpError>,
) -> Result<AsyncSmtpConnection, MailError> {
    let Servers {
        config,
        dialer,
        trust,
        ..
    } = servers;
    let (host, port, limit) = (
        config.smtp_host.as_str(),
        config.smtp_port,
        config.request_timeout(),
    );
    let opening = async {
        let unreachable = |source| MailError::Connect {
            host: format!("{host}:{port}"),
            source,
        };
        let Dialed { stream, .. } = dialer.dial(host, port, limit).await.map_err(unreachable)?;
        let stream: Box<dyn AsyncTokioStream> = if config.smtp_use_ssl {
            Box::new(Encrypted(trust.encrypt(stream, host, port).await?))
        } else {
            Box::new(stream)
        };
        let name = ClientId::default();
        let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &name)
            .await
            .map_err(MailError::Smtp)?;
        if config.smtp_use_tls && !config.smtp_use_ssl {
            connection
                .starttls(trust.starttls(host).await?, &name)
                .await
                .map_err(MailError::Smtp)?;
        }
        log_in(&mut connection).await.map_err(MailError::Smtp)?;
        Ok(connection)
    };
    within(limit, "logging in at the server for sending", opening).await?
}

/// Sends everything before the content.
async fn start_transaction(
    connection: &mut AsyncSmtpConnection,
    envelope: &Envelope,
) -> Result<(), ChannelError> {
    let mut parameters = Vec::new();
    if envelope
        .to()
        .iter()
        .chain(envelope.from())
        .any(|address| !address.to_string().is_ascii())
    {
        if !connection
            .server_info()
            .supports_feature(Extension::SmtpUtfEight)
        {
            let text = "the server for sending takes no addresses with letters beyond ASCII";
            return Err(ChannelError::Refused(text.to_owned()));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    connection
        .command(Mail::new(envelope.from().cloned(), parameters))
        .await
        .map_err(pre_data_error)?;
    for address in envelope.to() {
        connection
            .command(Rcpt::new(Address::clone(address), Vec::new()))
            .await
            .map_err(|error| {
                if error.is_permanent() {
                    ChannelError::NotFound(shortened(&error.to_string()))
                } else {
                    pre_data_error(error)
                }
            })?;
    }
    connection
        .command(Data)
        .await
        .map(drop)
        .map_err(pre_data_error)
}

fn pre_data_error(error: SmtpError) -> ChannelError {
    MailError::Smtp(error).into()
}

/// Maps a failure after the content was sent.
fn post_data_error(config: &EmailConfig, error: &SmtpError) -> ChannelError {
    let text = config.scrub(&shortened(&error.to_string()));
    if error.status().is_some_and(|code| u16::from(code) == 552) {
        ChannelError::TooLarge(text)
    } else if error.is_permanent() {
        ChannelError::Refused(text)
    } else if error.is_transient() {
        ChannelError::Unavailable(text)
    } else {
        ChannelError::Ambiguous(text)
    }
}

async fn quit(connection: &mut AsyncSmtpConnection) {
    let outcome = timeout(QUIT_TIMEOUT, connection.quit()).await;
    if !matches!(outcome, Ok(Ok(_))) {
        tracing::debug!("the server for sending did not say good-bye");
    }
}

fn timeout_message(doing: &str, limit: Duration) -> String {
    format!("{doing} took longer than {} s", limit.as_secs())
}
