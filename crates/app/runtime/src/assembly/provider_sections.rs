//! The sections under `providers`: their keys, and the choice of the one that answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use nanobot_config::{Config, ConfigError};
use nanobot_providers::{
    ApiKey, ApiType, CUSTOM, ProviderKind, ProviderSettings, ProviderSpec, ReasoningParam, Route,
    Section, SelectError, Selection, TABLE, is_base_address, preferred, route, select,
};
use nanobot_types::ProviderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::assembly::extensions::Extensions;
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// `providers.<name>`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProviderSection {
    /// The API key. Without it, the vendor's own environment variable is read.
    api_key: Option<String>,
    /// The base URL of the API; without it, the vendor's own.
    api_base: Option<String>,
    /// Additional headers of each request.
    extra_headers: Option<BTreeMap<String, String>>,
    /// Maximum number of concurrent requests; further ones wait. Without it, or with 0, there is no
    /// limit.
    max_concurrent: Option<usize>,
    /// Additional query parameters of each request.
    extra_query: Option<BTreeMap<String, String>>,
    /// Additional fields of each request body. They replace fields of the same name, except those of
    /// the conversation: `model`, `messages`, `input`, `system`, `instructions`, `tools` and `stream`.
    extra_body: Option<BTreeMap<String, Value>>,
    /// API of an OpenAI-compatible provider: `chat_completions`, `responses`, or `auto`, which is Chat
    /// Completions except for models of OpenAI that only Responses serves.
    api_type: ApiKind,
    /// Proxy of this provider, instead of `tools.web.proxy` and the proxy variables. Empty for none.
    proxy: Option<String>,
    /// Parameter that controls reasoning, for Chat Completions: `thinking_type`, `enable_thinking` or
    /// `reasoning_split`. Without it, that of the vendor.
    thinking_style: Option<ThinkingStyle>,
    /// Name that `nanobot status` shows.
    display_name: Option<String>,
    /// Base URL of the login server of `openai_codex`, `github_copilot` and `xai_grok`; without it,
    /// the vendor's own. All requests of a login go to it.
    login_base: Option<String>,
}

/// API of an OpenAI-compatible provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ApiKind {
    /// Chosen by the model.
    #[default]
    Auto,
    /// Chat Completions.
    ChatCompletions,
    /// Responses.
    Responses,
}

impl From<ApiKind> for ApiType {
    fn from(kind: ApiKind) -> Self {
        match kind {
            ApiKind::Auto => Self::Auto,
            ApiKind::ChatCompletions => Self::ChatCompletions,
            ApiKind::Responses => Self::Responses,
        }
    }
}

/// Parameter that controls reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ThinkingStyle {
    /// `thinking: {type}`.
    ThinkingType,
    /// `enable_thinking`.
    EnableThinking,
    /// `reasoning_split`.
    ReasoningSplit,
}

impl From<ThinkingStyle> for ReasoningParam {
    fn from(style: ThinkingStyle) -> Self {
        match style {
            ThinkingStyle::ThinkingType => Self::Type,
            ThinkingStyle::EnableThinking => Self::Flag,
            ThinkingStyle::ReasoningSplit => Self::Split,
        }
    }
}

impl ProviderSection {
    /// Returns the section as the schema knows it. Headers, query and body are free-form.
    pub(crate) fn template() -> Value {
        json!({
            "apiKey": "",
            "apiBase": null,
            "extraHeaders": {},
            "extraQuery": {},
            "extraBody": {},
            "apiType": "auto",
            "proxy": null,
            "thinkingStyle": null,
            "displayName": null,
            "loginBase": null,
            "maxConcurrent": null,
        })
    }
}

impl fmt::Debug for ProviderSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSection")
            .field("api_base", &self.api_base)
            .finish_non_exhaustive()
    }
}

/// A configured provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its display name.
    pub label: String,
    /// The configured parts: a key, an address, or both.
    pub state: String,
}

/// Checks that a section of `providers` can be read, and that its key can be sent.
pub(crate) fn check_section(config: &Config, name: &str) -> Result<(), RuntimeError> {
    let section: ProviderSection = config.section(&format!("providers.{name}"))?;
    check_base(config, name, &section)?;
    let parsed = section.api_key.as_deref().map(ApiKey::parse).transpose();
    parsed.map(drop).map_err(|source| RuntimeError::Key {
        section: name.to_owned(),
        source,
    })
}

/// Checks the addresses of all sections: a mistake in one that is not chosen would appear only when
/// it is. Other keys matter only in the chosen section.
pub(super) fn check_bases(config: &Config) -> Result<(), ConfigError> {
    for name in config.names("providers")? {
        if let Ok(section) = config.section(&format!("providers.{name}")) {
            check_base(config, &name, &section)?;
        }
    }
    Ok(())
}

fn check_base(config: &Config, name: &str, section: &ProviderSection) -> Result<(), ConfigError> {
    let base = section.api_base.as_deref().unwrap_or_default().trim();
    if base.is_empty() || is_base_address(base) {
        return Ok(());
    }
    let key = format!("providers.{name}.apiBase");
    Err(ConfigError::Unacceptable {
        origin: config.origin(&key)?,
        key,
        reason: format!("{base:?} is not an http or https address"),
    })
}

/// A provider with its key, address or login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderAccess {
    /// Its name in the configuration.
    pub name: String,
    /// Its display name.
    pub label: String,
    /// The configured parts, or the missing login.
    pub state: String,
    /// `true` if something is configured, or there is a login.
    pub is_set: bool,
}

/// Returns the providers that have something configured, for `status`.
pub(crate) fn providers(config: &Config) -> Result<Vec<ProviderStatus>, RuntimeError> {
    let shown = accesses(config)?.into_iter().filter(|access| access.is_set);
    let shown = shown.map(|ProviderAccess { label, state, .. }| ProviderStatus { label, state });
    Ok(shown.collect())
}

/// Returns the providers that have something configured, and those with a login.
pub(crate) fn accesses(config: &Config) -> Result<Vec<ProviderAccess>, RuntimeError> {
    let logged_in = nanobot_providers::logged_in(&token_folder(config));
    let sections = Sections::read(config)?;
    let is_key = |entry: &&SectionEntry| {
        ProviderSpec::find(&entry.name).is_none_or(|spec| spec.sign_in.is_none())
    };
    let keyed = sections.entries.iter().filter(is_key).filter_map(|entry| {
        let key = entry.key.as_ref().map(|_| "key set".to_owned());
        let parts: Vec<String> = key.into_iter().chain(entry.base.clone()).collect();
        (!parts.is_empty()).then(|| ProviderAccess {
            name: entry.name.clone(),
            label: entry.label(),
            state: parts.join(", "),
            is_set: true,
        })
    });
    let signed = TABLE.iter().filter(|spec| spec.sign_in.is_some());
    let signed = signed.map(|spec| {
        let is_set = logged_in.contains(&spec.name);
        let mut entries = sections.entries.iter();
        let entry = entries.find(|entry| ProviderSpec::find(&entry.name) == Some(spec));
        ProviderAccess {
            name: spec.name.to_owned(),
            label: entry.map_or_else(|| spec.label.to_owned(), SectionEntry::label),
            state: if is_set { "logged in" } else { "not logged in" }.to_owned(),
            is_set,
        }
    });
    Ok(keyed.chain(signed).collect())
}

/// Returns the folder with the tokens of logins.
pub(crate) fn token_folder(config: &Config) -> PathBuf {
    config.paths().data_dir.join("provider-logins")
}

/// Returns the names of sections whose key nothing takes, for `doctor`.
pub(crate) fn without_vendor(runtime: &Runtime) -> Vec<String> {
    let Ok(sections) = Sections::read(runtime.config()) else {
        return Vec::new();
    };
    let names = sections.without_vendor(runtime.extensions());
    names.into_iter().map(str::to_owned).collect()
}

/// `true` if there is an API key for a vendor.
pub(crate) fn has_key(config: &Config, vendor: &str) -> bool {
    let spec = ProviderSpec::find(vendor);
    let is_it =
        |entry: &SectionEntry| entry.key.is_some() && ProviderSpec::find(&entry.name) == spec;
    spec.is_some()
        && Sections::read(config).is_ok_and(|sections| sections.entries.iter().any(is_it))
}

/// Returns the settings of a provider, for its services other than models.
pub(crate) fn settings_of(
    config: &Config,
    vendor: &str,
) -> Result<(Selection, ProviderSettings), RuntimeError> {
    let spec = ProviderSpec::find(vendor).unwrap_or(&CUSTOM);
    let selection = Selection {
        name: vendor.into(),
        spec,
    };
    let settings = Sections::settings(config, &selection)?;
    Ok((selection, settings))
}

/// The sections under `providers`, and the API keys in the vendors' own environment variables.
pub(crate) struct Sections {
    entries: Vec<SectionEntry>,
}

struct SectionEntry {
    name: String,
    key: Option<ApiKey>,
    base: Option<String>,
    display_name: Option<String>,
    /// `true` if the section cannot be read, for example because a variable is not set.
    is_broken: bool,
    /// `true` if the configuration has nothing of it, only the environment.
    is_from_environment: bool,
}

impl SectionEntry {
    /// Returns the configured label, or that of the vendor.
    fn label(&self) -> String {
        let vendor = || ProviderSpec::find(&self.name).map(|spec| spec.label.to_owned());
        let configured = self.display_name.clone();
        configured
            .or_else(vendor)
            .unwrap_or_else(|| self.name.clone())
    }
}

/// A provider, and the model to ask it for.
pub(super) struct ChosenProvider {
    pub(super) selection: Selection,
    /// `None` if the server has to be asked for its models.
    pub(super) model: Option<String>,
    pub(super) is_default: bool,
    /// The other providers that could answer, if none is named.
    pub(super) others: Vec<String>,
}

impl fmt::Display for ChosenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.selection.name;
        match &self.model {
            Some(model) if self.is_default => write!(f, "{model} ({name}, by default")?,
            Some(model) => write!(f, "{model} ({name}")?,
            None if lists_own_models(&self.selection) => {
                write!(f, "the first model that {name} lists ({name}, by default")?;
            }
            None => write!(f, "a model that {name} lists ({name}, by default")?,
        }
        if !self.others.is_empty() {
            write!(f, "; also set up: {}", self.others.join(", "))?;
        }
        f.write_str(")")
    }
}

impl Sections {
    /// Reads all sections. One that cannot be read counts as empty: only the chosen one has to be
    /// valid.
    pub(crate) fn read(config: &Config) -> Result<Self, ConfigError> {
        let mut entries = Vec::new();
        for name in config.names("providers")? {
            let read = config.section::<ProviderSection>(&format!("providers.{name}"));
            let is_broken = read.is_err();
            let section = read.unwrap_or_default();
            let key = section
                .api_key
                .as_deref()
                .and_then(|text| ApiKey::parse(text).ok().flatten());
            let base = section.api_base.filter(|base| !base.trim().is_empty());
            entries.push(SectionEntry {
                is_from_environment: key.is_none() && base.is_none(),
                key: key.or_else(|| environment_key(config, &name)),
                name,
                base,
                display_name: section.display_name.filter(|name| !name.trim().is_empty()),
                is_broken,
            });
        }
        for spec in TABLE.iter().filter(|spec| {
            matches!(
                spec.kind,
                ProviderKind::Vendor | ProviderKind::Gateway | ProviderKind::Speech
            )
        }) {
            let named = entries
                .iter()
                .any(|entry| ProviderSpec::find(&entry.name) == Some(spec));
            if let Some(key) = environment_key(config, spec.name).filter(|_| !named) {
                entries.push(SectionEntry {
                    name: spec.name.to_owned(),
                    key: Some(key),
                    base: None,
                    display_name: None,
                    is_broken: false,
                    is_from_environment: true,
                });
            }
        }
        Ok(Self { entries })
    }

    /// Chooses a shipped provider and its model.
    ///
    /// If no model is named, what the configuration sets up comes before keys of the environment,
    /// and [`preferred`] orders each of them. A provider without a usual model, whose list has to
    /// be read, comes last.
    ///
    /// If none has a key, a section that cannot be read is chosen, so that its error is reported
    /// and the user is not told that there is no key.
    pub(super) fn choose(
        &self,
        defaults: &AgentDefaults,
        extensions: &Extensions,
    ) -> Result<ChosenProvider, SelectError> {
        let chosen = self.choose_from(defaults, extensions, false);
        match chosen {
            Err(SelectError::NotConfigured { .. } | SelectError::Nothing) => {
                let with_broken = self.choose_from(defaults, extensions, true);
                with_broken.or_else(|_| match self.without_vendor(extensions).first() {
                    Some(name) => Err(SelectError::NoVendor {
                        section: (*name).to_owned(),
                    }),
                    None => chosen,
                })
            }
            _ => chosen,
        }
    }

    /// Returns the provider that serves the named model, and the rule that selects it.
    pub(crate) fn route(
        &self,
        defaults: &AgentDefaults,
        extensions: &Extensions,
    ) -> Result<Route, SelectError> {
        let sections = self.shipped(extensions, None, false);
        route(&defaults.model, &defaults.provider, &sections)
    }

    /// Returns the names of sections with a key for which nothing is known that takes it: there is
    /// no vendor of that name, and they have no address.
    pub(super) fn without_vendor(&self, extensions: &Extensions) -> Vec<&str> {
        let has_user = |name: &str| {
            ProviderSpec::find(name).is_some()
                || extensions.providers.iter().any(|one| one.name() == name)
        };
        self.entries
            .iter()
            .filter(|entry| entry.key.is_some() && entry.base.is_none() && !has_user(&entry.name))
            .map(|entry| entry.name.as_str())
            .collect()
    }

    fn choose_from(
        &self,
        defaults: &AgentDefaults,
        extensions: &Extensions,
        with_broken: bool,
    ) -> Result<ChosenProvider, SelectError> {
        let is_automatic = matches!(defaults.provider.as_str(), "" | "auto");
        let all = self.shipped(extensions, None, with_broken);
        if !defaults.model.is_empty() {
            return Ok(ChosenProvider {
                selection: select(&defaults.model, &defaults.provider, &all)?,
                model: Some(defaults.model.clone()),
                is_default: false,
                others: Vec::new(),
            });
        }
        let candidates = if is_automatic {
            let mut found = preferred(&self.shipped(extensions, Some(false), with_broken));
            found.extend(preferred(&self.shipped(
                extensions,
                Some(true),
                with_broken,
            )));
            found
        } else {
            vec![select("", &defaults.provider, &all)?]
        };
        let first = candidates.first().ok_or(SelectError::Nothing)?;
        let chosen = candidates
            .iter()
            .find(|candidate| candidate.spec.default_model.is_some() || lists_own_models(candidate))
            .or_else(|| {
                candidates
                    .iter()
                    .find(|candidate| candidate.spec.lists_models())
            })
            .ok_or_else(|| SelectError::NoModel {
                label: first.spec.label.to_owned(),
            })?;
        let others = candidates
            .iter()
            .filter(|candidate| candidate.name != chosen.name)
            .map(|candidate| candidate.name.to_string())
            .collect();
        Ok(ChosenProvider {
            selection: chosen.clone(),
            model: chosen.spec.default_model.map(str::to_owned),
            is_default: true,
            others,
        })
    }

    /// Returns the sections of shipped providers, optionally only those from the environment or
    /// only the others. Those of plugged-in providers are left out: a base address in one of them
    /// does not make it an OpenAI-compatible server.
    fn shipped<'a>(
        &'a self,
        extensions: &Extensions,
        is_from_environment: Option<bool>,
        with_broken: bool,
    ) -> Vec<Section<'a>> {
        let is_plugged_in = |name: &str| {
            extensions
                .providers
                .iter()
                .any(|known| known.name() == name)
        };
        self.entries
            .iter()
            .filter(|entry| !is_plugged_in(&entry.name))
            .filter(|entry| is_from_environment.is_none_or(|is| entry.is_from_environment == is))
            .map(|entry| Section {
                name: &entry.name,
                has_key: entry.key.is_some() || (with_broken && entry.is_broken),
                key_prefix: entry.key.as_ref().map(ApiKey::prefix).unwrap_or_default(),
                api_base: entry.base.as_deref(),
            })
            .collect()
    }

    /// Returns the settings of the chosen provider.
    pub(crate) fn settings(
        config: &Config,
        selection: &Selection,
    ) -> Result<ProviderSettings, RuntimeError> {
        let names = config.names("providers")?;
        let same = |name: &&String| {
            name.as_str() == selection.name.as_str()
                || ProviderSpec::find(name).is_some_and(|spec| spec == selection.spec)
        };
        let section: ProviderSection = match names.iter().find(same) {
            Some(name) => config.section(&format!("providers.{name}"))?,
            None => ProviderSection::default(),
        };
        let written = section
            .api_key
            .as_deref()
            .map(ApiKey::parse)
            .transpose()
            .map_err(|source| RuntimeError::Key {
                section: selection.name.to_string(),
                source,
            })?;
        Ok(ProviderSettings {
            api_key: written
                .flatten()
                .or_else(|| environment_key(config, selection.name.as_str())),
            api_base: section.api_base,
            extra_headers: section.extra_headers.unwrap_or_default(),
            extra_query: section.extra_query.unwrap_or_default(),
            extra_body: section.extra_body.unwrap_or_default().into_iter().collect(),
            api_type: section.api_type.into(),
            proxy: section.proxy,
            thinking: section.thinking_style.map(ReasoningParam::from),
            token_folder: Some(token_folder(config)),
            login_base: section.login_base,
        })
    }
}

/// Returns the limits of concurrent requests of all providers that have one.
pub(crate) fn limits(config: &Config) -> Result<Vec<(ProviderName, usize)>, ConfigError> {
    let mut limits = Vec::new();
    for section in config.names("providers")? {
        // A section that cannot be read matters only if its provider is chosen.
        let read = config.section::<ProviderSection>(&format!("providers.{section}"));
        if let Ok(Some(limit)) = read.map(|read| read.max_concurrent) {
            let spec = ProviderSpec::find(&section);
            let name = spec.map_or(section.as_str(), |spec| spec.name);
            limits.push((ProviderName::from(name), limit));
        }
    }
    Ok(limits)
}

/// `true` for a server of the user, which has the models that the user put there.
pub(crate) fn lists_own_models(selection: &Selection) -> bool {
    selection.spec.kind == ProviderKind::Local || selection.spec.name == CUSTOM.name
}

/// Returns the names of the variables of this process from which it takes settings and keys, and
/// which a service would not have: API keys that the file does not set, and `NANOBOT_…` except the
/// home.
#[must_use]
pub fn shell_variables(config: &Config) -> Vec<String> {
    let has_section = |spec: &ProviderSpec| {
        let names = config.names("providers").unwrap_or_default();
        names.iter().any(|name| {
            let key = config.section::<ProviderSection>(&format!("providers.{name}"));
            let is_set = |key: ProviderSection| key.api_key.is_some_and(|key| !key.is_empty());
            ProviderSpec::find(name) == Some(spec) && key.is_ok_and(is_set)
        })
    };
    let is_set = |name: &str| {
        let value = config.environment().variable(name);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    let keys = TABLE
        .iter()
        .filter(|spec| !has_section(spec))
        .flat_map(|spec| spec.environment)
        .filter(|name| is_set(name))
        .map(|name| (*name).to_owned());
    let settings = config
        .environment()
        .variables()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("NANOBOT_") && *name != "NANOBOT_HOME")
        .map(str::to_owned);
    let names: BTreeSet<String> = keys.chain(settings).collect();
    names.into_iter().collect()
}

/// Returns the API key in the vendor's own environment variable.
fn environment_key(config: &Config, provider: &str) -> Option<ApiKey> {
    let spec = ProviderSpec::find(provider)?;
    let text = spec
        .environment
        .iter()
        .find_map(|name| config.environment().variable(name))?;
    ApiKey::parse(text).ok().flatten()
}
