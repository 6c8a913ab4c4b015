//! Failures between the channel and the two servers.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use lettre::transport::smtp;
use nanobot_channel::{ChannelError, NoteError};
use nanobot_extract::ExtractError;
use tokio::time::timeout;

/// An error of the receiving side, and of connecting in general.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// There is no connection.
    #[error("{host} cannot be reached")]
    Connect {
        /// Server and port.
        host: String,
        source: io::Error,
    },
    /// The encryption failed.
    #[error("no encrypted connection to {host}")]
    Tls { host: String, source: io::Error },
    /// The provider gives no access token, or gives none now.
    #[error("no access token: {text}")]
    Tokens { text: String },
    /// The provider refuses a token; for good if `is_known`.
    #[error("{advice} ({text})")]
    TokenRefused {
        advice: &'static str,
        text: String,
        is_known: bool,
    },
    /// A note of the channel cannot be read or written.
    #[error("the notes of the channel")]
    Notes(#[source] NoteError),
    /// The server ended the connection with its greeting.
    #[error("the server turns us away: {0}")]
    TurnedAway(String),
    /// The certificates that are trusted cannot be read.
    #[error("{message}")]
    Trust { message: String },
    /// The server has no STARTTLS, which the configuration requires.
    #[error(
        "{0} offers no STARTTLS; where its network is trusted, imapUseTls false sends the password as it is"
    )]
    NoStartTls(String),
    /// The login was refused; `known` if the server named the password as the reason.
    #[error("the login of {user} is refused: {text}")]
    Login {
        user: String,
        text: String,
        known: bool,
    },
    /// The mailbox cannot be opened.
    #[error("the mailbox {mailbox} cannot be opened: {text}")]
    NoMailbox { mailbox: String, text: String },
    /// A command failed.
    #[error("{doing} failed")]
    Imap {
        doing: &'static str,
        source: async_imap::error::Error,
    },
    /// The parser of mails cannot run now.
    #[error("mails cannot be read")]
    Reader(#[source] ExtractError),
    /// There was no answer.
    #[error("{doing} took longer than {seconds} s")]
    Slow { doing: &'static str, seconds: u64 },
    /// The mail server for sending refuses or cannot be reached, with no mail on its way yet.
    #[error("the server for sending: {0}")]
    Smtp(smtp::Error),
}

impl MailError {
    /// `true` if the server refused one command and keeps the connection.
    pub(crate) fn is_refusal(&self) -> bool {
        use async_imap::error::Error as Imap;
        matches!(
            self,
            Self::Imap {
                source: Imap::No(_) | Imap::Bad(_),
                ..
            }
        )
    }

    /// Returns the same failure for a single attempt: what is missing will not come.
    pub(crate) fn final_now(self) -> Self {
        match self {
            Self::TokenRefused { advice, text, .. } => Self::TokenRefused {
                advice,
                text,
                is_known: true,
            },
            error => error,
        }
    }

    /// Returns the chain of sources in one line.
    fn text(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let why = cause.to_string();
            if !text.contains(&why) {
                text = format!("{text}: {why}");
            }
            source = cause.source();
        }
        shortened(&text)
    }
}

impl From<MailError> for ChannelError {
    fn from(error: MailError) -> Self {
        let text = error.text();
        match error {
            MailError::Login { known: true, .. }
            | MailError::TokenRefused { is_known: true, .. } => Self::Auth(text),
            MailError::Trust { message } => Self::Config {
                key: "caFile".to_owned(),
                message,
            },
            MailError::NoStartTls(_) => Self::Config {
                key: "imapUseTls".to_owned(),
                message: text,
            },
            MailError::NoMailbox { .. } => Self::Config {
                key: "imapMailbox".to_owned(),
                message: text,
            },
            MailError::Smtp(error) if is_about_login(&error) => Self::Auth(text),
            MailError::Smtp(error) if error.is_permanent() || error.is_client() => {
                Self::Refused(text)
            }
            _ => Self::Unavailable(text),
        }
    }
}

/// Runs `work` within a time limit.
pub(crate) async fn within<T>(
    limit: Duration,
    doing: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, MailError> {
    timeout(limit, work)
        .await
        .map_err(|_elapsed| MailError::Slow {
            doing,
            seconds: limit.as_secs(),
        })
}

/// Maps a failure of an IMAP command.
pub(crate) fn imap(doing: &'static str) -> impl Fn(async_imap::error::Error) -> MailError {
    move |source| MailError::Imap { doing, source }
}

/// `true` if the SMTP server refuses the credentials (RFC 4954, section 6).
pub(crate) fn is_about_login(error: &smtp::Error) -> bool {
    error
        .status()
        .is_some_and(|code| matches!(u16::from(code), 530 | 534 | 535))
}

/// Shortens the words of a server for logs and errors.
pub(crate) fn shortened(text: &str) -> String {
    const LIMIT: usize = 200;
    let clean = words(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if clean.chars().count() <= LIMIT {
        clean
    } else {
        clean.chars().take(LIMIT).chain(['…']).collect()
    }
}

/// Extracts the words of a server from the debug form of the IMAP library:
/// `code: None, info: Some("[AUTHENTICATIONFAILED] Bad password")`.
fn words(text: &str) -> Cow<'_, str> {
    let answer = text.split_once("code: ").and_then(|(before, answer)| {
        let (said, after) = answer.split_once("info: Some(\"")?.1.rsplit_once("\")")?;
        Some(format!("{before}{}{after}", said.replace("\\\"", "\"")))
    });
    answer.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_errors_omit_the_library_text() {
        for (text, expected) in [
            (
                "no response: code: None, info: Some(\"[AUTH] Bad\\t\\\"word\\\"\") at login",
                "no response: [AUTH] Bad\\t\"word\" at login",
            ),
            (
                "bad response: code: None, info: None",
                "bad response: code: None, info: None",
            ),
            ("exit  code: 7", "exit code: 7"),
        ] {
            assert_eq!(shortened(text), expected);
        }
        assert_eq!(shortened(&"x".repeat(201)), format!("{}…", "x".repeat(200)));
    }
}
