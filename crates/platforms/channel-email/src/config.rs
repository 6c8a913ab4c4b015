//! The section of the configuration.
//!
//! `allowFrom` is not here: the runner of the channel reads it, and decides through
//! [`nanobot_channel::Access`].

use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::settings::Setting;
use nanobot_channel_kit::{settings, wrong};
use reqwest::Url;
use serde::Deserialize;
use serde_json::json;

use crate::Secret;
use crate::authentication::Reporter;

/// The shortest pause between two polls, in seconds.
const SHORTEST_POLL: u64 = 5;
/// A server may close an IDLE that is older than 30 minutes (RFC 2177).
const LONGEST_IDLE: u64 = 29 * 60 - 1;
/// The smallest limit of a mail that leaves room for its header, in bytes.
const SMALLEST_MAIL: u32 = 65_536;

/// Token addresses of providers, by the name of their IMAP server, as they document it.
const TOKEN_URLS: &[(&str, &str)] = &[
    ("imap.gmail.com", "https://oauth2.googleapis.com/token"),
    ("imap-mail.outlook.com", MICROSOFT),
    ("outlook.office365.com", MICROSOFT),
];
/// The value of `authservId` for a server whose reports have no name.
pub(crate) const NAMELESS: &str = "-";
/// Hosts of incoming mail that are known to report without a name, above whatever a sender wrote.
const NAMELESS_HOSTS: [&str; 2] = ["outlook.office365.com", "imap-mail.outlook.com"];
const MICROSOFT: &str = "https://login.microsoftonline.com/common/oauth2/v2.0/token";

/// Action on a mail that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PostAction {
    /// It is marked as deleted.
    Delete,
    /// It goes to the mailbox that `postActionMoveMailbox` names.
    Move,
}

/// Login method of both servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginMethod {
    /// With a name and a password.
    #[default]
    Password,
    /// With access tokens that a server gives for a refresh token (RFC 6749, section 6), by the
    /// mechanism `XOAUTH2`.
    Oauth2,
}

impl Setting for PostAction {
    const EXPECTED: &'static str = "write \"delete\", \"move\" or null";

    fn shown(&self) -> Value {
        match self {
            Self::Delete => "delete".into(),
            Self::Move => "move".into(),
        }
    }

    fn schema() -> Value {
        json!({"enum": ["delete", "move"]})
    }
}

impl Setting for LoginMethod {
    const EXPECTED: &'static str = "write \"password\" or \"oauth2\"";

    fn shown(&self) -> Value {
        match self {
            Self::Password => "password".into(),
            Self::Oauth2 => "oauth2".into(),
        }
    }

    fn schema() -> Value {
        json!({"enum": ["password", "oauth2"]})
    }
}

settings! {
    /// The settings of one mailbox.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct EmailConfig {
        /// Runs the channel.
        enabled: bool = false;
        /// Confirms that the owner of the mailbox agreed; has to be `true`.
        consent_granted: bool = false;
        /// The login method: `password`, or `oauth2` for access tokens.
        auth: LoginMethod = LoginMethod::Password;
        /// The URL of the token endpoint; known for Google and Microsoft.
        oauth_token_url: String = String::new();
        /// The client id of the registered program.
        oauth_client_id: String = String::new();
        /// The client secret; some providers issue none.
        oauth_client_secret: Secret = Secret::default();
        /// The refresh token.
        oauth_refresh_token: Secret = Secret::default();
        /// The scope, if the provider requires it in each request.
        oauth_scope: String = String::new();
        /// The proxy for both servers and for tokens: `http://name:password@host:3128`,
        /// `socks5://host:1080`, or `socks5h://…`, which resolves names at the proxy. Without the
        /// key, `tools.web.proxy` applies; `""` disables both. The proxy of the environment is used
        /// for tokens only, if neither key is set. Hosts in `NO_PROXY`, and this machine, are
        /// reached directly.
        proxy: Option<Secret> = None;
        /// The IMAP server.
        imap_host: String = String::new();
        /// The port of the server.
        imap_port: u16 = 993;
        /// The user name.
        imap_username: String = String::new();
        /// The password.
        imap_password: Secret = Secret::default();
        /// The mailbox to read.
        imap_mailbox: String = "INBOX".to_owned();
        /// Uses TLS from the start of the connection (port 993).
        imap_use_ssl: bool = true;
        /// Requires STARTTLS if `imapUseSsl` is `false` (port 143). By default it is required,
        /// except to this machine.
        imap_use_tls: Option<bool> = None;
        /// The SMTP server.
        smtp_host: String = String::new();
        /// The port of the server.
        smtp_port: u16 = 587;
        /// The user name.
        smtp_username: String = String::new();
        /// The password.
        smtp_password: Secret = Secret::default();
        /// Requires STARTTLS (port 587).
        smtp_use_tls: bool = true;
        /// Uses TLS from the start of the connection instead (port 465).
        smtp_use_ssl: bool = false;
        /// Additional root certificates (PEM), for servers with a private certificate authority. A
        /// self-signed certificate does not work: create an authority that signs it.
        ca_file: Option<PathBuf> = None;
        /// The sender address, `name@host` or `Name <name@host>`; by default the user name.
        from_address: String = String::new();
        /// Sends replies. With `false`, mails are read and processed without a reply; messages of
        /// jobs and of the `message` tool are still sent.
        auto_reply_enabled: bool = true;
        /// Polling interval in seconds if the server does not support IDLE; at least 5.
        poll_interval_seconds: u64 = 30;
        /// Maximum duration of an IDLE command in seconds; at most 1739. Together with
        /// `requestTimeout` it has to be below `aliveWithinS`, otherwise a quiet channel is
        /// restarted repeatedly; `nanobot doctor` reports that.
        idle_seconds: u64 = 60,
            within 1..=LONGEST_IDLE => "has to be a number of seconds from 1 to 1739";
        /// Timeout of a response in seconds. A large mail may take twenty times that while data
        /// arrives.
        request_timeout: u64 = 30,
            within 1..=u64::MAX => "has to be a number of seconds from 1 up";
        /// Age limit in days of mail that is read at the channel's first start with this mailbox;
        /// older mail stays unread. At least 1.
        first_look_days: u32 = 1;
        /// Marks handled mails as read. With `false` they get the keyword `NanobotHandled` instead.
        /// If the server stores no keywords, the channel stores its position itself.
        mark_seen: bool = true;
        /// The action on handled mails: `"delete"` marks them as deleted, `"move"` moves them.
        post_action: Option<PostAction> = None;
        /// The target mailbox of `move`.
        post_action_move_mailbox: String = String::new();
        /// Expunges deleted mails at once.
        post_action_expunge: bool = false;
        /// Does not apply `postAction` to mails that are not for the assistant.
        post_action_ignore_skipped: bool = true;
        /// Maximum length of the text of a mail, in characters; the rest is cut.
        max_body_chars: usize = 12_000;
        /// Maximum size of a mail in bytes; only the beginning of a larger one is read.
        max_message_size: u32 = 20_000_000;
        /// The types of attachments to store: `"application/pdf"`, `"image/*"`, `"*"`. None by
        /// default.
        allowed_attachment_types: Vec<String> = Vec::new(),
            expects "write a list of media types like \"application/pdf\"";
        /// Maximum size of an attachment in bytes.
        max_attachment_size: u64 = 2_000_000;
        /// Maximum number of attachments of a mail.
        max_attachments_per_email: usize = 5;
        /// The prefix of a reply's subject, unless it begins with `Re:`.
        subject_prefix: String = "Re: ".to_owned();
        /// Requires a DKIM signature of the sender's domain.
        verify_dkim: bool = true;
        /// Requires a server that the SPF record of the sender's domain allows.
        verify_spf: bool = true;
        /// The `authserv-id` of the server whose results are trusted, required unless both are
        /// `false`; `-` if its results have no id.
        authserv_id: Option<String> = None;
        /// Starts a separate conversation for each thread.
        session_per_thread: bool = false;
    }
}

impl EmailConfig {
    /// Reads a section, keys in camelCase or snake_case. `null` says nothing, unknown keys are
    /// left alone.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn from_section(section: &Value) -> Result<Self, ChannelError> {
        Self::read(section)?.validated()
    }

    fn validated(mut self) -> Result<Self, ChannelError> {
        let passwords = self.auth == LoginMethod::Password;
        let needed = [
            (
                "imapHost",
                self.imap_host.as_str(),
                "write the name of the server that mail is read from",
            ),
            (
                "imapUsername",
                &self.imap_username,
                "write the name to log in there with, often the whole address",
            ),
            (
                "imapPassword",
                self.imap_password.expose(),
                "write the password for it, often one made for programs",
            ),
            (
                "smtpHost",
                &self.smtp_host,
                "write the name of the server that mail is sent through",
            ),
            (
                "smtpUsername",
                &self.smtp_username,
                "write the name to log in there with, often the whole address",
            ),
            (
                "smtpPassword",
                self.smtp_password.expose(),
                "write the password for it, often one made for programs",
            ),
        ];
        for (key, value, advice) in needed {
            let is_needed = passwords || !key.ends_with("Password");
            if is_needed && value.trim().is_empty() {
                return Err(wrong(key, &format!("is empty: {advice}")));
            }
        }
        if self.auth == LoginMethod::Oauth2 {
            self.check_oauth()?;
        }
        if !self.consent_granted {
            let message = "is false: the assistant reads and writes mail only after the owner of the mailbox \
                           agreed; write true then";
            return Err(wrong("consentGranted", message));
        }
        self.sender()?;
        if self.post_action == Some(PostAction::Move)
            && self.post_action_move_mailbox.trim().is_empty()
        {
            return Err(wrong(
                "postActionMoveMailbox",
                "is empty: name the mailbox that mails are moved to",
            ));
        }
        // No name is no name, whichever way that is written.
        self.authserv_id = self.authserv_id.filter(|name| !name.trim().is_empty());
        self.poll_interval_seconds = self.poll_interval_seconds.max(SHORTEST_POLL);
        self.first_look_days = self.first_look_days.max(1);
        self.max_message_size = self.max_message_size.max(SMALLEST_MAIL);
        Ok(self)
    }

    fn check_oauth(&self) -> Result<(), ChannelError> {
        if self.oauth_client_id.trim().is_empty() {
            return Err(wrong(
                "oauthClientId",
                "is empty: write what the program is registered as at the provider",
            ));
        }
        if self.oauth_refresh_token.expose().is_empty() {
            return Err(wrong(
                "oauthRefreshToken",
                "is empty: write the one that the provider gave for the mailbox",
            ));
        }
        self.token_url().map(drop)
    }

    /// Returns the address that access tokens are requested at.
    pub(crate) fn token_url(&self) -> Result<Url, ChannelError> {
        let host = self.imap_host.trim().to_lowercase();
        let known = TOKEN_URLS
            .iter()
            .find(|(provider, _)| *provider == host)
            .map(|(_, url)| *url);
        let text = Some(self.oauth_token_url.trim())
            .filter(|text| !text.is_empty())
            .or(known);
        let Some(text) = text else {
            return Err(wrong(
                "oauthTokenUrl",
                "is empty: write the address that the provider gives tokens at",
            ));
        };
        // The refresh token is sent there, so the connection has to be private.
        let is_private = |url: &Url| match url.host_str() {
            Some(host) => {
                url.scheme() == "https"
                    || url.scheme() == "http" && ["127.0.0.1", "localhost", "[::1]"].contains(&host)
            }
            None => false,
        };
        let url = Url::parse(text).ok().filter(is_private);
        url.ok_or_else(|| wrong("oauthTokenUrl", "is no address that begins with https://"))
    }

    /// Returns the sender of the assistant's mails: `fromAddress`, else the login.
    pub(crate) fn sender(&self) -> Result<Mailbox, ChannelError> {
        let from = self.from_address.trim();
        let candidates = if from.is_empty() {
            [self.smtp_username.as_str(), &self.imap_username]
        } else {
            [from, from]
        };
        let sender = candidates.iter().find_map(|text| text.trim().parse().ok());
        sender.ok_or_else(|| {
            wrong(
                "fromAddress",
                "is no address: write the one that the mails come from",
            )
        })
    }

    /// Returns the addresses whose mails are the assistant's own, ASCII letters in lower case.
    pub(crate) fn own_addresses(&self) -> Vec<String> {
        let sender = self.sender().ok().map(|sender| sender.email.to_string());
        let names =
            [&self.smtp_username, &self.imap_username].map(|name| Some(name.trim().to_owned()));
        let all = names
            .into_iter()
            .chain([sender])
            .flatten()
            .filter(|name| name.contains('@'));
        all.map(|address| address.to_ascii_lowercase()).collect()
    }

    /// `true` if mails have to be proven.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verify_dkim || self.verify_spf
    }

    /// `true` if mails have to be proven and no server is named whose reports are a proof, so that
    /// no mail is believed.
    #[must_use]
    pub fn lacks_reporter(&self) -> bool {
        self.verifies() && self.reporter().is_none()
    }

    /// Returns the server whose reports count.
    pub(crate) fn reporter(&self) -> Option<Reporter<'_>> {
        let is_nameless = || {
            NAMELESS_HOSTS
                .iter()
                .any(|host| self.imap_host.trim().eq_ignore_ascii_case(host))
        };
        match self.authserv_id.as_deref().map(str::trim) {
            Some(NAMELESS) => Some(Reporter::Nameless),
            Some(name) => Some(Reporter::Named(name)),
            None => is_nameless().then_some(Reporter::Nameless),
        }
    }

    pub(crate) fn poll_interval(&self) -> Duration {
        Duration::from_secs(self.poll_interval_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout)
    }

    /// Removes the secrets of the configuration from a text.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let secrets = [
            &self.imap_password,
            &self.smtp_password,
            &self.oauth_client_secret,
            &self.oauth_refresh_token,
        ];
        secrets
            .into_iter()
            .fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(keys: &Value) -> Value {
        let mut section = json!({
            "consentGranted": true, "imapHost": "imap.x.test", "imapUsername": "bot@x.test", "imapPassword": "s3cret",
            "smtpHost": "smtp.x.test", "smtpUsername": "bot@x.test", "smtpPassword": "s3cret",
        });
        section
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        section
    }

    #[test]
    fn section_accepts_both_spellings_and_unknown_keys() {
        let keys = json!({
            "imap_use_tls": false, "postAction": "move", "post_action_move_mailbox": "Done", "pollIntervalSeconds": 1,
            "allowFrom": ["a@x.test"], "caFile": null, "fromAddress": "Nano <Nano@X.test>",
        });
        let config = EmailConfig::from_section(&section(&keys)).unwrap();
        let expected = EmailConfig {
            consent_granted: true,
            imap_host: "imap.x.test".to_owned(),
            imap_username: "bot@x.test".to_owned(),
            imap_password: Secret::new("s3cret"),
            smtp_host: "smtp.x.test".to_owned(),
            smtp_username: "bot@x.test".to_owned(),
            smtp_password: Secret::new("s3cret"),
            imap_use_tls: Some(false),
            post_action: Some(PostAction::Move),
            post_action_move_mailbox: "Done".to_owned(),
            poll_interval_seconds: 5,
            from_address: "Nano <Nano@X.test>".to_owned(),
            ..EmailConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(
            config.own_addresses(),
            ["bot@x.test", "bot@x.test", "nano@x.test"]
        );
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn oauth_requires_its_own_keys() {
        let keys = json!({
            "auth": "oauth2", "imapPassword": null, "smtpPassword": null, "oauthClientId": "a", "oauthRefreshToken": "b",
        });
        let read = |key: &str, value: &str| {
            let mut keys = keys.clone();
            keys[key] = json!(value);
            EmailConfig::from_section(&section(&keys))
        };
        let table = [
            (
                "imapHost",
                "IMAP.gmail.com",
                Ok("https://oauth2.googleapis.com/token"),
            ),
            (
                "imapHost",
                "outlook.office365.com",
                Ok("https://login.microsoftonline.com/common/oauth2/v2.0/token"),
            ),
            (
                "oauthTokenUrl",
                "https://x.test/t?a=b",
                Ok("https://x.test/t?a=b"),
            ),
            (
                "oauthTokenUrl",
                "http://127.0.0.1:8/t",
                Ok("http://127.0.0.1:8/t"),
            ),
            (
                "oauthTokenUrl",
                "http://x.test/t",
                Err("oauthTokenUrl: is no address that begins with https://"),
            ),
            (
                "oauthTokenUrl",
                " ",
                Err("oauthTokenUrl: is empty: write the address that the provider gives tokens at"),
            ),
            (
                "oauthClientId",
                "",
                Err(
                    "oauthClientId: is empty: write what the program is registered as at the provider",
                ),
            ),
            (
                "oauthRefreshToken",
                " ",
                Err(
                    "oauthRefreshToken: is empty: write the one that the provider gave for the mailbox",
                ),
            ),
        ];
        for (key, value, expected) in table {
            let url = read(key, value).and_then(|config| config.token_url());
            let url = url
                .map(|url| url.to_string())
                .map_err(|error| error.to_string());
            assert_eq!(
                url,
                expected.map(str::to_owned).map_err(str::to_owned),
                "{key} {value}"
            );
        }
    }

    #[test]
    fn invalid_values_are_reported_by_key_only() {
        let table = [
            (
                json!({"imapPort": "s3cret"}),
                "imapPort: holds a text that cannot be used here; write a whole number",
            ),
            (
                json!({"smtpPassword": " "}),
                "smtpPassword: is empty: write the password for it, often one made for programs",
            ),
            (
                json!({"consentGranted": false}),
                "consentGranted: is false: the assistant reads and writes mail only after the owner of the mailbox \
                 agreed; write true then",
            ),
            (
                json!({"fromAddress": "me"}),
                "fromAddress: is no address: write the one that the mails come from",
            ),
            (
                json!({"postAction": "move"}),
                "postActionMoveMailbox: is empty: name the mailbox that mails are moved to",
            ),
            (
                json!({"postAction": "burn"}),
                "postAction: holds a text that cannot be used here; write \"delete\", \"move\" or null",
            ),
            (
                json!({"idleSeconds": 1740}),
                "idleSeconds: has to be a number of seconds from 1 to 1739",
            ),
        ];
        for (keys, text) in table {
            assert_eq!(
                EmailConfig::from_section(&section(&keys))
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
        assert_eq!(
            EmailConfig::from_section(&json!([]))
                .unwrap_err()
                .to_string(),
            "has to be an object"
        );
    }
    #[test]
    fn documentation_lists_the_declared_keys() {
        let table = settings::markdown(&EmailConfig::keys());
        let page = include_str!("../../../../docs/channels/email.md");
        assert!(
            page.contains(&table),
            "docs/channels/email.md lacks this table:\n\n{table}"
        );
    }
}
