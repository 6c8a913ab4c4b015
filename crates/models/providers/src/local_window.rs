//! Asks a local server for the context window with which it runs a model.
//!
//! Decision: nothing is asked before the first request, and no model is loaded to learn its window.
//! A server that has not loaded the model is asked again at the next request, when it has. An answer
//! counts for ten minutes, because a server may be restarted with another window; a server that
//! gives none is left alone for a minute. Whatever goes wrong, the window is merely unknown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use nanobot_provider::{ChatRequest, ContextWindow};
use nanobot_types::{ModelId, json};
use reqwest::{RequestBuilder, Url};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::endpoint_url;
use crate::{HttpClients, WindowApi, body};

/// Time limit of all requests for one window.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which an answer counts.
const VALID: Duration = Duration::from_mins(10);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_mins(1);
/// Windows that a server can have. Any other number is a reporting error.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 512..=100_000_000;

/// The windows of one local server. Its provider uses one model, so one answer is remembered.
#[derive(Debug)]
pub(crate) struct LocalWindow {
    api: WindowApi,
    base: Url,
    headers: HeaderMap,
    http: Arc<HttpClients>,
    last: Mutex<Option<LastAnswer>>,
}

#[derive(Clone, Debug)]
struct LastAnswer {
    model: ModelId,
    found: Found,
    at: Instant,
}

/// Result of asking for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Window(u32),
    /// The server will know once it has loaded the model.
    NotLoaded,
    /// The server cannot be asked, or does not say.
    Nothing,
}

impl LocalWindow {
    pub(crate) fn new(
        api: WindowApi,
        base: Url,
        headers: HeaderMap,
        http: Arc<HttpClients>,
    ) -> Self {
        Self {
            api,
            base,
            headers,
            http,
            last: Mutex::default(),
        }
    }

    /// Returns the window of a model; asks the server if no recent answer is known.
    pub(crate) async fn of(&self, model: &ModelId) -> Option<ContextWindow> {
        let last = self.last(model).filter(|last| {
            let age = last.at.elapsed();
            match last.found {
                Found::Window(_) => age < VALID,
                Found::Nothing => age < PAUSE,
                Found::NotLoaded => false,
            }
        });
        let found = match last {
            Some(last) => last.found,
            None => self.ask(model).await,
        };
        match found {
            Found::Window(tokens) => Some(ContextWindow {
                tokens,
                advice: advice(self.api),
            }),
            Found::NotLoaded | Found::Nothing => None,
        }
    }

    /// Leaves half of a known window to the prompt: servers refuse an answer that could not fit, or
    /// drop the beginning of the prompt for it.
    pub(crate) fn limit_output(&self, request: &mut ChatRequest) {
        if let Some(Found::Window(tokens)) = self.last(&request.model).map(|last| last.found) {
            let limit = &mut request.generation.max_tokens;
            *limit = (*limit).min(tokens / 2);
        }
    }

    fn last(&self, model: &ModelId) -> Option<LastAnswer> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().filter(|last| last.model == *model)
    }

    async fn ask(&self, model: &ModelId) -> Found {
        let asked = tokio::time::timeout(TIMEOUT, self.find(model.as_str())).await;
        let found = asked.ok().flatten().unwrap_or(Found::Nothing);
        tracing::debug!(%model, api = ?self.api, ?found, "asked a local server for its window");
        let answer = LastAnswer {
            model: model.clone(),
            found,
            at: Instant::now(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        found
    }

    async fn find(&self, model: &str) -> Option<Found> {
        match self.api {
            WindowApi::Ollama => self.of_ollama(model).await,
            WindowApi::LmStudio => {
                let list = self.get(self.beside_api("api/v0/models")).await?;
                let entry = entry(&list, "data", model)?;
                Some(match entry.get("loaded_context_length") {
                    Some(window) => of_number(window)?,
                    None if entry.get("state")? == "loaded" => Found::Nothing,
                    None => Found::NotLoaded,
                })
            }
            WindowApi::ModelList => {
                let list = self.get(endpoint_url(self.base.clone(), "models")).await?;
                of_number(entry(&list, "data", model)?.get("max_model_len")?)
            }
            WindowApi::Props => {
                let props = self.get(self.beside_api("props")).await?;
                of_number(props.get("default_generation_settings")?.get("n_ctx")?)
            }
        }
    }

    async fn of_ollama(&self, model: &str) -> Option<Found> {
        let loaded = self.get(self.beside_api("api/ps")).await?;
        let loaded = entry(&loaded, "models", model);
        if let Some(window) = loaded.and_then(|entry| entry.get("context_length")) {
            return of_number(window);
        }
        let url = self.beside_api("api/show");
        let request = self.http.client_for(&url).ok()?.post(url);
        let shown = self
            .exchange(request.json(&json!({ "model": model })))
            .await;
        let found = shown.as_ref().and_then(of_modelfile).and_then(plausible);
        Some(match found {
            Some(window) => Found::Window(window),
            None if loaded.is_some() => Found::Nothing,
            None => Found::NotLoaded,
        })
    }

    async fn get(&self, url: Url) -> Option<Value> {
        let client = self.http.client_for(&url).ok()?;
        self.exchange(client.get(url)).await
    }

    async fn exchange(&self, request: RequestBuilder) -> Option<Value> {
        let response = request.headers(self.headers.clone()).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        json::from_slice(&body::document(response).await.ok()?).ok()
    }

    /// Returns the address of a method that is not part of the OpenAI-compatible API.
    fn beside_api(&self, method: &str) -> Url {
        let mut root = self.base.clone();
        let path = root.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        root.set_path(&path);
        endpoint_url(root, method)
    }
}

fn advice(api: WindowApi) -> &'static str {
    match api {
        WindowApi::Ollama => {
            "Start the server with OLLAMA_CONTEXT_LENGTH=16384 or more, or set num_ctx in the Modelfile."
        }
        WindowApi::LmStudio => {
            "Load the model with a larger context length (`lms load --context-length 16384`)."
        }
        WindowApi::ModelList => "Start the server with a larger --max-model-len.",
        WindowApi::Props => {
            "Start the server with a larger --ctx-size, which its --parallel slots share."
        }
    }
}

/// Returns the entry of a model in a list. Ollama's name of a model without a tag means `latest`.
fn entry<'a>(document: &'a Value, list: &str, model: &str) -> Option<&'a Value> {
    let is_it = |entry: &&Value| {
        let names = ["id", "model", "name"].iter();
        let mut names = names.filter_map(|member| entry.get(member)?.as_str());
        names.any(|name| name == model || name.strip_suffix(":latest") == Some(model))
    };
    document.get(list)?.as_array()?.iter().find(is_it)
}

/// Returns the window that the Modelfile of a model sets, at most the one that the model has.
fn of_modelfile(shown: &Value) -> Option<u64> {
    let lines = shown.get("parameters")?.as_str()?.lines();
    let set = lines.filter_map(|line| line.trim().strip_prefix("num_ctx"));
    let set: u64 = set.filter_map(|value| value.trim().parse().ok()).next()?;
    let members = shown.get("model_info").and_then(Value::as_object);
    let own = members.and_then(|members| {
        let mut members = members.iter();
        let (_, own) = members.find(|(name, _)| name.ends_with(".context_length"))?;
        own.as_u64()
    });
    Some(own.map_or(set, |own| set.min(own)))
}

fn of_number(number: &Value) -> Option<Found> {
    plausible(number.as_u64()?).map(Found::Window)
}

fn plausible(number: u64) -> Option<u32> {
    u32::try_from(number)
        .ok()
        .filter(|_| PLAUSIBLE.contains(&number))
}
