//! Speech to text, as vendors offer it.
//!
//! Decision: each shape of asking is a file of its own, which knows the wire and nothing else; tries,
//! pauses and limits of time are the same for all of them. How long a recording is, is read from the
//! file where that is cheap (Ogg, WAV); elsewhere its size alone is limited.

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
use crate::fault::Faults;
use crate::{BuildError, HttpClients, ProviderSettings, Selection};
use exchange::Exchange;
use recording::{Format, seconds};
use vendor::{VENDORS, Vendor};

/// How a service is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// By a form.
    Form,
    /// With the recording inside of JSON.
    Inline,
    /// As a model in a chat.
    Chat,
    /// For a stream of events.
    Events,
    /// By bringing the recording and asking after it.
    Job,
}

impl Protocol {
    /// What may stand behind the address of the API where people give the whole one.
    fn endpoints(self) -> &'static [&'static str] {
        match self {
            Self::Form | Self::Inline => &[form::ENDPOINT],
            Self::Chat => &[chat::ENDPOINT],
            Self::Events => &[events::ENDPOINT],
            Self::Job => job::ENDPOINTS,
        }
    }
}

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
    /// How long a text is waited for.
    pub patience: SpeechPatience,
}

/// How long a text is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeechPatience {
    /// The pauses between tries of one request.
    pub pauses: [Duration; 3],
    /// The longest try.
    pub each: Duration,
    /// The longest wait for a text.
    pub total: Duration,
    /// The same where the service has to be asked again and again whether it has it.
    pub total_of_job: Duration,
    /// How often such a service is asked.
    pub poll_every: Duration,
}

impl Default for SpeechPatience {
    /// Four tries of 60 s within 75 s. A job has 100 s: a channel that gives no sign of life for two
    /// minutes is started anew.
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
    /// The service cannot be reached.
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// The service takes too long.
    #[error("the service gave no text within {seconds} s")]
    Late {
        /// How long it was waited for.
        seconds: u64,
    },
}

/// A recording and what is asked about it.
struct Question<'a> {
    recording: Bytes,
    format: Format,
    model: &'a str,
    language: Option<&'a str>,
}

impl Question<'_> {
    fn base64(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(&self.recording)
    }

    /// Names the language in an object, where it is known.
    fn tell_language(&self, object: &mut Value, field: &str) {
        if let (Some(language), Some(object)) = (self.language, object.as_object_mut()) {
            object.insert(field.to_owned(), language.into());
        }
    }
}

/// Turns recordings into text.
#[derive(Debug)]
pub struct Speech {
    /// The address of the API.
    base: Url,
    headers: HeaderMap,
    faults: Faults,
    protocol: Protocol,
    model: String,
    settings: SpeechSettings,
    http: Arc<HttpClients>,
}

impl Speech {
    /// The vendors that are asked where none is named, the preferred first.
    pub fn vendors() -> impl Iterator<Item = &'static str> {
        VENDORS.iter().map(|vendor| vendor.name)
    }

    /// A service of a vendor. Its address may be that of its API, or of transcriptions themselves.
    /// Nothing is connected.
    ///
    /// # Errors
    /// [`BuildError`], as for a model of the same vendor.
    pub fn new(
        selection: &Selection,
        provider: &ProviderSettings,
        mut settings: SpeechSettings,
        http: Arc<HttpClients>,
    ) -> Result<Self, BuildError> {
        let Selection { name, spec } = selection;
        let vendor = Vendor::of(spec.name);
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
            faults: Faults {
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

    /// What is said in a file; `mime` is what its sender called it. Waits as long as
    /// [`SpeechPatience`] says.
    ///
    /// # Errors
    /// [`SpeechError`].
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
        let question = Question {
            recording: recording.into(),
            format: Format::of(path, mime),
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
        let patience = &self.settings.patience;
        Exchange {
            base: &self.base,
            headers: &self.headers,
            faults: &self.faults,
            http: &self.http,
            patience,
            began: Instant::now(),
            total: if self.protocol == Protocol::Job {
                patience.total_of_job
            } else {
                patience.total
            },
        }
    }
}
