//! The serialised beginning of a conversation.
//!
//! Decision: the JSON of a message depends only on the messages before it, so that a turn of many
//! rounds serialises each message once and copies its bytes into the later requests. Two kinds of
//! messages depend on what follows, and are serialised for each request: those with cache marks,
//! which move, and all from the first tool result with a picture on, whose picture follows the last
//! result.

use std::sync::Arc;

use nanobot_provider::ChatRequest;
use nanobot_types::{ChatMessage, ModelId, ProviderName};
use serde_json::value::{RawValue, to_raw_value};

use super::request::MessageRenderer;
use super::wire::ConversationItem;
use crate::render::CallIds;

/// The beginning of a conversation as it was sent.
#[derive(Debug)]
pub(super) struct SentMessages {
    by: (ProviderName, ModelId),
    /// The messages that `texts` has.
    messages: Vec<Arc<ChatMessage>>,
    texts: Vec<Box<RawValue>>,
    /// The ids of their calls.
    ids: CallIds,
}

impl SentMessages {
    /// Creates an empty one.
    pub(super) fn new(renderer: &MessageRenderer<'_>, request: &ChatRequest) -> Self {
        Self {
            by: (renderer.name.clone(), request.model.clone()),
            messages: Vec::new(),
            texts: Vec::new(),
            ids: renderer.ids(),
        }
    }

    /// Takes that of the previous request, if this one begins with it, and adds the new messages.
    pub(super) fn of(renderer: &MessageRenderer<'_>, request: &ChatRequest) -> Self {
        let mut sent = request
            .memo
            .take::<Self>()
            .filter(|sent| sent.begins(renderer, request))
            .unwrap_or_else(|| Self::new(renderer, request));
        sent.add(renderer, request.transcript.messages());
        sent
    }

    fn begins(&self, renderer: &MessageRenderer<'_>, request: &ChatRequest) -> bool {
        let messages = request.transcript.messages();
        let is_same = |(sent, message): (&Arc<ChatMessage>, _)| Arc::ptr_eq(sent, message);
        (&self.by.0, &self.by.1) == (renderer.name, &request.model)
            && self.messages.len() <= messages.len()
            && self.messages.iter().zip(messages).all(is_same)
    }

    fn add(&mut self, renderer: &MessageRenderer<'_>, messages: &[Arc<ChatMessage>]) {
        for message in messages.iter().skip(self.messages.len()) {
            if MessageRenderer::has_pictures(message) {
                return;
            }
            if let Some(rendered) = renderer.message(message, &mut self.ids) {
                let Ok(text) = to_raw_value(&rendered) else {
                    return;
                };
                self.texts.push(text);
            }
            self.messages.push(Arc::clone(message));
        }
    }

    /// Returns the whole conversation: what was serialised, and the rest.
    pub(super) fn conversation<'a>(
        &'a self,
        renderer: &MessageRenderer<'_>,
        request: &'a ChatRequest,
    ) -> Vec<ConversationItem<'a>> {
        let mut items: Vec<_> = self
            .texts
            .iter()
            .map(|text| ConversationItem::Sent(text))
            .collect();
        let messages = request.transcript.messages();
        if let Some(rest) = messages
            .get(self.messages.len()..)
            .filter(|rest| !rest.is_empty())
        {
            let rest = renderer.messages(rest, &mut self.ids.clone());
            items.extend(rest.into_iter().map(ConversationItem::New));
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use nanobot_provider::{Generation, ToolChoice, TurnMemo};
    use nanobot_types::{AssistantMessage, Content, ContentBlock, ImageUrl, ToolCall, Transcript};

    use super::super::request::body;
    use super::*;
    use crate::ProviderSpec;
    use crate::settings::ExtraBody;

    fn request(messages: &[Arc<ChatMessage>], model: &str, memo: &TurnMemo) -> ChatRequest {
        ChatRequest {
            model: model.into(),
            system: "You are nanobot.".into(),
            transcript: Transcript::repair(messages.iter().cloned()).transcript,
            tools: Arc::new([]),
            tool_choice: ToolChoice::Auto,
            generation: Generation::default(),
            cache_key: None,
            estimated_tokens: None,
            memo: memo.clone(),
        }
    }

    /// Returns the body of a request as it is sent, and the number of messages that are kept.
    fn sent_body(name: &str, request: &ChatRequest) -> (String, usize) {
        let spec = ProviderSpec::find(name).unwrap();
        let name = ProviderName::from(name);
        let renderer = MessageRenderer::new(&spec.quirks, &name, &request.model);
        let sent = SentMessages::of(&renderer, request);
        let extra = ExtraBody::default();
        let body = body(&renderer, request, &Default::default(), &extra, &sent);
        let text = serde_json::to_string(&body).unwrap();
        let kept = sent.messages.len();
        request.memo.put(sent);
        (text, kept)
    }

    fn rounds(pictured: Option<usize>) -> Vec<Arc<ChatMessage>> {
        let mut messages = vec![ChatMessage::user("\"go\"\n")];
        for round in 0..6 {
            // Ids that repeat and that have to be spelled differently.
            let calls = [
                ToolCall::new("c|1", "read_file", "{\"path\": \"a\"}"),
                ToolCall::new(format!("id{round}"), "exec", "{"),
            ];
            messages.push(ChatMessage::Assistant(AssistantMessage {
                tool_calls: calls.to_vec(),
                reasoning_content: Some("hm".into()),
                ..AssistantMessage::default()
            }));
            for call in &calls {
                let mut result = ChatMessage::tool(call, "done");
                if let (true, ChatMessage::Tool(result)) = (pictured == Some(round), &mut result) {
                    let url = "data:image/png;base64,AA==".to_owned();
                    let image_url = ImageUrl { url };
                    result.content = Content::Blocks(vec![ContentBlock::ImageUrl { image_url }]);
                }
                messages.push(result);
            }
        }
        messages.into_iter().map(Arc::new).collect()
    }

    #[test]
    fn kept_bytes_are_those_of_a_request_without_them() {
        for name in ["custom", "mistral", "deepseek"] {
            for pictured in [None, Some(0), Some(3)] {
                let messages = rounds(pictured);
                let memo = TurnMemo::default();
                for round in 0..=6 {
                    let messages = &messages[..1 + round * 3];
                    let (with, kept) = sent_body(name, &request(messages, "m", &memo));
                    let alone = request(messages, "m", &TurnMemo::default());
                    assert_eq!(
                        with,
                        sent_body(name, &alone).0,
                        "{name} {pictured:?} {round}"
                    );
                    let limit = pictured.map_or(messages.len(), |round| 2 + round * 3);
                    assert_eq!(kept, messages.len().min(limit));
                }
            }
        }
    }

    #[test]
    fn bytes_of_another_conversation_or_model_are_dropped() {
        let (messages, others) = (rounds(None), rounds(None));
        let memo = TurnMemo::default();
        let wholly = |messages: &[Arc<ChatMessage>], model: &str| {
            let with = sent_body("custom", &request(messages, model, &memo)).0;
            let alone = request(messages, model, &TurnMemo::default());
            assert_eq!(with, sent_body("custom", &alone).0);
        };
        wholly(&messages, "m");
        wholly(&messages, "claude-m");
        wholly(&messages[..4], "claude-m");
        let mut changed = messages[..4].to_vec();
        changed[0] = Arc::new(ChatMessage::user("shorter"));
        wholly(&changed, "claude-m");
        wholly(&others, "claude-m");
        wholly(&[], "claude-m");
    }
}
