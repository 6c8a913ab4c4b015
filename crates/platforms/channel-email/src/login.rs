//! Logging in at the IMAP server.

use async_imap::error::Error as ImapError;
use async_imap::{Authenticator, Client, Session};

use crate::EmailConfig;
use crate::error::{MailError, shortened};
use crate::mailbox::within;
use crate::oauth::AccessToken;
use crate::servers::Servers;
use crate::wire::Wire;

/// What both sides call it.
const MECHANISM: &str = "XOAUTH2";

/// Connects and logs in; once more when an access token had ended without a word.
pub(crate) async fn log_in(servers: &Servers) -> Result<Session<Wire>, MailError> {
    let Servers {
        config,
        trust,
        tokens,
        ..
    } = servers;
    let limit = config.request_timeout();
    let Some(tokens) = tokens else {
        let client = within(limit, "connecting", crate::connect::connect(servers)).await??;
        let login = client.login(&config.imap_username, config.imap_password.expose_exact());
        return within(limit, "logging in", login)
            .await?
            .map_err(|(error, _)| refused(config, error));
    };
    loop {
        let access = tokens.access(trust).await?;
        let client = within(limit, "connecting", crate::connect::connect(servers)).await??;
        let outcome = within(limit, "logging in", authenticate(client, config, &access)).await?;
        match outcome {
            Err(MailError::Login { .. }) if tokens.refused(&access) => {}
            outcome => return outcome,
        }
    }
}

async fn authenticate(
    client: Client<Wire>,
    config: &EmailConfig,
    access: &AccessToken,
) -> Result<Session<Wire>, MailError> {
    let shown = format!(
        "user={}\x01auth=Bearer {}\x01\x01",
        config.imap_username.trim(),
        access.token.expose()
    );
    let authenticated = client
        .authenticate(MECHANISM, Bearer { shown: Some(shown) })
        .await;
    authenticated.map_err(|(error, _)| match refused(config, error) {
        MailError::Login { user, text, known } => MailError::Login {
            user,
            text: access.token.scrub(&text),
            known,
        },
        error => error,
    })
}

/// Shows the token once; whatever the server says about it afterwards is acknowledged.
struct Bearer {
    shown: Option<String>,
}

impl Authenticator for Bearer {
    type Response = String;

    fn process(&mut self, _challenge: &[u8]) -> String {
        self.shown.take().unwrap_or_default()
    }
}

/// What a failed login means. Servers also refuse it when they are busy; only some say why
/// (RFC 5530).
fn refused(config: &EmailConfig, error: ImapError) -> MailError {
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
