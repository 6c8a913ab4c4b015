//! Lists the models that a vendor offers, which also checks the key at most vendors.

use std::sync::Arc;
use std::time::Duration;

use nanobot_provider::ProviderError;
use nanobot_types::json;
use serde_json::Value;

use crate::client::{endpoint_url, network_error};
use crate::factory::{base, faults, headers};
use crate::{BuildError, HttpClients, ProviderSettings, Selection, WireProtocol, body};

/// Time limit for one list.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of models of a list; the rest is left out.
const MODEL_LIMIT: usize = 2_000;

/// Maximum length of a model's name, in characters; a longer one is left out.
const NAME_LIMIT: usize = 200;

/// Parts of the names of models that do not chat.
const NO_CHAT: &[&str] = &[
    "embed",
    "whisper",
    "tts",
    "dall-e",
    "moderation",
    "transcribe",
    "rerank",
    "realtime",
    "gpt-image",
    "imagen",
    "davinci-002",
    "babbage-002",
    "sora",
    "veo-",
];

/// Parts of the names of models that chat, but not as an assistant: they classify, describe
/// pictures or complete text.
const NO_ASSISTANT: &[&str] = &[
    "guard", "safety", "reward", "ocr", "vision", "-vl", "audio", "video", "image", "speech",
    "omni", "math", "-base", "translat", "parse", "retriev", "detect", "clip", "tiny",
];

/// Families of models that call tools well, the preferred first.
const FAMILIES: &[&str] = &[
    "deepseek-v3",
    "kimi-k2",
    "glm-4",
    "qwen3-235b",
    "gpt-oss-120b",
    "llama-3.3-70b",
    "minimax-m2",
    "doubao-seed",
    "ernie-4",
    "step-2",
    "step-",
    "mimo",
    "longcat",
    "qwen3",
    "claude",
    "gpt-",
    "deepseek",
    "llama",
    "qwen",
    "instruct",
    "chat",
];

/// Chooses a model of a vendor without a usual one: the first of the preferred families in the
/// vendor's list, or else the first model that can be an assistant.
#[must_use]
pub fn assistant_model(listed: &[String]) -> Option<&String> {
    let folded = |name: &String| name.to_lowercase();
    let can_assist = |name: &&String| {
        let name = folded(name);
        !NO_ASSISTANT.iter().any(|part| name.contains(part))
    };
    FAMILIES
        .iter()
        .find_map(|family| {
            let is_of_family = |name: &&String| folded(name).contains(family);
            listed.iter().filter(can_assist).find(is_of_family)
        })
        .or_else(|| listed.iter().find(can_assist))
        .or_else(|| listed.first())
}

/// Error of listing a vendor's models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The configuration of the vendor is incomplete or invalid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The vendor has no list, so nothing is known about the key.
    #[error("there is no list of models")]
    Unlisted,
    /// The vendor refused the request, or did not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Returns the names of the chat models that a provider lists, in its order. Takes at most 20 s.
///
/// # Errors
/// Returns [`ListError::Unlisted`] if the provider has no list, and [`ListError::Provider`] if it
/// refuses the key or cannot be reached.
pub async fn list_models(
    selection: &Selection,
    settings: &ProviderSettings,
    http: &Arc<HttpClients>,
) -> Result<Vec<String>, ListError> {
    match tokio::time::timeout(TIMEOUT, list(selection, settings, http)).await {
        Ok(listed) => listed,
        Err(_elapsed) => Err(ProviderError::Stalled(TIMEOUT).into()),
    }
}

async fn list(
    selection: &Selection,
    settings: &ProviderSettings,
    http: &Arc<HttpClients>,
) -> Result<Vec<String>, ListError> {
    let Selection { name, spec } = selection;
    if spec.sign_in.is_some() {
        return Err(ListError::Unlisted);
    }
    let http = settings.http(name, Arc::clone(http))?;
    let base = base(name, spec, settings)?;
    let url = match spec.wire {
        WireProtocol::OpenAi => endpoint_url(base, "models"),
        WireProtocol::Anthropic => {
            let path = base.path().trim_end_matches('/');
            let versioned = if path.ends_with("/v1") {
                "models"
            } else {
                "v1/models"
            };
            let mut url = endpoint_url(base, versioned);
            // The page size is 20 otherwise.
            url.query_pairs_mut().append_pair("limit", "1000");
            url
        }
        WireProtocol::Unsupported(why) => {
            return Err(BuildError::Unsupported {
                label: spec.label,
                why,
            }
            .into());
        }
        // Azure lists models, but deployments have names of their own.
        WireProtocol::Azure | WireProtocol::Responses | WireProtocol::Demo => {
            return Err(ListError::Unlisted);
        }
    };
    let request = http
        .client_for(&url)?
        .get(url.clone())
        .headers(headers(name, spec, settings)?);
    let response = request
        .send()
        .await
        .map_err(|error| network_error(&url, error))?;
    let status = response.status();
    if matches!(status.as_u16(), 404 | 405 | 501) {
        return Err(ListError::Unlisted);
    }
    if !status.is_success() {
        let answer_headers = response.headers().clone();
        let text = body::error_body(response).await;
        let faults = faults(spec, settings);
        return Err(faults
            .of_status(status.as_u16(), &answer_headers, &text)
            .into());
    }
    let document = body::document(response).await?;
    names(&document).ok_or(ListError::Unlisted)
}

/// Returns the chat models in a list; `None` if the document is not a list of models.
pub(crate) fn names(document: &[u8]) -> Option<Vec<String>> {
    let document: Value = json::from_slice(document).ok()?;
    let listed = document.get("data").unwrap_or(&document).as_array()?;
    let name = |model: &Value| {
        let name = model.get("id")?.as_str()?;
        // Gemini puts the kind of the resource before the name.
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    Some(
        listed
            .iter()
            .filter_map(name)
            .filter(|name| is_printable(name) && can_chat(name))
            .take(MODEL_LIMIT)
            .collect(),
    )
}

fn is_printable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= NAME_LIMIT
        && name
            .chars()
            .all(|c| c.is_ascii_graphic() || c.is_alphanumeric() || c == ' ')
}

fn can_chat(name: &str) -> bool {
    let name = name.to_lowercase();
    !NO_CHAT.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_model_is_of_a_preferred_family() {
        for (listed, expected) in [
            (
                &[
                    "01-ai/yi-large",
                    "deepseek-ai/DeepSeek-V3.1",
                    "meta/llama-3.3-70b-instruct",
                ][..],
                Some("deepseek-ai/DeepSeek-V3.1"),
            ),
            (
                &["meta/llama-guard-4", "meta/llama-3.3-70b-instruct"],
                Some("meta/llama-3.3-70b-instruct"),
            ),
            (&["qwen-vl-max", "自有模型"], Some("自有模型")),
            (&["llama-guard-4"], Some("llama-guard-4")),
            (&[], None),
        ] {
            let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
            let chosen = assistant_model(&listed).map(String::as_str);
            assert_eq!(chosen, expected, "{listed:?}");
        }
    }

    #[test]
    fn hostile_lists_yield_only_names() {
        let long = format!(r#"{{"data":[{{"id":"{}"}}]}}"#, "x".repeat(1 << 16));
        let many = format!(
            r#"{{"data":[{}{{"id":"last"}}]}}"#,
            r#"{"id":"m"},"#.repeat(10_000)
        );
        let deep = "[".repeat(1 << 16);
        let table: &[(&str, Option<usize>)] = &[
            (
                r#"{"data":[{"id":"a"},{"id":"text-embed-1"},{"id":7},{},null]}"#,
                Some(1),
            ),
            (r#"[{"id":"models/gemini-x"}]"#, Some(1)),
            (
                r#"{"data":[{"id":"a\u001b[2Jb"},{"id":""},{"id":"a\nb"},{"id":"\u202eb"}]}"#,
                Some(0),
            ),
            (&long, Some(0)),
            (&many, Some(MODEL_LIMIT)),
            (&deep, None),
            (r#"{"data":{}}"#, None),
            ("<html>", None),
            ("", None),
        ];
        for (document, count) in table {
            let found = names(document.as_bytes()).map(|names| names.len());
            assert_eq!(found, *count, "{:?}", document.get(..40));
        }
        assert_eq!(names(br#"[{"id":"models/g"}]"#).unwrap(), ["g"]);
    }
}
