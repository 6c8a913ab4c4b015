//! A model vendor of one's own: a stream of events is all there is to write.
//!
//! Retries, time-outs, failover and the folding of the stream into an answer are the router's.
//! This vendor is down at first, so that one sees it being asked again.
#![expect(clippy::print_stdout, reason = "the reply goes to the terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use nanobot_agent_core::{DirectRequest, Signal};
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError, StreamEvent};
use nanobot_testkit::provider::last_user_text;
use nanobot_tool::Registry;
use nanobot_types::{FinishReason, ProviderName, Usage};

/// Says what it hears, word by word, in capitals.
#[derive(Debug)]
struct Shouting {
    name: ProviderName,
    is_up: AtomicBool,
}

#[async_trait]
impl Provider for Shouting {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        if !self.is_up.swap(true, Ordering::Relaxed) {
            let retry_after = Some(Duration::from_millis(10));
            return Err(ProviderError::RateLimited {
                retry_after,
                message: "still waking up".to_owned(),
            });
        }
        // Behind the first line stand the clock and the chat, which are not to be repeated.
        let heard = last_user_text(&request);
        let line = heard.lines().next().unwrap_or_default().to_uppercase();
        let words: Vec<StreamEvent> = line
            .split_inclusive(' ')
            .map(|word| StreamEvent::Text(word.to_owned()))
            .collect();
        let written = u64::try_from(words.len()).unwrap_or(u64::MAX);
        let usage = Usage {
            prompt_tokens: 10,
            completion_tokens: written,
            ..Usage::default()
        };
        // Without `Finished` the answer counts as cut off.
        let ending = [
            StreamEvent::Usage(usage),
            StreamEvent::Finished(FinishReason::Stop),
        ];
        Ok(Box::pin(stream::iter(
            words.into_iter().chain(ending).map(Ok),
        )))
    }
}

fn show(signal: Signal) {
    match signal {
        Signal::Delta { text, .. } => println!("delta: {text}"),
        Signal::Notice(notice) => println!("notice: {notice}"),
        Signal::StreamEnd { .. } | Signal::Thought { .. } | Signal::ToolHint(_) => {}
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let provider = Shouting {
        name: "shouting".into(),
        is_up: AtomicBool::new(false),
    };
    let agent = nanobot_examples::agent(Arc::new(provider), Registry::new());
    let request = DirectRequest::new("good morning to you").watched_by(Arc::new(show));
    let report = agent.process_direct(request).await?;
    println!("reply: {}", report.visible.unwrap_or_default());
    Ok(())
}
