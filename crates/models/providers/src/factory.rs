//! Builds providers from their configuration.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use nanobot_provider::Provider;
use nanobot_types::{ModelId, ProviderName};
use reqwest::Url;

use crate::anthropic::{self, Anthropic};
use crate::build_error::section_key;
use crate::client::endpoint_url;
use crate::demo::Demo;
use crate::fault::ErrorClassifier;
use crate::local_window::LocalWindow;
use crate::openai::OpenAi;
use crate::refusal::UnsupportedParams;
use crate::responses::Responses;
use crate::settings::ExtraBody;
use crate::sign_in::{Access, SignedIn, Wire};
use crate::{
    BuildError, CUSTOM, HttpClients, ProviderKind, ProviderSettings, ProviderSpec, Selection,
    WireProtocol,
};

/// A provider, and the model name in its spelling.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    /// The provider. Nothing has been sent or connected yet.
    pub provider: Arc<dyn Provider>,
    /// The model name to put into requests.
    pub model: ModelId,
}

/// Builds the provider of a selection for a model, given by its name in the configuration.
///
/// # Errors
/// Returns [`BuildError`] if the configuration is incomplete or invalid.
pub fn build(
    selection: &Selection,
    settings: &ProviderSettings,
    model: &str,
    http: Arc<HttpClients>,
) -> Result<ClientConnection, BuildError> {
    let Selection { name, spec } = selection;
    let model = selection.wire_model(model);
    let parts = Parts {
        selection,
        settings,
        http: settings.http(name, http)?,
        extra_body: settings.body(name)?,
    };
    let provider: Arc<dyn Provider> = match settings.wire(name, spec, model)? {
        WireProtocol::Demo => Arc::new(Demo::new(name.clone())),
        WireProtocol::Unsupported(why) => {
            return Err(BuildError::Unsupported {
                label: spec.label,
                why,
            });
        }
        wire if spec.sign_in.is_some() => Arc::new(parts.signed_in(wire)?),
        WireProtocol::Anthropic => Arc::new(parts.anthropic()?),
        WireProtocol::Responses => Arc::new(parts.responses()?),
        WireProtocol::OpenAi | WireProtocol::Azure => Arc::new(parts.openai()?),
    };
    Ok(ClientConnection {
        provider,
        model: model.into(),
    })
}

/// The parts of a client.
struct Parts<'a> {
    selection: &'a Selection,
    settings: &'a ProviderSettings,
    http: Arc<HttpClients>,
    extra_body: ExtraBody,
}

impl Parts<'_> {
    /// Builds a client whose headers come with the token of a login. A key has no meaning there.
    fn signed_in(self, wire: WireProtocol) -> Result<SignedIn, BuildError> {
        let name = self.selection.name.clone();
        let access = Access::of(self.selection, self.settings, Arc::clone(&self.http))?;
        let settings = ProviderSettings {
            api_key: None,
            ..self.settings.clone()
        };
        let base = settings.api_base.as_deref().unwrap_or_default();
        let has_own_base = !base.trim().is_empty();
        let parts = Parts {
            settings: &settings,
            ..self
        };
        let wire = match wire {
            WireProtocol::Responses => Wire::Responses(parts.responses()?),
            _ => Wire::OpenAi(parts.openai()?),
        };
        Ok(SignedIn {
            name,
            access,
            wire,
            has_own_base,
        })
    }

    fn anthropic(self) -> Result<Anthropic, BuildError> {
        let (Selection { name, spec }, settings) = (self.selection, self.settings);
        Ok(Anthropic {
            name: name.clone(),
            url: messages_url(base(name, spec, settings)?),
            headers: headers(name, spec, settings)?,
            extra_body: self.extra_body,
            faults: faults(spec, settings),
            http: self.http,
            refusals: UnsupportedParams::default(),
        })
    }

    /// Returns the part that asks a local server for windows. No other server is asked.
    fn window(&self) -> Result<Option<Arc<LocalWindow>>, BuildError> {
        let (Selection { name, spec }, settings) = (self.selection, self.settings);
        let Some(api) = spec.window_api.filter(|_| spec.kind == ProviderKind::Local) else {
            return Ok(None);
        };
        let (base, headers) = (base(name, spec, settings)?, headers(name, spec, settings)?);
        let http = Arc::clone(&self.http);
        Ok(Some(Arc::new(LocalWindow::new(api, base, headers, http))))
    }

    fn responses(self) -> Result<Responses, BuildError> {
        let (Selection { name, spec }, settings) = (self.selection, self.settings);
        Ok(Responses {
            window: self.window()?,
            name: name.clone(),
            spec: settings.adapted(spec),
            url: endpoint_url(base(name, spec, settings)?, "responses"),
            headers: headers(name, spec, settings)?,
            extra_body: self.extra_body,
            faults: faults(spec, settings),
            http: self.http,
            refusals: Arc::default(),
        })
    }

    fn openai(self) -> Result<OpenAi, BuildError> {
        let (Selection { name, spec }, settings) = (self.selection, self.settings);
        Ok(OpenAi {
            window: self.window()?,
            name: name.clone(),
            spec: settings.adapted(spec),
            base: base(name, spec, settings)?,
            headers: headers(name, spec, settings)?,
            extra_body: self.extra_body,
            faults: faults(spec, settings),
            http: self.http,
            refusals: Arc::default(),
        })
    }
}

pub(crate) fn faults(spec: &'static ProviderSpec, settings: &ProviderSettings) -> ErrorClassifier {
    ErrorClassifier {
        key: settings.api_key.clone(),
        key_hint: spec.key_hint,
    }
}

/// Returns the configured or default base address with the configured query, without the endpoint
/// paths that users often paste along with it.
pub(crate) fn base(
    name: &ProviderName,
    spec: &ProviderSpec,
    settings: &ProviderSettings,
) -> Result<Url, BuildError> {
    let section = || section_key(name);
    let configured = settings
        .api_base
        .as_deref()
        .map(str::trim)
        .filter(|base| !base.is_empty());
    // The default address of `custom` does not apply to a server with a name of its own.
    let usual = spec
        .base
        .filter(|_| spec.name != CUSTOM.name || name.as_str() == CUSTOM.name);
    let text = configured.or(usual).ok_or_else(|| BuildError::NoBase {
        label: spec.label,
        section: section(),
    })?;
    let bad = || BuildError::BadBase {
        section: section(),
        base: text.to_owned(),
    };
    let mut url = parse_base(text).ok_or_else(bad)?;
    // Local servers all answer under `/v1`, and users often leave it out.
    if spec.kind == ProviderKind::Local && url.path() == "/" {
        url.set_path("/v1");
    }
    settings.add_query(&mut url);
    Ok(url)
}

/// Returns the address that requests to a provider begin with: the configured one, or its default.
///
/// # Errors
/// Returns [`BuildError`] if there is none, or the configured one is invalid.
pub fn base_address(
    selection: &Selection,
    settings: &ProviderSettings,
) -> Result<String, BuildError> {
    base(&selection.name, selection.spec, settings).map(String::from)
}

/// `true` if a text is an `http` or `https` address, as `providers.<name>.apiBase` needs.
#[must_use]
pub fn is_base_address(text: &str) -> bool {
    parse_base(text.trim()).is_some()
}

/// Parses an address without the path of a single method.
fn parse_base(text: &str) -> Option<Url> {
    let mut trimmed = text.trim_end_matches('/');
    for ending in ["/chat/completions", "/responses", "/api/chat", "/messages"] {
        trimmed = trimmed
            .strip_suffix(ending)
            .unwrap_or(trimmed)
            .trim_end_matches('/');
    }
    let url = Url::parse(trimmed).ok()?;
    (matches!(url.scheme(), "http" | "https") && !url.cannot_be_a_base()).then_some(url)
}

fn messages_url(mut base: Url) -> Url {
    let path = base.path().trim_end_matches('/');
    let path = if path.ends_with("/v1") {
        format!("{path}/messages")
    } else {
        format!("{path}/v1/messages")
    };
    base.set_path(&path);
    base
}

pub(crate) fn headers(
    name: &ProviderName,
    spec: &ProviderSpec,
    settings: &ProviderSettings,
) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    match &settings.api_key {
        Some(key) => {
            let (field, value) = match spec.wire {
                WireProtocol::Anthropic => (
                    HeaderName::from_static("x-api-key"),
                    key.expose().to_owned(),
                ),
                WireProtocol::Azure => {
                    (HeaderName::from_static("api-key"), key.expose().to_owned())
                }
                WireProtocol::OpenAi
                | WireProtocol::Responses
                | WireProtocol::Demo
                | WireProtocol::Unsupported(_) => {
                    (AUTHORIZATION, format!("Bearer {}", key.expose()))
                }
            };
            let mut value =
                HeaderValue::from_str(&value).map_err(|_checked_before| BuildError::NoKey {
                    label: spec.label,
                    section: section_key(name),
                })?;
            value.set_sensitive(true);
            headers.insert(field, value);
        }
        // A custom server may need no key; if it does, it responds with an error.
        None if spec.is_keyless() || spec.name == CUSTOM.name => {}
        None => {
            return Err(BuildError::NoKey {
                label: spec.label,
                section: section_key(name),
            });
        }
    }
    if spec.wire == WireProtocol::Anthropic {
        headers.insert(
            "anthropic-version",
            HeaderValue::from_static(anthropic::VERSION),
        );
    }
    for (header, value) in &settings.extra_headers {
        let bad = || BuildError::BadHeader {
            section: section_key(name),
            header: header.clone(),
        };
        let field = HeaderName::from_bytes(header.as_bytes()).map_err(|_not_a_name| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_not_a_value| bad())?;
        value.set_sensitive(true);
        headers.insert(field, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ApiKey;

    fn spec(name: &str) -> &'static ProviderSpec {
        ProviderSpec::find(name).unwrap()
    }

    fn at(address: &str) -> ProviderSettings {
        ProviderSettings {
            api_base: Some(address.to_owned()),
            ..ProviderSettings::default()
        }
    }

    fn built(name: &str, settings: &ProviderSettings) -> Result<ClientConnection, BuildError> {
        let selection = Selection {
            name: name.into(),
            spec: spec(name),
        };
        build(
            &selection,
            settings,
            "model",
            Arc::new(HttpClients::default()),
        )
    }

    #[test]
    fn normalizes_base_urls() {
        let table = [
            ("openai", "", "https://api.openai.com/v1"),
            ("openai", " https://x.example/v1/ ", "https://x.example/v1"),
            (
                "custom",
                "https://x.example/v1/chat/completions",
                "https://x.example/v1",
            ),
            (
                "ollama",
                "http://localhost:11434",
                "http://localhost:11434/v1",
            ),
            (
                "ollama",
                "http://localhost:11434/api/chat",
                "http://localhost:11434/v1",
            ),
            ("vllm", "http://box:8000/v1", "http://box:8000/v1"),
        ];
        for (name, address, expected) in table {
            assert_eq!(
                base(&name.into(), spec(name), &at(address))
                    .unwrap()
                    .as_str(),
                expected,
                "{name} {address}"
            );
        }
        for (base, expected) in [
            (
                "https://api.anthropic.com",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                "https://api.kimi.com/coding/v1",
                "https://api.kimi.com/coding/v1/messages",
            ),
            (
                "https://api.minimax.io/anthropic",
                "https://api.minimax.io/anthropic/v1/messages",
            ),
        ] {
            assert_eq!(messages_url(Url::parse(base).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn build_errors_name_the_configuration_key() {
        let key = ProviderSettings {
            api_key: ApiKey::parse("k").unwrap(),
            ..ProviderSettings::default()
        };
        let header = ProviderSettings {
            extra_headers: BTreeMap::from([("a b".into(), "c".into())]),
            ..key.clone()
        };
        let table = [
            (
                "volcengine_coding_plan",
                ProviderSettings::default(),
                "providers.volcengineCodingPlan.apiKey",
            ),
            ("azure_openai", key.clone(), "providers.azureOpenai.apiBase"),
            (
                "vllm",
                ProviderSettings::default(),
                "providers.vllm.apiBase",
            ),
            (
                "openai",
                ProviderSettings {
                    api_base: Some("localhost".into()),
                    ..key.clone()
                },
                "providers.openai.apiBase",
            ),
            ("openai", header, "providers.openai.extraHeaders.a b"),
            ("openai_codex", key.clone(), "needs a folder"),
            ("xai_grok", key.clone(), "needs a folder"),
            ("bedrock", key, "not supported yet"),
        ];
        for (name, settings, expected) in table {
            let error = built(name, &settings).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        let own = Selection {
            name: "my_box".into(),
            spec: &CUSTOM,
        };
        let error = build(&own, &ProviderSettings::default(), "m", Arc::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("providers.myBox.apiBase"), "{error}");
        for name in ["custom", "ollama", "demo"] {
            assert!(built(name, &ProviderSettings::default()).is_ok(), "{name}");
        }
    }
}
