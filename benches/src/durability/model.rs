//! A stateless in-process model that answers in one piece, at once or after a delay.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError, StreamEvent};
use nanobot_types::{FinishReason, ProviderName};

#[derive(Debug)]
pub(super) struct InProcessModel {
    name: ProviderName,
    pause: Duration,
}

impl InProcessModel {
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            name: "in-process".into(),
            pause,
        }
    }
}

#[async_trait]
impl Provider for InProcessModel {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, _request: ChatRequest) -> Result<ChatStream, ProviderError> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        let text = StreamEvent::Text("An answer of a few words, as people get it.".to_owned());
        Ok(Box::pin(stream::iter([
            Ok(text),
            Ok(StreamEvent::Finished(FinishReason::Stop)),
        ])))
    }
}
