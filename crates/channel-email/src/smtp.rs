//! Hands mails to the server for sending.
//!
//! Decision: lettre's connection is driven step by step instead of its transport, because it makes
//! a difference where a mail stops: before the server was given the content, sending again is
//! harmless; after that, nobody knows. A connection lasts for one mail, so none can have gone stale.

use std::time::Duration;

use lettre::address::{Address, Envelope};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use nanobot_channel::ChannelError;
use tokio::time::timeout;

use crate::EmailConfig;
use crate::connect::ADDRESSES;
use crate::error::{MailError, shortened};
use crate::tls::Trust;

/// How much longer than an answer it may take to bring a mail there. RFC 5321 allows ten minutes;
/// nobody waits that long.
const KEEP_TIMES: u32 = 4;
/// How long the good-bye may take.
const QUIT_WITHIN: Duration = Duration::from_secs(2);

/// Logs in and out again.
pub(crate) async fn look(config: &EmailConfig, trust: &Trust) -> Result<(), MailError> {
    let mut connection = open(config, trust).await?;
    quit(&mut connection).await;
    Ok(())
}

/// Sends one mail to one address.
pub(crate) async fn send(
    config: &EmailConfig,
    trust: &Trust,
    envelope: &Envelope,
    mail: &[u8],
) -> Result<(), ChannelError> {
    let mut connection = open(config, trust).await?;
    let limit = config.request_timeout();
    let offered = timeout(limit, offer(&mut connection, envelope)).await;
    let offered = offered.unwrap_or_else(|_elapsed| Err(ChannelError::Unavailable(slow("taking a mail", limit))));
    if let Err(error) = offered {
        quit(&mut connection).await;
        return Err(error);
    }
    let limit = limit.saturating_mul(KEEP_TIMES);
    match timeout(limit, connection.message(mail)).await {
        Ok(Ok(_)) => {
            quit(&mut connection).await;
            Ok(())
        }
        Ok(Err(error)) => Err(after_the_content(config, &error)),
        Err(_elapsed) => Err(ChannelError::Ambiguous(slow("keeping a mail", limit))),
    }
}

async fn open(config: &EmailConfig, trust: &Trust) -> Result<AsyncSmtpConnection, MailError> {
    let tls = trust.smtp(&config.smtp_host).await?;
    let limit = config.request_timeout();
    let opening = async {
        let server = (config.smtp_host.as_str(), config.smtp_port);
        let (name, implicit) = (ClientId::default(), config.smtp_use_ssl.then(|| tls.clone()));
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(server, Some(limit / ADDRESSES), &name, implicit, None).await?;
        if config.smtp_use_tls && !config.smtp_use_ssl {
            connection.starttls(tls, &name).await?;
        }
        let credentials =
            Credentials::new(config.smtp_username.clone(), config.smtp_password.expose_exact().to_owned());
        connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
        Ok(connection)
    };
    let slow = |_elapsed| MailError::Slow { doing: "logging in at the server for sending", seconds: limit.as_secs() };
    timeout(limit, opening).await.map_err(slow)?.map_err(MailError::Smtp)
}

/// Everything before the content.
async fn offer(connection: &mut AsyncSmtpConnection, envelope: &Envelope) -> Result<(), ChannelError> {
    let mut parameters = Vec::new();
    if envelope.to().iter().chain(envelope.from()).any(|address| !address.to_string().is_ascii()) {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            let text = "the server for sending takes no addresses with letters beyond ASCII";
            return Err(ChannelError::Refused(text.to_owned()));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    connection.command(Mail::new(envelope.from().cloned(), parameters)).await.map_err(before_the_content)?;
    for address in envelope.to() {
        connection.command(Rcpt::new(Address::clone(address), Vec::new())).await.map_err(|error| {
            if error.is_permanent() {
                ChannelError::NotFound(shortened(&error.to_string()))
            } else {
                before_the_content(error)
            }
        })?;
    }
    connection.command(Data).await.map(drop).map_err(before_the_content)
}

fn before_the_content(error: SmtpError) -> ChannelError {
    MailError::Smtp(error).into()
}

/// The server was given the content.
fn after_the_content(config: &EmailConfig, error: &SmtpError) -> ChannelError {
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
    let outcome = timeout(QUIT_WITHIN, connection.quit()).await;
    if !matches!(outcome, Ok(Ok(_))) {
        tracing::debug!("the server for sending did not say good-bye");
    }
}

fn slow(doing: &str, limit: Duration) -> String {
    format!("{doing} took longer than {} s", limit.as_secs())
}
