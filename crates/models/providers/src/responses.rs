//! Client for OpenAI's `/responses`.
//!
//! Decision: nothing is stored at the vendor (`store: false`), so each request carries the whole
//! conversation. The model's reasoning comes encrypted; it is kept as it is and sent back to the
//! provider that made it, because a model continues better with it. If the provider cannot read it
//! any more, after a login at another account for example, the request is repeated without it.

pub(crate) mod events;
mod request;

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use nanobot_provider::{ChatRequest, ChatStream, ContextWindow, Provider, ProviderError};
use nanobot_types::{ModelId, ProviderName};
use reqwest::Url;

use self::events::ResponseReader;
use crate::event_stream::Endpoint;
use crate::fault::ErrorClassifier;
use crate::local_window::LocalWindow;
use crate::refusal::UnsupportedParams;
use crate::settings::ExtraBody;
use crate::{HttpClients, ProviderKind, ProviderSpec};

pub(crate) use self::request::render;

/// A provider that speaks `/responses`.
#[derive(Clone, Debug)]
pub(crate) struct Responses {
    pub(crate) name: ProviderName,
    pub(crate) spec: ProviderSpec,
    /// URL of the `responses` endpoint.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) extra_body: ExtraBody,
    pub(crate) faults: ErrorClassifier,
    pub(crate) http: Arc<HttpClients>,
    pub(crate) refusals: Arc<UnsupportedParams>,
    /// `None` if the server does not report windows.
    pub(crate) window: Option<Arc<LocalWindow>>,
}

#[async_trait]
impl Provider for Responses {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.spec.kind == ProviderKind::Local
    }

    async fn context_window(&self, model: &ModelId) -> Option<ContextWindow> {
        self.window.as_ref()?.of(model).await
    }

    async fn stream(&self, mut request: ChatRequest) -> Result<ChatStream, ProviderError> {
        if let Some(window) = &self.window {
            window.limit_output(&mut request);
        }
        let mut refused = self.refusals.params();
        let mut with_reasoning = true;
        let mut input = request::input(&self.name, &request, with_reasoning);
        loop {
            let body = request::body(&self.spec, &request, &refused, &self.extra_body, &input);
            let is_sent = |member: &str| body.parameters.contains_key(member);
            match self.exchange(&body).await {
                Ok(stream) => {
                    self.refusals.remember(refused);
                    if with_reasoning {
                        request.memo.put(input);
                    }
                    return Ok(stream);
                }
                Err(error)
                    if is_about_encryption(&error)
                        && with_reasoning
                        && request::has_reasoning(&self.name, &request) =>
                {
                    tracing::debug!("retrying without the reasoning of earlier turns");
                    with_reasoning = false;
                    input = request::input(&self.name, &request, with_reasoning);
                }
                // Models without reasoning cannot encrypt it.
                Err(error) if is_about_encryption(&error) && refused.insert(request::INCLUDE) => {}
                Err(error)
                    if self
                        .refusals
                        .add(&mut refused, request::OPTIONAL, is_sent, &error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Responses {
    async fn exchange(&self, body: &request::Body<'_>) -> Result<ChatStream, ProviderError> {
        let endpoint = Endpoint {
            url: &self.url,
            headers: &self.headers,
            faults: &self.faults,
            http: &self.http,
        };
        let reader = ResponseReader::new(self.faults.clone());
        endpoint.exchange(body, reader).await
    }
}

/// `true` if a request was refused because of encrypted reasoning, ours or the one asked for.
fn is_about_encryption(error: &ProviderError) -> bool {
    let ProviderError::BadRequest(words) = error else {
        return false;
    };
    let words = words.to_lowercase();
    words.contains("encrypted_content") || words.contains("encrypted content")
}
