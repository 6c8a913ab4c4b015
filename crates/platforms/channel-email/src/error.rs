//! What goes wrong between the channel and the two servers.

use std::borrow::Cow;
use std::io;

use lettre::transport::smtp;
use nanobot_channel::{ChannelError, NoteError};
use nanobot_extract::ExtractError;

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
    /// The provider will give none. `is_known` when nothing is missing that could change that.
    #[error("{advice} ({text})")]
    TokenRefused {
        advice: &'static str,
        text: String,
        is_known: bool,
    },
    /// What the channel keeps for itself cannot be read or written.
    #[error("the notes of the channel")]
    Notes(#[source] NoteError),
    /// The server turns everybody away.
    #[error("the server turns us away: {0}")]
    TurnedAway(String),
    /// The certificates that are trusted cannot be read.
    #[error("{message}")]
    Trust { message: String },
    /// The server does not encrypt, and the configuration does not let it.
    #[error(
        "{0} offers no STARTTLS; where its network is trusted, imapUseTls false sends the password as it is"
    )]
    NoStartTls(String),
    /// The login was refused. `known` when the server said that the password is the reason.
    #[error("the login of {user} is refused: {text}")]
    Login {
        user: String,
        text: String,
        known: bool,
    },
    /// The mailbox cannot be opened.
    #[error("the mailbox {mailbox} cannot be opened: {text}")]
    NoMailbox { mailbox: String, text: String },
    /// A command was not carried out.
    #[error("{doing} failed")]
    Imap {
        doing: &'static str,
        source: async_imap::error::Error,
    },
    /// Nothing can read mails now.
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
    /// Whether the server is there and keeps the connection, so that only one command failed.
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

    /// The same for whoever asks only once, so that nothing that is missing will come.
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

    /// The whole chain in one line.
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

/// Whether the server for sending refuses the credentials (RFC 4954, section 6).
pub(crate) fn is_about_login(error: &smtp::Error) -> bool {
    error
        .status()
        .is_some_and(|code| matches!(u16::from(code), 530 | 534 | 535))
}

/// What a server said, as far as anybody wants to read it.
pub(crate) fn shortened(text: &str) -> String {
    const LIMIT: usize = 200;
    let clean = words(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if clean.chars().count() <= LIMIT {
        clean
    } else {
        clean.chars().take(LIMIT).chain(['…']).collect()
    }
}

/// The words of a server, out of how the IMAP library writes an answer down:
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
    fn a_server_is_quoted_without_the_library() {
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
