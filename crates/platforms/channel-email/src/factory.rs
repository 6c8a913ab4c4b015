//! Makes channels from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, Map, RawConfig, Value,
};
use nanobot_extract::Extract;
use serde_json::json;

use crate::{EmailChannel, EmailConfig};

/// What a person has to know, in the order in which it is asked for.
const CREDENTIALS: &[Credential] = &[
    Credential::account(
        "imapHost",
        "the server that mail is read from, as your provider names it (imap.example.com)",
    ),
    Credential::account(
        "imapUsername",
        "the name of the mailbox there, most often the whole address",
    ),
    Credential::secret(
        "imapPassword",
        "its password; many providers want one made for programs, an app password",
    ),
    Credential::detail(
        "smtpHost",
        "the server that mail is sent by (smtp.example.com)",
    ),
    Credential::detail("smtpUsername", "the name there, most often the same"),
    Credential::secret("smtpPassword", "its password, most often the same"),
    Credential::detail(
        "consentGranted",
        "yes, if the owner of the mailbox agreed that the assistant reads it and writes in its name",
    ),
];

/// After how many seconds nobody waits for a send any more: getting in, being taken and bringing a large
/// mail there have their own limits, which are shorter together.
const SEND_TIMEOUT: u64 = 300;

/// The keys about the servers and about logging in there.
fn servers(config: &EmailConfig) -> Map {
    let keys = json!({
        "enabled": config.enabled,
        "consentGranted": config.consent_granted,
        "auth": "password",
        "oauthTokenUrl": config.oauth_token_url,
        "oauthClientId": config.oauth_client_id,
        "oauthClientSecret": "",
        "oauthRefreshToken": "",
        "oauthScope": config.oauth_scope,
        "proxy": null,
        "imapHost": config.imap_host,
        "imapPort": config.imap_port,
        "imapUsername": config.imap_username,
        "imapPassword": "",
        "imapMailbox": config.imap_mailbox,
        "imapUseSsl": config.imap_use_ssl,
        "imapUseTls": null,
        "smtpHost": config.smtp_host,
        "smtpPort": config.smtp_port,
        "smtpUsername": config.smtp_username,
        "smtpPassword": "",
        "smtpUseTls": config.smtp_use_tls,
        "smtpUseSsl": config.smtp_use_ssl,
        "caFile": null,
        "requestTimeout": config.request_timeout,
    });
    keys.as_object().cloned().unwrap_or_default()
}

/// The keys about mails.
fn habits(config: &EmailConfig) -> Map {
    let keys = json!({
        "fromAddress": config.from_address,
        "autoReplyEnabled": config.auto_reply_enabled,
        "pollIntervalSeconds": config.poll_interval_seconds,
        "idleSeconds": config.idle_seconds,
        "firstLookDays": config.first_look_days,
        "markSeen": config.mark_seen,
        "postAction": null,
        "postActionMoveMailbox": config.post_action_move_mailbox,
        "postActionExpunge": config.post_action_expunge,
        "postActionIgnoreSkipped": config.post_action_ignore_skipped,
        "maxBodyChars": config.max_body_chars,
        "maxMessageSize": config.max_message_size,
        "allowedAttachmentTypes": [],
        "maxAttachmentSize": config.max_attachment_size,
        "maxAttachmentsPerEmail": config.max_attachments_per_email,
        "subjectPrefix": config.subject_prefix,
        "verifyDkim": config.verify_dkim,
        "verifySpf": config.verify_spf,
        "authservId": null,
        "sessionPerThread": config.session_per_thread,
    });
    keys.as_object().cloned().unwrap_or_default()
}

/// Makes [`EmailChannel`]s.
#[derive(Clone, Debug)]
pub struct EmailFactory {
    extractor: Arc<dyn Extract>,
}

impl EmailFactory {
    /// A factory whose channels have their mails read by `extractor`.
    #[must_use]
    pub fn new(extractor: Arc<dyn Extract>) -> Self {
        Self { extractor }
    }
}

impl ChannelFactory for EmailFactory {
    fn kind(&self) -> &'static str {
        "email"
    }

    /// `allowFrom` is left out, because an empty list means nobody. Progress is off: nobody wants
    /// a mail for each step.
    fn default_config(&self) -> Value {
        let config = EmailConfig::default();
        let mut section = servers(&config);
        section.extend(habits(&config));
        section.extend([
            ("sendProgress".to_owned(), false.into()),
            ("sendToolHints".to_owned(), false.into()),
            ("sendTimeoutS".to_owned(), SEND_TIMEOUT.into()),
        ]);
        section.into()
    }

    fn credentials(&self) -> &'static [Credential] {
        CREDENTIALS
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let section = EmailConfig::from_section(&config.section)?;
        Ok(Arc::new(EmailChannel::new(
            name,
            section,
            config.proxy.as_deref(),
            config.notes.clone(),
            Arc::clone(&self.extractor),
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn the_default_section_says_what_the_defaults_are() {
        let mut section = EmailFactory::new(Arc::new(nanobot_testkit::InProcess)).default_config();
        for Credential { key, .. } in CREDENTIALS {
            let default = section[*key].take();
            section[*key] = if default.is_boolean() {
                json!(true)
            } else {
                json!("a@x.test")
            };
        }
        let text = || "a@x.test".to_owned();
        let expected = EmailConfig {
            consent_granted: true,
            imap_host: text(),
            imap_username: text(),
            imap_password: Secret::new(text()),
            smtp_host: text(),
            smtp_username: text(),
            smtp_password: Secret::new(text()),
            ..EmailConfig::default()
        };
        assert_eq!(EmailConfig::from_section(&section).unwrap(), expected);
    }
}
