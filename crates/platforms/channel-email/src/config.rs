//! The section of the configuration.
//!
//! `allowFrom` is not here: whoever runs the channel reads it, and answers through
//! [`nanobot_channel::Access`].

use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::{read_section, wrong};
use reqwest::Url;
use serde::Deserialize;

use crate::Secret;
use crate::authentic::Reporter;

/// The shortest pause between two polls, in seconds.
const SHORTEST_POLL: u64 = 5;
/// A server may close an IDLE that is older than 30 minutes (RFC 2177).
const LONGEST_IDLE: u64 = 29 * 60 - 1;
/// The smallest limit of a mail that leaves room for its header, in bytes.
const SMALLEST_MAIL: u32 = 65_536;

/// Where providers give access tokens, by the name of their IMAP server, as they document it.
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

/// What becomes of a mail that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PostAction {
    /// It is marked as deleted.
    Delete,
    /// It goes to the mailbox that `postActionMoveMailbox` names.
    Move,
}

/// How the channel shows the servers who it is.
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

/// The settings of one mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmailConfig {
    /// Whether the channel runs at all.
    pub enabled: bool,
    /// Whether the owner of the mailbox agrees that the assistant reads and writes mail. Without
    /// it nothing happens.
    pub consent_granted: bool,
    /// How the channel logs in, at both servers.
    pub auth: LoginMethod,
    /// Where access tokens come from; empty for providers that the channel knows.
    pub oauth_token_url: String,
    /// What the program is registered as at the provider.
    pub oauth_client_id: String,
    /// The secret of that registration, where it has one.
    pub oauth_client_secret: Secret,
    /// What access tokens are given for.
    pub oauth_refresh_token: Secret,
    /// What is asked for, where the provider wants to be told each time.
    pub oauth_scope: String,
    /// The proxy for both servers and for access tokens, instead of the one that all clients share;
    /// empty for none.
    pub proxy: Option<Secret>,
    /// The IMAP server.
    pub imap_host: String,
    /// Its port.
    pub imap_port: u16,
    /// Who logs in there.
    pub imap_username: String,
    /// The password for it.
    pub imap_password: Secret,
    /// The mailbox that is read.
    pub imap_mailbox: String,
    /// Whether the connection is encrypted from its beginning.
    pub imap_use_ssl: bool,
    /// Where it is not: whether it has to become so by STARTTLS. When the key is not there, it
    /// has to, except to an address of this machine.
    pub imap_use_tls: Option<bool>,
    /// The SMTP server.
    pub smtp_host: String,
    /// Its port.
    pub smtp_port: u16,
    /// Who logs in there.
    pub smtp_username: String,
    /// The password for it.
    pub smtp_password: Secret,
    /// Whether the connection has to become encrypted by STARTTLS.
    pub smtp_use_tls: bool,
    /// Whether the connection is encrypted from its beginning; before `smtp_use_tls`.
    pub smtp_use_ssl: bool,
    /// Certificates of authorities, as PEM, that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The sender of the assistant's mails, `name@host` or `Name <name@host>`.
    pub from_address: String,
    /// Whether mails are answered. Otherwise they are only read, and the assistant writes when a
    /// tool or a job says so.
    pub auto_reply_enabled: bool,
    /// How often the mailbox is looked at where the server cannot tell about new mail, in seconds,
    /// at least 5.
    pub poll_interval_seconds: u64,
    /// Where it can: after how many seconds the connection is checked all the same.
    pub idle_seconds: u64,
    /// How long an answer of a server may take, in seconds.
    pub request_timeout: u64,
    /// How many days before its first start a mail may have arrived to be looked at, at least 1: days
    /// begin at other times elsewhere. What arrived earlier stays as it is.
    pub first_look_days: u32,
    /// Whether mails that were dealt with are marked as read. Otherwise they carry the keyword
    /// `NanobotHandled` where the server keeps keywords.
    pub mark_seen: bool,
    /// What follows then.
    pub post_action: Option<PostAction>,
    /// Where mails are moved to.
    pub post_action_move_mailbox: String,
    /// Whether mails that are marked as deleted are removed at once.
    pub post_action_expunge: bool,
    /// Whether nothing of that happens to mails that were passed over.
    pub post_action_ignore_skipped: bool,
    /// How much of a text is shown to the assistant, in characters.
    pub max_body_chars: usize,
    /// The largest mail that is fetched whole, in bytes; of a larger one only the beginning is read.
    pub max_message_size: u32,
    /// Which attachments are kept, by media type: `application/pdf`, `image/*`, `*`.
    pub allowed_attachment_types: Vec<String>,
    /// The largest attachment that is kept, in bytes.
    pub max_attachment_size: u64,
    /// How many attachments of a mail are kept.
    pub max_attachments_per_email: usize,
    /// What the subject of an answer begins with.
    pub subject_prefix: String,
    /// Whether a mail has to be signed by the domain it says it comes from.
    pub verify_dkim: bool,
    /// Whether a mail has to come from a server that its sender's domain lets send.
    pub verify_spf: bool,
    /// The name under which the own mail server reports what it verified, or `-` for a server whose
    /// reports have no name. Without it no mail is believed while either check is on.
    pub authserv_id: Option<String>,
    /// Whether each thread is a conversation of its own. Otherwise all mails of one person are one.
    pub session_per_thread: bool,
}

impl Default for EmailConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            consent_granted: false,
            auth: LoginMethod::Password,
            oauth_token_url: String::new(),
            oauth_client_id: String::new(),
            oauth_client_secret: Secret::default(),
            oauth_refresh_token: Secret::default(),
            oauth_scope: String::new(),
            proxy: None,
            imap_host: String::new(),
            imap_port: 993,
            imap_username: String::new(),
            imap_password: Secret::default(),
            imap_mailbox: "INBOX".to_owned(),
            imap_use_ssl: true,
            imap_use_tls: None,
            smtp_host: String::new(),
            smtp_port: 587,
            smtp_username: String::new(),
            smtp_password: Secret::default(),
            smtp_use_tls: true,
            smtp_use_ssl: false,
            ca_file: None,
            from_address: String::new(),
            auto_reply_enabled: true,
            poll_interval_seconds: 30,
            idle_seconds: 60,
            request_timeout: 30,
            first_look_days: 1,
            mark_seen: true,
            post_action: None,
            post_action_move_mailbox: String::new(),
            post_action_expunge: false,
            post_action_ignore_skipped: true,
            max_body_chars: 12_000,
            max_message_size: 20_000_000,
            allowed_attachment_types: Vec::new(),
            max_attachment_size: 2_000_000,
            max_attachments_per_email: 5,
            subject_prefix: "Re: ".to_owned(),
            verify_dkim: true,
            verify_spf: true,
            authserv_id: None,
            session_per_thread: false,
        }
    }
}

impl EmailConfig {
    /// Reads a section, keys in camelCase or snake_case. `null` says nothing, unknown keys are
    /// left alone.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn from_section(section: &Value) -> Result<Self, ChannelError> {
        read_section::<Self>(section, expected)?.validated()
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
        if self.request_timeout == 0 {
            return Err(wrong(
                "requestTimeout",
                "has to be a number of seconds from 1 up",
            ));
        }
        if !(1..=LONGEST_IDLE).contains(&self.idle_seconds) {
            return Err(wrong(
                "idleSeconds",
                "has to be a number of seconds from 1 to 1739",
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

    /// Where access tokens come from.
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
        // The refresh token goes there, so nobody may listen.
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

    /// Who the assistant's mails come from: `fromAddress`, else whoever logs in.
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

    /// The addresses whose mails are the assistant's own, ASCII letters in lower case.
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

    /// `true` if mails have to be proven and no server is named whose reports are a proof, so that no
    /// mail is believed.
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

    /// `text` without the secrets of the configuration.
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

/// What to write under a key.
fn expected(key: &str) -> &'static str {
    match key {
        "auth" => "write \"password\" or \"oauth2\"",
        "postAction" => "write \"delete\", \"move\" or null",
        "allowedAttachmentTypes" => "write a list of media types like \"application/pdf\"",
        "imapPort"
        | "smtpPort"
        | "pollIntervalSeconds"
        | "idleSeconds"
        | "requestTimeout"
        | "firstLookDays"
        | "maxBodyChars"
        | "maxMessageSize"
        | "maxAttachmentSize"
        | "maxAttachmentsPerEmail" => "write a whole number",
        "imapHost"
        | "imapUsername"
        | "imapPassword"
        | "imapMailbox"
        | "smtpHost"
        | "smtpUsername"
        | "smtpPassword"
        | "caFile"
        | "fromAddress"
        | "postActionMoveMailbox"
        | "subjectPrefix"
        | "authservId"
        | "proxy"
        | "oauthTokenUrl"
        | "oauthClientId"
        | "oauthClientSecret"
        | "oauthRefreshToken"
        | "oauthScope" => "write a text in quotes",
        _ => "write true or false",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn a_section_is_read_with_defaults_in_both_spellings_and_with_unknown_keys() {
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
    fn without_a_password_other_things_are_needed() {
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
    fn what_cannot_work_is_named_without_its_value() {
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
            ": has to be an object"
        );
    }
}
