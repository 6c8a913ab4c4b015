//! The conversation of a request: the bytes of the previous one, and the rest.
//!
//! Two kinds of messages depend on what follows, and are serialised for each request: those of
//! models that take cache marks, and all from the first tool result with a picture on, whose picture
//! follows the last result.

use nanobot_provider::ChatRequest;
use serde_json::value::{RawValue, to_raw_value};

use super::request::MessageRenderer;
use super::wire::ConversationItem;
use crate::sent::SentConversation;

/// Messages of the conversation, serialised.
pub(super) type SentMessages = SentConversation<Box<RawValue>>;

/// Returns the beginning of a conversation that need not be serialised again.
pub(super) fn sent_messages(renderer: &MessageRenderer<'_>, request: &ChatRequest) -> SentMessages {
    SentMessages::of(renderer.name, request, renderer.ids(), |message, ids| {
        if MessageRenderer::has_pictures(message) {
            return None;
        }
        let rendered = renderer.message(message, ids);
        let texts = rendered.iter().map(to_raw_value).collect::<Result<_, _>>();
        texts.ok()
    })
}

/// Returns the whole conversation: what was serialised, and the rest.
pub(super) fn conversation<'a>(
    sent: &'a SentMessages,
    renderer: &MessageRenderer<'_>,
    request: &'a ChatRequest,
) -> Vec<ConversationItem<'a>> {
    let mut items: Vec<_> = sent
        .parts()
        .iter()
        .map(|text| ConversationItem::Sent(text))
        .collect();
    let (rest, mut ids) = sent.rest(request);
    let rest = renderer.messages(rest, &mut ids);
    items.extend(rest.into_iter().map(ConversationItem::New));
    items
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nanobot_provider::{Generation, ToolChoice, TurnMemo};
    use nanobot_types::{
        AssistantMessage, ChatMessage, Content, ContentBlock, ImageUrl, ProviderName, ToolCall,
        Transcript,
    };

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
        let sent = sent_messages(&renderer, request);
        let extra = ExtraBody::default();
        let body = body(&renderer, request, &Default::default(), &extra, &sent);
        let text = serde_json::to_string(&body).unwrap();
        let kept = request.transcript.messages().len() - sent.rest(request).0.len();
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
