//! A provider that is called with the token of a login.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError};
use nanobot_types::{ChatMessage, Content, ContentBlock, ProviderName};
use reqwest::Url;

use super::store::Grant;
use super::{Access, grok};
use crate::client::endpoint_url;
use crate::openai::OpenAi;
use crate::responses::Responses;
use crate::{ApiKey, SignIn};

/// The client of a protocol. It has the headers of the configuration only.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    OpenAi(OpenAi),
    Responses(Responses),
}

/// A provider with a login.
#[derive(Debug)]
pub(crate) struct SignedIn {
    pub(crate) name: ProviderName,
    pub(crate) access: Access,
    pub(crate) wire: Wire,
    /// `true` if the address is configured, so that the one of the login does not count.
    pub(crate) has_own_base: bool,
}

#[async_trait]
impl Provider for SignedIn {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let grant = self.access.grant().await?;
        match self.client(&grant, &request).stream(request.clone()).await {
            // A token may be revoked before its end.
            Err(ProviderError::Auth(_)) => {
                let grant = self.access.renewed(&grant.access_token).await?;
                self.client(&grant, &request).stream(request).await
            }
            answered => answered,
        }
    }
}

impl SignedIn {
    /// Returns the client for a request.
    fn client(&self, grant: &Grant, request: &ChatRequest) -> Arc<dyn Provider> {
        let mut headers = self.access.sign_in.headers(grant);
        match self.access.sign_in {
            SignIn::Copilot if has_images(request) => {
                headers.insert("copilot-vision-request", HeaderValue::from_static("true"));
            }
            SignIn::Grok => headers.extend(grok::model_header(request.model.as_str())),
            SignIn::Codex | SignIn::Copilot => {}
        }
        let named = grant.api.as_deref().filter(|_| !self.has_own_base);
        let named = named.and_then(|api| Url::parse(api).ok());
        let key = ApiKey::parse(grant.access_token.expose()).ok().flatten();
        match self.wire.clone() {
            Wire::OpenAi(mut client) => {
                client.headers = merged(headers, client.headers);
                client.faults.key = key;
                if let Some(api) = named {
                    client.base = with_query_of(api, &client.base);
                }
                Arc::new(client)
            }
            Wire::Responses(mut client) => {
                client.headers = merged(headers, client.headers);
                client.faults.key = key;
                if let Some(api) = named {
                    client.url = with_query_of(endpoint_url(api, "responses"), &client.url);
                }
                Arc::new(client)
            }
        }
    }
}

/// Returns both; those of the configuration count.
fn merged(mut headers: HeaderMap, configured: HeaderMap) -> HeaderMap {
    headers.extend(configured);
    headers
}

fn with_query_of(mut url: Url, configured: &Url) -> Url {
    url.set_query(configured.query());
    url
}

fn has_images(request: &ChatRequest) -> bool {
    let mut messages = request.transcript.messages().iter();
    messages.any(|message| {
        let content = match &**message {
            ChatMessage::User(user) => &user.content,
            ChatMessage::Tool(result) => &result.content,
            ChatMessage::System { .. } | ChatMessage::Assistant(_) => return false,
        };
        let is_image = |block: &ContentBlock| matches!(block, ContentBlock::ImageUrl { .. });
        matches!(content, Content::Blocks(blocks) if blocks.iter().any(is_image))
    })
}
