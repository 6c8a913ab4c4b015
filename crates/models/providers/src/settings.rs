//! Settings of a provider.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use nanobot_types::{Map, ProviderName};
use reqwest::Url;

use crate::build_error::section_key;
use crate::{ApiKey, BuildError, HttpClients, ProviderSpec, Quirks, ReasoningParam, WireProtocol};

/// Fields of a request body that `extraBody` may not replace: the conversation, its tools and the
/// model are those that the assistant decided on, and only a stream can be read.
const OWN_FIELDS: &[&str] = &[
    "model",
    "messages",
    "input",
    "system",
    "instructions",
    "tools",
    "stream",
];

/// The API to use of a provider that may have two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiType {
    /// Chat Completions, except for models that only Responses serves.
    #[default]
    Auto,
    /// Chat Completions.
    ChatCompletions,
    /// Responses.
    Responses,
}

/// Configuration of a provider.
#[derive(Clone, Default)]
pub struct ProviderSettings {
    /// The API key.
    pub api_key: Option<ApiKey>,
    /// The base address, if it is not the default.
    pub api_base: Option<String>,
    /// HTTP headers sent with each request.
    pub extra_headers: BTreeMap<String, String>,
    /// Query parameters added to the URL of each request.
    pub extra_query: BTreeMap<String, String>,
    /// Fields of each request body. They replace fields of the same name; nested objects are not
    /// merged.
    pub extra_body: Map,
    /// The proxy of this provider: empty for none, `None` for that of all providers.
    pub proxy: Option<String>,
    /// The API to use.
    pub api_type: ApiType,
    /// The parameter that controls reasoning, if it is not the one of the table row. Only Chat
    /// Completions has a choice.
    pub thinking: Option<ReasoningParam>,
    /// The folder with the tokens of logins. A provider with a login needs one.
    pub token_folder: Option<PathBuf>,
    /// The address of the login server, if it is not the vendor's.
    pub login_base: Option<String>,
}

/// Omits headers, query, body and proxy, which may contain keys.
impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSettings")
            .field("api_key", &self.api_key)
            .field("api_base", &self.api_base)
            .field("api_type", &self.api_type)
            .field("thinking", &self.thinking)
            .finish_non_exhaustive()
    }
}

impl ProviderSettings {
    /// Returns the HTTP clients of the provider: the shared ones, or its own if it has a proxy.
    pub(crate) fn http(
        &self,
        name: &ProviderName,
        shared: Arc<HttpClients>,
    ) -> Result<Arc<HttpClients>, BuildError> {
        let Some(proxy) = &self.proxy else {
            return Ok(shared);
        };
        let own = HttpClients::new(Some(proxy)).map_err(|error| BuildError::BadProxy {
            section: section_key(name),
            reason: error.reason().to_owned(),
        })?;
        Ok(Arc::new(own))
    }

    /// Adds the query parameters to an address.
    pub(crate) fn add_query(&self, url: &mut Url) {
        if !self.extra_query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.extra_query);
        }
    }

    /// Returns the fields to add to request bodies.
    pub(crate) fn body(&self, name: &ProviderName) -> Result<ExtraBody, BuildError> {
        let is_own = |field: &&String| OWN_FIELDS.contains(&field.as_str());
        match self.extra_body.keys().find(is_own) {
            Some(field) => Err(BuildError::OwnField {
                section: section_key(name),
                field: field.clone(),
            }),
            None => Ok(ExtraBody(self.extra_body.clone())),
        }
    }

    /// Returns the protocol in which the provider serves a model, given in its own spelling.
    pub(crate) fn wire(
        &self,
        name: &ProviderName,
        spec: &ProviderSpec,
        model: &str,
    ) -> Result<WireProtocol, BuildError> {
        let needs_responses = spec.needs_responses(model);
        match (self.api_type, spec.wire) {
            (ApiType::Auto, WireProtocol::OpenAi) if needs_responses => Ok(WireProtocol::Responses),
            (ApiType::Responses, WireProtocol::OpenAi) => Ok(WireProtocol::Responses),
            (ApiType::Auto, wire)
            | (ApiType::ChatCompletions, wire @ (WireProtocol::OpenAi | WireProtocol::Azure))
            | (ApiType::Responses, wire @ WireProtocol::Responses) => Ok(wire),
            (ApiType::ChatCompletions | ApiType::Responses, _) => Err(BuildError::ApiType {
                label: spec.label,
                section: section_key(name),
            }),
        }
    }

    /// Returns the row with the reasoning parameter of these settings.
    pub(crate) fn adapted(&self, spec: &ProviderSpec) -> ProviderSpec {
        let thinking = self.thinking.unwrap_or(spec.quirks.thinking);
        let quirks = Quirks {
            thinking,
            ..spec.quirks
        };
        ProviderSpec { quirks, ..*spec }
    }
}

/// Fields that the configuration adds to request bodies.
#[derive(Clone, Default)]
pub(crate) struct ExtraBody(Map);

/// Omits the fields, which may contain keys.
impl fmt::Debug for ExtraBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraBody").finish_non_exhaustive()
    }
}

impl ExtraBody {
    /// Adds these fields to those of a body.
    pub(crate) fn add_to(&self, fields: &mut Map) {
        fields.extend(self.0.clone());
    }
}
