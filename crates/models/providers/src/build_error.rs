//! Reasons why a provider cannot be built.

use nanobot_types::ProviderName;

/// Reason why a provider cannot be built. Each message names the configuration key to correct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The API key is missing.
    #[error("{label} needs a key: set providers.{section}.apiKey in the configuration")]
    NoKey {
        /// The vendor's display name.
        label: &'static str,
        /// The configuration section.
        section: String,
    },
    /// The base address is missing.
    #[error(
        "the address of {label} is not known: set providers.{section}.apiBase in the configuration"
    )]
    NoBase {
        /// The vendor's display name.
        label: &'static str,
        /// The configuration section.
        section: String,
    },
    /// The base address is invalid.
    #[error("providers.{section}.apiBase is not an http or https address: {base:?}")]
    BadBase {
        /// The configuration section.
        section: String,
        /// The configured value.
        base: String,
    },
    /// A header is invalid.
    #[error("providers.{section}.extraHeaders.{header} is not a header field that can be sent")]
    BadHeader {
        /// The configuration section.
        section: String,
        /// The header's name.
        header: String,
    },
    /// The proxy is invalid.
    #[error(
        "providers.{section}.proxy is not a valid proxy address (http://host:port or socks5://host:port): {reason}"
    )]
    BadProxy {
        /// The configuration section.
        section: String,
        /// The problem, without the address, which may contain a password.
        reason: String,
    },
    /// An additional field of the body would replace a part of the conversation.
    #[error("providers.{section}.extraBody.{field} cannot be set: nanobot fills this field itself")]
    OwnField {
        /// The configuration section.
        section: String,
        /// The field.
        field: String,
    },
    /// The address of the login server is invalid.
    #[error("providers.{section}.loginBase is not an https address")]
    BadLoginBase {
        /// The configuration section.
        section: String,
    },
    /// The vendor does not have the configured API.
    #[error("{label} does not have the API that providers.{section}.apiType names; remove the key")]
    ApiType {
        /// The vendor's display name.
        label: &'static str,
        /// The configuration section.
        section: String,
    },
    /// The vendor's protocol is not supported yet.
    #[error("{label}: {why}")]
    Unsupported {
        /// The vendor's display name.
        label: &'static str,
        /// The missing feature, and what to do instead.
        why: &'static str,
    },
}

/// Returns the configuration key of a provider's section.
pub(crate) fn section_key(name: &ProviderName) -> String {
    let mut words = name.as_str().split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut key, word| {
        let mut chars = word.chars();
        key.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        key.extend(chars);
        key
    })
}
