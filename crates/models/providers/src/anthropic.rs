//! Client for Anthropic's `/v1/messages`.
//!
//! Decision: a small client of our own, because this API differs from OpenAI's: the system prompt
//! is separate, roles alternate, signed thinking blocks must be sent back, and `cache_control`
//! marks say what to cache. Four marks are set: on the last built-in tool, on the system prompt
//! (which covers all tools), and on the two newest user messages, where they move along with the
//! conversation.

mod conversation;
pub(crate) mod events;
mod request;

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError};
use nanobot_types::ProviderName;
use reqwest::Url;

use self::conversation::{SentBlocks, conversation};
use self::events::EventReader;
use self::request::Body;
use crate::HttpClients;
use crate::event_stream::Endpoint;
use crate::fault::ErrorClassifier;
use crate::refusal::UnsupportedParams;
use crate::settings::ExtraBody;

pub(crate) use self::request::render;

/// Version of the API, sent as `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";

/// A provider that speaks `/v1/messages`.
#[derive(Debug)]
pub(crate) struct Anthropic {
    pub(crate) name: ProviderName,
    /// URL of the `messages` endpoint.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) extra_body: ExtraBody,
    pub(crate) faults: ErrorClassifier,
    pub(crate) http: Arc<HttpClients>,
    pub(crate) refusals: UnsupportedParams,
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let conversation = conversation(&self.name, &request);
        let stream = self.send(&request, &conversation).await;
        request.memo.put(conversation);
        stream
    }
}

impl Anthropic {
    /// Sends a request, again without the parameters that the vendor refuses.
    async fn send(
        &self,
        request: &ChatRequest,
        conversation: &SentBlocks,
    ) -> Result<ChatStream, ProviderError> {
        let mut refused = self.refusals.params();
        loop {
            let extra = &self.extra_body;
            let body = request::body(&self.name, request, &refused, extra, conversation);
            match self.exchange(&body).await {
                Ok(stream) => {
                    self.refusals.remember(refused);
                    return Ok(stream);
                }
                Err(error)
                    if self.refusals.add(
                        &mut refused,
                        request::OPTIONAL,
                        |member| body.parameters.contains_key(member),
                        &error,
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn exchange(&self, body: &Body<'_>) -> Result<ChatStream, ProviderError> {
        let endpoint = Endpoint {
            url: &self.url,
            headers: &self.headers,
            faults: &self.faults,
            http: &self.http,
        };
        let reader = EventReader::new(self.faults.clone());
        endpoint.exchange(body, reader).await
    }
}
