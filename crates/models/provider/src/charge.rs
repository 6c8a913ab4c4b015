//! The charge of one attempt: admission, estimate, and settlement exactly once.
//!
//! Decision: the charge is settled by its drop if the attempt's future is dropped, because that is
//! how a turn is stopped and how a deadline ends a call. The vendor bills such an attempt.

use nanobot_types::{ChatMessage, Content, ContentBlock, Usage};

use crate::limit::size_of;
use crate::spend::{SpendAttempt, SpendLedger, SpendVerdict, Spent};
use crate::{CallContext, Candidate, ChatRequest, ProviderError, StreamEvent};

/// Estimated tokens of an image.
const IMAGE_TOKENS: u64 = 1000;

/// Bytes of ASCII text per token, and of other text per token: a CJK character takes three bytes
/// and about one token.
const ASCII_BYTES: u64 = 4;
const OTHER_BYTES: u64 = 3;

/// An admitted attempt that is not charged yet.
#[derive(Debug)]
pub(crate) struct OpenCharge<'a> {
    ledger: &'a dyn SpendLedger,
    attempt: SpendAttempt,
    reported: Option<Usage>,
    /// Estimated tokens of the answer so far.
    written: TextSize,
    has_begun: bool,
    is_settled: bool,
}

impl<'a> OpenCharge<'a> {
    /// Asks the ledger about an attempt. Returns the charge and a line for the user.
    ///
    /// # Errors
    /// Returns the ledger's explanation if it refuses.
    pub(crate) async fn admit(
        ledger: &'a dyn SpendLedger,
        candidate: &Candidate,
        request: &ChatRequest,
        context: &CallContext,
    ) -> Result<(Self, Option<String>), String> {
        let attempt = SpendAttempt {
            provider: candidate.provider.name().clone(),
            model: candidate.model.clone(),
            turn: context.trace.clone(),
            account: context.account.clone(),
            estimate: Usage {
                prompt_tokens: prompt_tokens(request),
                ..Usage::default()
            },
        };
        match ledger.admit(&attempt).await {
            SpendVerdict::Refused { explanation } => Err(explanation),
            SpendVerdict::Admitted { notice } => Ok((
                Self {
                    ledger,
                    attempt,
                    reported: None,
                    written: TextSize::default(),
                    has_begun: false,
                    is_settled: false,
                },
                notice,
            )),
        }
    }

    /// Counts an event of the answer.
    pub(crate) fn observe(&mut self, event: &StreamEvent) {
        self.has_begun = true;
        match event {
            StreamEvent::Usage(usage) => self.reported = Some(*usage),
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) => self.written.add(text),
            StreamEvent::ToolCall { arguments, .. } => self.written.add(arguments),
            StreamEvent::ThinkingBlock(_) | StreamEvent::Finished(_) => {}
        }
    }

    /// Charges the attempt and waits until the charge is committed. `error` ended the stream, if one
    /// did; `is_whole` is `true` if the answer is complete nevertheless.
    pub(crate) async fn settle(mut self, error: Option<&ProviderError>, is_whole: bool) {
        self.is_settled = true;
        let spent = match error {
            Some(error) if !self.has_begun && is_refusal(error) => Spent {
                failed: true,
                ..Spent::default()
            },
            _ => self.spent(!is_whole),
        };
        let ledger = self.ledger;
        ledger.charge(&self.attempt, spent);
        ledger.flush().await;
    }

    fn spent(&self, failed: bool) -> Spent {
        let estimate = Usage {
            completion_tokens: self.written.tokens(),
            ..self.attempt.estimate
        };
        Spent {
            usage: self.reported.unwrap_or(estimate),
            is_estimate: self.reported.is_none(),
            failed,
        }
    }
}

impl Drop for OpenCharge<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.ledger.charge(&self.attempt, self.spent(true));
        }
    }
}

/// `true` if the vendor did not process the request.
fn is_refusal(error: &ProviderError) -> bool {
    match error {
        ProviderError::RateLimited { .. }
        | ProviderError::Quota(_)
        | ProviderError::Auth(_)
        | ProviderError::ContextOverflow(_)
        | ProviderError::ImagesUnsupported(_)
        | ProviderError::BadRequest(_)
        | ProviderError::Server { .. }
        | ProviderError::Network(_)
        | ProviderError::Malformed(_) => true,
        ProviderError::Stalled(_) => false,
    }
}

/// Length of text by the kind of its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct TextSize {
    ascii: u64,
    other: u64,
}

impl TextSize {
    fn add(&mut self, text: &str) {
        let ascii = text.bytes().filter(u8::is_ascii).count();
        self.ascii = self.ascii.saturating_add(count(ascii));
        self.other = self.other.saturating_add(count(text.len() - ascii));
    }

    fn add_value(&mut self, value: &serde_json::Value) {
        self.ascii = self.ascii.saturating_add(count(size_of(value)));
    }

    fn tokens(self) -> u64 {
        self.ascii.div_ceil(ASCII_BYTES) + self.other.div_ceil(OTHER_BYTES)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Estimates the tokens of a request.
fn prompt_tokens(request: &ChatRequest) -> u64 {
    let mut size = TextSize::default();
    let mut images = 0;
    size.add(&request.system);
    for tool in request.tools.iter() {
        size.add(&tool.description);
        size.add_value(&tool.parameters);
    }
    for message in request.transcript.messages() {
        let content = match &**message {
            ChatMessage::System { content } => Some(content),
            ChatMessage::User(user) => Some(&user.content),
            ChatMessage::Tool(result) => Some(&result.content),
            ChatMessage::Assistant(assistant) => {
                for call in &assistant.tool_calls {
                    size.add(&call.arguments);
                }
                size.add(assistant.reasoning_content.as_deref().unwrap_or_default());
                assistant.content.as_ref()
            }
        };
        match content {
            Some(Content::Text(text)) => size.add(text),
            Some(Content::Blocks(blocks)) => {
                for block in blocks {
                    match block {
                        ContentBlock::Text { text } => size.add(text),
                        ContentBlock::ImageUrl { .. } => images += IMAGE_TOKENS,
                        ContentBlock::Other(value) => size.add_value(value),
                    }
                }
            }
            None => {}
        }
    }
    size.tokens().saturating_add(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cjk_text_counts_more_than_latin_text() {
        for (text, expected) in [("", 0), ("abcd", 1), ("abcde", 2), ("你好", 2), ("a你", 2)] {
            let mut size = TextSize::default();
            size.add(text);
            assert_eq!(size.tokens(), expected, "{text}");
        }
    }
}
