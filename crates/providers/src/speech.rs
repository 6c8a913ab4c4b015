//! Speech to text over OpenAI's `/audio/transcriptions`, which Groq, SiliconFlow and many servers of
//! one's own speak too; OpenRouter takes the recording inside of JSON.
//!
//! Decision: what may go well a moment later is tried again a few times within one limit of time,
//! because a person waits. How long a recording is, is read from the file where that is cheap (Ogg,
//! WAV); elsewhere its size alone is limited.

mod recording;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http::HeaderMap;
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};

use crate::factory::{base, headers};
use crate::{ApiKey, BuildError, HttpClients, ProviderSettings, Selection};
use recording::{Format, seconds};

/// Where transcriptions are asked for, below the address of a vendor.
const ENDPOINT: &str = "/audio/transcriptions";
/// The pauses between tries.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How long it may take altogether.
const PATIENCE: Duration = Duration::from_secs(75);
/// The vendors that are known, with the models they are asked for, the preferred first.
const MODELS: &[(&str, &str)] = &[
    ("groq", "whisper-large-v3"),
    ("openai", "whisper-1"),
    ("openrouter", "openai/whisper-1"),
    ("siliconflow", "FunAudioLLM/SenseVoiceSmall"),
];
/// How much of a refusal is shown, in characters.
const SHOWN: usize = 200;

/// Limits and wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeechSettings {
    /// The model; the vendor's usual one without.
    pub model: Option<String>,
    /// The language that is spoken (ISO 639); found out without.
    pub language: Option<String>,
    /// The longest recording, in seconds.
    pub max_seconds: u32,
    /// The largest recording, in bytes.
    pub max_bytes: u64,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// It is longer than allowed.
    #[error("it lasts {seconds} s, and {limit} s are allowed")]
    TooLong {
        /// How long it is.
        seconds: u32,
        /// How long it may be.
        limit: u32,
    },
    /// It is larger than allowed.
    #[error("it has {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// It cannot be read.
    #[error("the recording cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// The service does not take it.
    #[error("the service refuses it: {status} {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the service says, shortened.
        message: String,
    },
    /// The service cannot be reached, or does not answer in time.
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
}

/// Turns recordings into text.
#[derive(Debug)]
pub struct Speech {
    url: Url,
    key: Option<ApiKey>,
    headers: HeaderMap,
    model: String,
    takes_json: bool,
    settings: SpeechSettings,
    http: Arc<HttpClients>,
}

impl Speech {
    /// The vendors that are asked where none is named, the preferred first.
    pub fn vendors() -> impl Iterator<Item = &'static str> {
        MODELS.iter().map(|(vendor, _)| *vendor)
    }

    /// A service of a vendor. Its address may be that of its API, or of transcriptions themselves.
    /// Nothing is connected.
    ///
    /// # Errors
    /// [`BuildError`], as for a model of the same vendor.
    pub fn new(
        selection: &Selection,
        provider: &ProviderSettings,
        settings: SpeechSettings,
        http: Arc<HttpClients>,
    ) -> Result<Self, BuildError> {
        let mut url = base(&selection.name, selection.spec, provider)?;
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(ENDPOINT) {
            url.set_path(&format!("{path}{ENDPOINT}"));
        }
        let usual = MODELS.iter().find(|(vendor, _)| *vendor == selection.spec.name).map_or("whisper-1", |(_, m)| m);
        Ok(Self {
            url,
            key: provider.api_key.clone(),
            headers: headers(&selection.name, selection.spec, provider)?,
            model: settings.model.clone().unwrap_or_else(|| usual.to_owned()),
            takes_json: selection.spec.name == "openrouter",
            settings,
            http,
        })
    }

    /// What is said in a file; `mime` is what its sender called it. Waits at most 75 s.
    ///
    /// # Errors
    /// [`SpeechError`].
    pub async fn transcribe(&self, path: &Path, mime: Option<&str>) -> Result<String, SpeechError> {
        let (bytes, limit) = (tokio::fs::metadata(path).await?.len(), self.settings.max_bytes);
        if bytes > limit {
            return Err(SpeechError::TooLarge { bytes, limit });
        }
        let recording = tokio::fs::read(path).await?;
        let limit = self.settings.max_seconds;
        if let Some(seconds) = seconds(&recording).filter(|seconds| *seconds > limit) {
            return Err(SpeechError::TooLong { seconds, limit });
        }
        let format = Format::of(path, mime);
        let late = |_| SpeechError::Unreachable(format!("no answer within {} s", PATIENCE.as_secs()));
        tokio::time::timeout(PATIENCE, self.ask(recording.into(), format)).await.map_err(late)?
    }

    async fn ask(&self, recording: bytes::Bytes, format: Format) -> Result<String, SpeechError> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.ask_once(&recording, format).await {
                Ok(text) => return Ok(text),
                Err((error, true)) => error,
                Err((error, false)) => return Err(error),
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tracing::debug!(%error, "a transcription is tried again");
            tokio::time::sleep(pause).await;
        }
    }

    /// One try; an error comes with whether it is worth another.
    async fn ask_once(&self, recording: &bytes::Bytes, format: Format) -> Result<String, (SpeechError, bool)> {
        let client = self.http.client_for(&self.url);
        let client = client.map_err(|error| (SpeechError::Unreachable(error.to_string()), false))?;
        let request = client.post(self.url.clone()).headers(self.headers.clone());
        let request = if self.takes_json {
            self.as_json(request, recording, format)
        } else {
            self.as_form(request, recording, format)
        };
        let lost = |error| (SpeechError::Unreachable(crate::client::network_error(&self.url, error).to_string()), true);
        let response = request.send().await.map_err(lost)?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let answer: Value = response.json().await.map_err(lost)?;
        let text = answer.get("text").and_then(Value::as_str).map(|text| text.trim().to_owned());
        let odd = || SpeechError::Refused { status: 200, message: "the answer holds no text".to_owned() };
        text.ok_or_else(|| (odd(), false))
    }

    fn as_form(&self, request: RequestBuilder, recording: &bytes::Bytes, format: Format) -> RequestBuilder {
        // Services go by the ending of the name.
        let name = format!("audio.{}", format.ending);
        let length = recording.len() as u64;
        let file = Part::stream_with_length(recording.clone(), length).file_name(name);
        let mut mime = HeaderMap::new();
        mime.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(format.mime));
        let mut form = Form::new().part("file", file.headers(mime)).text("model", self.model.clone());
        if let Some(language) = &self.settings.language {
            form = form.text("language", language.clone());
        }
        request.multipart(form)
    }

    fn as_json(&self, request: RequestBuilder, recording: &bytes::Bytes, format: Format) -> RequestBuilder {
        let data = base64::engine::general_purpose::STANDARD.encode(recording);
        let mut body = json!({"model": self.model, "input_audio": {"data": data, "format": format.ending}});
        if let (Some(language), Some(body)) = (&self.settings.language, body.as_object_mut()) {
            body.insert("language".to_owned(), language.as_str().into());
        }
        request.json(&body)
    }

    async fn refusal(&self, response: Response) -> (SpeechError, bool) {
        let status = response.status();
        let passes = matches!(
            status,
            StatusCode::REQUEST_TIMEOUT
                | StatusCode::TOO_MANY_REQUESTS
                | StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        let said: Option<Value> = response.json().await.ok();
        let said = said.as_ref().and_then(|said| said.pointer("/error/message")?.as_str()).unwrap_or_default();
        let said: String = said.chars().take(SHOWN).collect();
        let message = match &self.key {
            Some(key) => said.replace(key.expose(), "***"),
            None => said,
        };
        (SpeechError::Refused { status: status.as_u16(), message }, passes)
    }
}
