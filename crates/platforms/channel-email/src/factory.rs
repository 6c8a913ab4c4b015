//! The factory of channels, from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, RawConfig, Value,
};
use nanobot_channel_kit::settings::{default_section, section_schema};
use nanobot_extract::Extract;

use crate::{EmailChannel, EmailConfig};

/// The keys that setup asks for, in order.
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

/// Time limit of a send, in seconds. Login, acceptance and the content of a large mail have limits
/// of their own, which are shorter together.
const SEND_TIMEOUT: u64 = 300;

/// Makes [`EmailChannel`]s.
#[derive(Clone, Debug)]
pub struct EmailFactory {
    extractor: Arc<dyn Extract>,
}

impl EmailFactory {
    /// A factory of channels that parse mails with `extractor`.
    #[must_use]
    pub fn new(extractor: Arc<dyn Extract>) -> Self {
        Self { extractor }
    }
}

impl ChannelFactory for EmailFactory {
    fn kind(&self) -> &'static str {
        "email"
    }

    /// Leaves `allowFrom` out, because an empty list admits no one. Progress is off: a mail for
    /// each step is too much.
    fn default_config(&self) -> Value {
        let mut section = default_section(EmailConfig::keys());
        section.extend([
            ("sendProgress".to_owned(), false.into()),
            ("sendToolHints".to_owned(), false.into()),
            ("sendTimeoutS".to_owned(), SEND_TIMEOUT.into()),
        ]);
        section.into()
    }

    fn config_schema(&self) -> Option<Value> {
        Some(section_schema(EmailConfig::keys()))
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
    use serde_json::json;

    use super::*;
    use crate::Secret;

    #[test]
    fn default_section_lists_the_defaults() {
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
