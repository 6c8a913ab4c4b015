//! Speech to text.
//!
//! Decision: each protocol has its own file, which knows the wire format and nothing else; retries,
//! backoff and time limits are the same for all of them. The length of a recording is read from the
//! file where that is cheap (Ogg, WAV); for other formats only the size is limited.

mod chat;
mod events;
mod exchange;
mod form;
mod inline;
mod job;
mod recording;
mod vendor;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use crate::factory::{base, headers};
use crate::fault::ErrorClassifier;
use crate::{BuildError, HttpClients, ProviderSettings, Selection};
use exchange::Exchange;
use recording::{AudioFormat, seconds};
use vendor::{VENDORS, Vendor};

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// A multipart form.
    Form,
    /// JSON that contains the recording.
    Inline,
    /// A chat with a model.
    Chat,
    /// A stream of events.
    Events,
    /// An upload, then polling for the result.
    Job,
}

impl Protocol {
    /// Returns the endpoint paths that may follow the base address if the user configured a full
    /// URL.
    fn endpoints(self) -> &'static [&'static str] {
        match self {
            Self::Form | Self::Inline => &[form::ENDPOINT],
            Self::Chat => &[chat::ENDPOINT],
            Self::Events => &[events::ENDPOINT],
            Self::Job => job::ENDPOINTS,
        }
    }
}

/// Model, language and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeechSettings {
    /// The model; the vendor's default if `None`.
    pub model: Option<String>,
    /// The spoken language (ISO 639); detected if `None`.
    pub language: Option<String>,
    /// Maximum length of a recording, in seconds.
    pub max_seconds: u32,
    /// Maximum size of a recording, in bytes.
    pub max_bytes: u64,
    /// Time limits and retries.
    pub timeouts: SpeechTimeouts,
}

/// Time limits and retries of a transcription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeechTimeouts {
    /// Pauses between the attempts of one request.
    pub pauses: [Duration; 3],
    /// Time limit for one attempt.
    pub each: Duration,
    /// Time limit for a transcription.
    pub total: Duration,
    /// Time limit for a transcription by a service that has to be polled.
    pub total_of_job: Duration,
    /// Interval between polls of such a service.
    pub poll_every: Duration,
}

impl Default for SpeechTimeouts {
    /// Four attempts of 60 s within 75 s. A job has 100 s: a channel that gives no sign of life for
    /// two minutes is restarted.
    fn default() -> Self {
        Self {
            pauses: [1, 2, 4].map(Duration::from_secs),
            each: Duration::from_secs(60),
            total: Duration::from_secs(75),
            total_of_job: Duration::from_secs(100),
            poll_every: Duration::from_secs(2),
        }
    }
}

/// Reason why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The recording is longer than allowed.
    #[error("it lasts {seconds} s, and {limit} s are allowed")]
    TooLong {
        /// Length of the recording, in seconds.
        seconds: u32,
        /// Maximum length, in seconds.
        limit: u32,
    },
    /// The recording is larger than allowed.
    #[error("it has {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// Size of the recording, in bytes.
        bytes: u64,
        /// Maximum size, in bytes.
        limit: u64,
    },
    /// The recording cannot be read.
    #[error("the recording cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// The service rejects the request or the recording.
    #[error("the service refuses it: {status} {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The service's message, truncated.
        message: String,
    },
    /// The service cannot be reached.
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// The service exceeds the time limit.
    #[error("the service gave no text within {seconds} s")]
    Late {
        /// The time limit, in seconds.
        seconds: u64,
    },
}

/// A recording with the model and language of its request.
struct TranscriptionRequest<'a> {
    recording: Bytes,
    format: AudioFormat,
    model: &'a str,
    language: Option<&'a str>,
}

impl TranscriptionRequest<'_> {
    fn base64(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(&self.recording)
    }

    /// Adds the language to an object, if it is known.
    fn tell_language(&self, object: &mut Value, field: &str) {
        if let (Some(language), Some(object)) = (self.language, object.as_object_mut()) {
            object.insert(field.to_owned(), language.into());
        }
    }
}

/// Speech-to-text client.
#[derive(Debug)]
pub struct Speech {
    /// Base address of the API.
    base: Url,
    headers: HeaderMap,
    faults: ErrorClassifier,
    protocol: Protocol,
    model: String,
    settings: SpeechSettings,
    http: Arc<HttpClients>,
}

impl Speech {
    /// Returns the vendors to try when none is configured, the preferred first.
    pub fn vendors() -> impl Iterator<Item = &'static str> {
        VENDORS.iter().map(|vendor| vendor.name)
    }

    /// Creates the client for a vendor. The configured address may be the base address of the API
    /// or the full URL of the endpoint. Nothing is connected.
    ///
    /// # Errors
    /// Returns the same [`BuildError`]s as [`build`](crate::build).
    pub fn new(
        selection: &Selection,
        provider: &ProviderSettings,
        mut settings: SpeechSettings,
        http: Arc<HttpClients>,
    ) -> Result<Self, BuildError> {
        let Selection { name, spec } = selection;
        let vendor = Vendor::of(spec.name);
        let http = provider.http(name, http)?;
        let mut url = base(name, spec, provider)?;
        let path = url.path().trim_end_matches('/').to_owned();
        let whole = vendor
            .protocol
            .endpoints()
            .iter()
            .find_map(|endpoint| path.strip_suffix(endpoint));
        url.set_path(whole.unwrap_or(&path));
        let mut headers = headers(name, spec, provider)?;
        if let (Protocol::Job, Some(key)) = (vendor.protocol, &provider.api_key)
            && let Ok(mut value) = HeaderValue::from_str(key.expose())
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        settings.max_bytes = vendor.largest.map_or(settings.max_bytes, |largest| {
            largest.min(settings.max_bytes)
        });
        Ok(Self {
            base: url,
            headers,
            faults: ErrorClassifier {
                key: provider.api_key.clone(),
                key_hint: spec.key_hint,
            },
            protocol: vendor.protocol,
            model: settings
                .model
                .clone()
                .unwrap_or_else(|| vendor.model.to_owned()),
            settings,
            http,
        })
    }

    /// Transcribes a file; `mime` is the media type that the sender gave. Waits at most as long as
    /// [`SpeechTimeouts`] allows.
    ///
    /// # Errors
    /// Returns [`SpeechError`] if there is no text.
    pub async fn transcribe(&self, path: &Path, mime: Option<&str>) -> Result<String, SpeechError> {
        let (bytes, limit) = (
            tokio::fs::metadata(path).await?.len(),
            self.settings.max_bytes,
        );
        if bytes > limit {
            return Err(SpeechError::TooLarge { bytes, limit });
        }
        let recording = tokio::fs::read(path).await?;
        let limit = self.settings.max_seconds;
        if let Some(seconds) = seconds(&recording).filter(|seconds| *seconds > limit) {
            return Err(SpeechError::TooLong { seconds, limit });
        }
        let question = TranscriptionRequest {
            recording: recording.into(),
            format: AudioFormat::of(path, mime),
            model: &self.model,
            language: self.settings.language.as_deref(),
        };
        let exchange = self.exchange();
        match self.protocol {
            Protocol::Form => form::transcribe(&exchange, &question).await,
            Protocol::Inline => inline::transcribe(&exchange, &question).await,
            Protocol::Chat => chat::transcribe(&exchange, &question).await,
            Protocol::Events => events::transcribe(&exchange, &question).await,
            Protocol::Job => job::transcribe(&exchange, &question).await,
        }
    }

    fn exchange(&self) -> Exchange<'_> {
        let timeouts = &self.settings.timeouts;
        Exchange {
            base: &self.base,
            headers: &self.headers,
            faults: &self.faults,
            http: &self.http,
            timeouts,
            began: Instant::now(),
            total: if self.protocol == Protocol::Job {
                timeouts.total_of_job
            } else {
                timeouts.total
            },
        }
    }
}
