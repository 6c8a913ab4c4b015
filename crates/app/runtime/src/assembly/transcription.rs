//! Speech to text for channels, as configured.
//!
//! Decision: transcription uses a vendor like any other, with its key and address under
//! `providers`. If none is named, the first vendor that supports it and has a key is used. Errors
//! are logged, and recordings are then passed on as files: no message waits for a transcription
//! that cannot be made.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use nanobot_channel::{MediaRef, TranscribeError, Transcriber};
use nanobot_config::Config;
use nanobot_providers::{Speech, SpeechError, SpeechSettings, SpeechTimeouts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::assembly::{model, provider_sections};

/// `transcription`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TranscriptionConfig {
    /// Transcribes recordings.
    enabled: bool,
    /// The vendor; by default the first with a key that supports transcription.
    provider: Option<String>,
    /// The model; by default the vendor's usual one.
    model: Option<String>,
    /// The spoken language, as two or three letters; detected by default.
    language: Option<String>,
    /// The base URL, if it is not that of the vendor's models.
    api_base: Option<String>,
    /// Maximum duration of a recording, in seconds.
    #[schemars(range(min = 1, max = 600))]
    max_duration_sec: u32,
    /// Maximum size of a recording, in MB.
    #[schemars(range(min = 1, max = 100))]
    max_upload_mb: u32,
}

impl Default for TranscriptionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            provider: None,
            model: None,
            language: None,
            api_base: None,
            max_duration_sec: 120,
            max_upload_mb: 25,
        }
    }
}

impl TranscriptionConfig {
    fn settings(&self) -> SpeechSettings {
        let is_language = |language: &&String| {
            (2..=3).contains(&language.len())
                && language.bytes().all(|letter| letter.is_ascii_lowercase())
        };
        let language = non_blank(self.language.as_ref());
        let known = language.filter(is_language).cloned();
        if known.is_none() && language.is_some() {
            tracing::warn!(
                "transcription.language has to be two or three lower-case letters, such as `en`; ignoring it"
            );
        }
        SpeechSettings {
            model: non_blank(self.model.as_ref()).cloned(),
            language: known,
            max_seconds: self.max_duration_sec.clamp(1, 600),
            max_bytes: u64::from(self.max_upload_mb.clamp(1, 100)) << 20,
            timeouts: SpeechTimeouts::default(),
        }
    }
}

/// Returns the configured transcription service; `None` if there is none.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if the section cannot be read.
pub(crate) fn transcriber(config: &Config) -> Result<Option<Arc<dyn Transcriber>>, RuntimeError> {
    let section: TranscriptionConfig = config.section("transcription")?;
    if !section.enabled {
        return Ok(None);
    }
    let speech = match non_blank(section.provider.as_ref()) {
        Some(vendor) => Some(speech(config, &section, vendor)),
        None => Speech::vendors()
            .find(|vendor| provider_sections::has_key(config, vendor))
            .map(|vendor| speech(config, &section, vendor)),
    };
    let Some(speech) = speech else {
        return Ok(None);
    };
    match speech {
        Ok(speech) => Ok(Some(Arc::new(SpeechTranscriber(speech)))),
        Err(error) => {
            tracing::warn!(error = %crate::error::chain(&error), "recordings are not transcribed");
            Ok(None)
        }
    }
}

/// Returns the reason why the configured vendor cannot transcribe, if there is one.
pub(crate) fn problem(config: &Config) -> Result<Option<String>, RuntimeError> {
    let section: TranscriptionConfig = config.section("transcription")?;
    let vendor = non_blank(section.provider.as_ref()).filter(|_| section.enabled);
    let made = vendor.map(|vendor| speech(config, &section, vendor));
    let failed = made.and_then(Result::err);
    Ok(failed.map(|error| format!("transcription.provider: {}", crate::error::chain(&error))))
}

fn speech(
    config: &Config,
    section: &TranscriptionConfig,
    vendor: &str,
) -> Result<Speech, RuntimeError> {
    let (selection, mut provider) = provider_sections::settings_of(config, vendor)?;
    if let Some(base) = non_blank(section.api_base.as_ref()) {
        provider.api_base = Some(base.clone());
    }
    Ok(Speech::new(
        &selection,
        &provider,
        section.settings(),
        model::clients(config)?,
    )?)
}

/// Treats a blank string as not set.
fn non_blank(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Adapts a speech service to the trait of channels.
#[derive(Debug)]
struct SpeechTranscriber(Speech);

#[async_trait]
impl Transcriber for SpeechTranscriber {
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError> {
        let path = Path::new(&recording.location);
        self.0
            .transcribe(path, recording.mime.as_deref())
            .await
            .map_err(|error| match error {
                SpeechError::TooLong { .. } | SpeechError::TooLarge { .. } => {
                    TranscribeError::TooLong(error.to_string())
                }
                other => TranscribeError::Failed(other.to_string()),
            })
    }
}

#[cfg(test)]
mod tests {
    use nanobot_config::Environment;

    use super::*;
    use crate::assembly::load::LoadOptions;
    use crate::assembly::runtime::in_environment;

    fn built(overrides: &[(&str, &str)], variables: &[(&str, &str)]) -> Option<String> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = Environment::new(variables, Some("/nowhere".into()), "/".into());
        let overrides = overrides
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let options = LoadOptions {
            overrides,
            ..LoadOptions::default()
        };
        transcriber(in_environment(environment, options).config())
            .unwrap()
            .map(|transcriber| format!("{transcriber:?}"))
    }

    #[test]
    fn first_vendor_with_a_key_transcribes() {
        assert_eq!(built(&[], &[]), None);
        let groq = built(
            &[],
            &[("GROQ_API_KEY", "gsk_x"), ("OPENAI_API_KEY", "sk-x")],
        )
        .unwrap();
        assert!(
            groq.contains("api.groq.com") && groq.contains("whisper-large-v3"),
            "{groq}"
        );
        let openai = built(&[("providers.openai.apiKey", "sk-x")], &[]).unwrap();
        assert!(
            openai.contains("api.openai.com") && openai.contains("whisper-1"),
            "{openai}"
        );
        assert!(!openai.contains("sk-x"), "{openai}");
        let assembly = built(&[], &[("ASSEMBLYAI_API_KEY", "key-x")]).unwrap();
        assert!(
            assembly.contains("api.assemblyai.com") && assembly.contains("universal-3-pro"),
            "{assembly}"
        );
        assert!(!assembly.contains("key-x"), "{assembly}");
        let step = built(&[("providers.stepfun.apiKey", "sk-x")], &[]).unwrap();
        assert!(
            step.contains("api.stepfun.com") && step.contains("stepaudio-2.5-asr"),
            "{step}"
        );
        let mimo = built(
            &[
                ("providers.xiaomiMimo.apiKey", "sk-x"),
                ("transcription.provider", "xiaomi-mimo"),
            ],
            &[],
        );
        assert!(mimo.is_some_and(
            |mimo| mimo.contains("api.xiaomimimo.com") && mimo.contains("mimo-v2.5-asr")
        ));
    }

    #[test]
    fn invalid_transcription_settings_disable_it() {
        let key = ("GROQ_API_KEY", "gsk_x");
        assert_eq!(built(&[("transcription.enabled", "false")], &[key]), None);
        assert_eq!(
            built(&[("transcription.provider", "openai")], &[key]),
            None,
            "openai has no key"
        );
        let own = built(
            &[
                ("transcription.provider", "groq"),
                ("transcription.apiBase", "http://127.0.0.1:9/v1"),
                ("transcription.model", "own"),
                ("transcription.language", "DE!"),
                ("transcription.maxDurationSec", "9999"),
            ],
            &[key],
        )
        .unwrap();
        assert!(
            own.contains("127.0.0.1")
                && own.contains("\"own\"")
                && own.contains("max_seconds: 600"),
            "{own}"
        );
        assert!(own.contains("language: None"), "{own}");
    }
}
