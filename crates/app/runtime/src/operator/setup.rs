//! The parts of a first setup that need the network or the home: offers, trials of keys, and the
//! choices to write.
//!
//! Decision: everything here only reads. [`onboard`](crate::onboard) writes all choices at once, so
//! that an interrupted setup leaves no trace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_config::ConfigDraft;
use nanobot_provider::{
    CallAccount, CallContext, Candidate, ChatRequest, Generation, ProviderRouter, RetryPolicy,
    ToolChoice, TurnMemo,
};
use nanobot_providers::{
    ApiKey, CUSTOM, LOCAL_SERVERS, ListError, ProviderKind, ProviderSettings, ProviderSpec,
    Section, Selection, TABLE, WireProtocol, assistant_model, build, discover_all, list_models,
    preferred,
};
use nanobot_types::{ChatMessage, FinishReason, ModelId, TraceId, Transcript};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::assembly::model;
use crate::assembly::provider_sections::{self, lists_own_models};
use crate::error::chain;
use crate::{ChannelLogin, Runtime, RuntimeError};

/// Time limit for all local servers together: a setup may wait longer than a start.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(1);

/// A provider that a setup offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProvider {
    /// Its name in the configuration.
    pub name: String,
    /// Its display name.
    pub label: String,
    /// Its usual model.
    pub default_model: Option<String>,
    /// The environment variable that has its key now.
    pub variable: Option<String>,
    /// The address of a server that was found, or has to be asked for if this is `custom`.
    pub api_base: Option<String>,
    /// `true` if it needs a key.
    pub needs_key: bool,
}

/// A provider as the user sets it up.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// Its name in the configuration.
    pub name: String,
    /// The key, or a `${NAME}` reference; `None` keeps what is configured.
    pub key: Option<String>,
    /// The address; `None` keeps what is configured.
    pub api_base: Option<String>,
}

/// Omits the key.
impl fmt::Debug for ProviderAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderAnswer")
            .field("name", &self.name)
            .field("api_base", &self.api_base)
            .finish_non_exhaustive()
    }
}

/// Result of a request to a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderTrial {
    /// The models that it lists; empty if it has no list.
    pub models: Vec<String>,
    /// `true` if it accepted the key, `false` if nothing checked it.
    pub is_checked: bool,
}

/// The choices of a setup. Empty ones change nothing.
#[derive(Debug, Default)]
pub struct SetupChoices {
    /// The provider.
    pub provider: Option<ProviderAnswer>,
    /// The provider's name and the model.
    pub model: Option<(String, String)>,
    /// The user's name.
    pub user: Option<String>,
    /// The user's time zone, if it is not the computer's.
    pub zone: Option<String>,
    /// A channel with its credentials.
    pub channel: Option<ChannelLogin>,
}

impl SetupChoices {
    pub(super) fn apply(&self, draft: &mut ConfigDraft) -> Result<(), RuntimeError> {
        if let Some(provider) = &self.provider {
            let key = |key: &str| format!("providers.{}.{key}", provider.name);
            if let Some(api_key) = &provider.key {
                draft.set(&key("apiKey"), &Value::from(api_key.as_str()))?;
            }
            if let Some(base) = &provider.api_base {
                draft.set(&key("apiBase"), &Value::from(base.as_str()))?;
            }
            draft.set(
                "agents.defaults.provider",
                &Value::from(provider.name.as_str()),
            )?;
            // The model of another provider is of no use here.
            draft.remove("agents.defaults.model")?;
        }
        if let Some((provider, model)) = &self.model {
            draft.set("agents.defaults.model", &Value::from(model.as_str()))?;
            draft.set("agents.defaults.provider", &Value::from(provider.as_str()))?;
        }
        if let Some(zone) = &self.zone {
            draft.set("agents.defaults.timezone", &Value::from(zone.as_str()))?;
        }
        if let Some(channel) = &self.channel {
            channel.apply(draft)?;
        }
        Ok(())
    }
}

/// Returns the model servers on this machine.
///
/// # Errors
/// Returns [`RuntimeError::Proxy`] if the configured proxy is invalid.
pub async fn offered_servers(runtime: &Runtime) -> Result<Vec<OfferedProvider>, RuntimeError> {
    let http = model::clients(runtime.config())?;
    let found = discover_all(LOCAL_SERVERS, &http, LOCAL_TIMEOUT).await;
    Ok(found
        .into_iter()
        .map(|server| OfferedProvider {
            label: label(server.provider.as_str()),
            name: server.provider.to_string(),
            default_model: None,
            variable: None,
            api_base: Some(server.api_base),
            needs_key: false,
        })
        .collect())
}

/// Returns the vendors: first those with a key in the environment, then the others, each in the
/// order in which keys are preferred, at last `custom`.
#[must_use]
pub fn offered_vendors(runtime: &Runtime) -> Vec<OfferedProvider> {
    let environment = runtime.config().environment();
    let keyed: Vec<Section<'_>> = TABLE
        .iter()
        .map(|spec| Section {
            name: spec.name,
            has_key: true,
            ..Section::default()
        })
        .collect();
    let vendors = preferred(&keyed).into_iter().filter(|selection| {
        matches!(
            selection.spec.kind,
            ProviderKind::Vendor | ProviderKind::Gateway
        )
    });
    let mut offered: Vec<OfferedProvider> = vendors
        .map(|selection| {
            let spec = selection.spec;
            let is_set = |name: &&&str| {
                environment
                    .variable(name)
                    .is_some_and(|text| matches!(ApiKey::parse(text), Ok(Some(_))))
            };
            OfferedProvider {
                name: spec.name.to_owned(),
                label: spec.label.to_owned(),
                default_model: spec.default_model.map(str::to_owned),
                variable: spec
                    .environment
                    .iter()
                    .find(is_set)
                    .map(ToString::to_string),
                api_base: None,
                needs_key: true,
            }
        })
        .collect();
    offered.sort_by_key(|offer| offer.variable.is_none());
    offered.push(OfferedProvider {
        name: CUSTOM.name.to_owned(),
        label: "Another server, by its address".to_owned(),
        default_model: None,
        variable: None,
        api_base: None,
        needs_key: false,
    });
    offered
}

fn label(name: &str) -> String {
    ProviderSpec::find(name)
        .map_or(name, |spec| spec.label)
        .to_owned()
}

/// Returns the configured provider and its model, if there is one that could answer.
#[must_use]
pub fn configured_provider(runtime: &Runtime) -> Option<(String, Option<String>)> {
    model::configured_provider(runtime)
}

/// Tries a provider with one cheap request: a list of its models, or a question of one token if it
/// has no list or the list needs no key.
///
/// # Errors
/// Returns the reason, for the user, if the provider cannot be used like this.
pub async fn try_provider(
    runtime: &Runtime,
    answer: &ProviderAnswer,
) -> Result<ProviderTrial, String> {
    let config = runtime.config();
    let text = |error: &RuntimeError| chain(error);
    let (mut selection, mut settings) =
        provider_sections::settings_of(config, &answer.name).map_err(|error| text(&error))?;
    if let Some(key) = &answer.key {
        let variable = key
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'))
            .and_then(|name| config.environment().variable(name));
        settings.api_key =
            ApiKey::parse(variable.unwrap_or(key)).map_err(|error| error.to_string())?;
    }
    if let Some(base) = &answer.api_base {
        settings.api_base = Some(base.clone());
    }
    let http = model::clients(config).map_err(|error| text(&error))?;
    // The same vendor that a start would find for this key and address.
    let section = Section::of(&answer.name, &settings);
    if let Some(found) = preferred(&[section]).into_iter().next() {
        selection = found;
    }
    let listed = list_models(&selection, &settings, &http).await;
    let has_list_checked_key = listed.is_ok() && !selection.spec.public_list;
    let models = match listed {
        Ok(models) => suggested_first(&selection, models),
        Err(ListError::Unlisted) => Vec::new(),
        Err(error) => return Err(error.to_string()),
    };
    let usual = selection.spec.default_model;
    if let Some(usual) = usual.filter(|_| !has_list_checked_key) {
        ask_one_token(&selection, &settings, usual, http).await?;
        return Ok(ProviderTrial {
            models,
            is_checked: true,
        });
    }
    Ok(ProviderTrial {
        models,
        is_checked: has_list_checked_key,
    })
}

/// Puts the model that a start would choose first, if the vendor has no usual one.
fn suggested_first(selection: &Selection, mut models: Vec<String>) -> Vec<String> {
    let is_open = selection.spec.default_model.is_none() && !lists_own_models(selection);
    let suggested = assistant_model(&models).filter(|_| is_open).cloned();
    if let Some(suggested) = suggested {
        models.retain(|name| *name != suggested);
        models.insert(0, suggested);
    }
    models
}

async fn ask_one_token(
    selection: &Selection,
    settings: &ProviderSettings,
    model: &str,
    http: Arc<nanobot_providers::HttpClients>,
) -> Result<(), String> {
    if matches!(selection.spec.wire, WireProtocol::Unsupported(_)) {
        return Err("this provider is not supported".to_owned());
    }
    let connection = build(selection, settings, model, http).map_err(|error| error.to_string())?;
    let generation = Generation {
        max_tokens: 1,
        ..Generation::default()
    };
    let request = ChatRequest {
        model: ModelId::from(""),
        system: "Answer with one word.".into(),
        transcript: Transcript::repair([Arc::new(ChatMessage::user("Say ok."))]).transcript,
        tools: Arc::new([]),
        tool_choice: ToolChoice::Auto,
        generation: generation.clone(),
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    };
    let candidate = Candidate {
        provider: connection.provider,
        model: connection.model,
        generation,
    };
    let policy = RetryPolicy {
        pauses: Vec::new(),
        idle: Duration::from_secs(20),
        total: Duration::from_secs(30),
        ..RetryPolicy::default()
    };
    let context = CallContext {
        trace: TraceId::from("setup"),
        deltas: None,
        cancel: CancellationToken::new(),
        account: CallAccount::default(),
    };
    let response = ProviderRouter::new([candidate], policy)
        .chat_with_failover(request, &context)
        .await;
    match response.finish_reason {
        FinishReason::Error | FinishReason::ContextOverflow => Err(response
            .content
            .unwrap_or_else(|| "it said nothing".to_owned())),
        _ => Ok(()),
    }
}

/// Returns the platforms that this program has, in alphabetical order.
#[must_use]
pub fn platforms(runtime: &Runtime) -> Vec<String> {
    let kinds = runtime.extensions().channels.kinds();
    kinds.map(str::to_owned).collect()
}
