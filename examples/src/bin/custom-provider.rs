//! A custom model provider: it only has to implement a stream of events.
//!
//! The router does retries, timeouts, failover and the assembly of the stream into an answer. This
//! provider fails the first request, which shows a retry.
#![expect(clippy::print_stdout, reason = "the reply goes to the terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nanobot_sdk::prelude::*;

/// Repeats the user's message in capitals, word by word.
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
        // The first line is the user's text; the time and the chat follow it.
        let heard = request.last_user_text();
        let line = heard.lines().next().unwrap_or_default().to_uppercase();
        let words = line.split_inclusive(' ').map(str::to_owned);
        let mut events: Vec<StreamEvent> = words.map(StreamEvent::Text).collect();
        events.push(StreamEvent::Usage(Usage {
            prompt_tokens: 10,
            completion_tokens: u64::try_from(events.len()).unwrap_or(u64::MAX),
            ..Usage::default()
        }));
        // Adds `Finished`: without it the answer counts as truncated.
        Ok(complete_answer(events))
    }
}

fn show(signal: Signal) {
    match signal {
        Signal::Delta { text, .. } => println!("delta: {text}"),
        Signal::Notice(notice) => println!("notice: {notice}"),
        Signal::StreamEnd { .. }
        | Signal::Withdrawn { .. }
        | Signal::Thought { .. }
        | Signal::ToolHint(_)
        | Signal::Activity(_) => {}
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let provider = Shouting {
        name: "shouting".into(),
        is_up: AtomicBool::new(false),
    };
    let agent = embedded_agent(Arc::new(provider), Registry::new(), ".");
    let request = DirectRequest::new("good morning to you").with_observer(Arc::new(show));
    let report = agent.process_direct(request).await?;
    println!("reply: {}", report.visible.unwrap_or_default());
    Ok(())
}
