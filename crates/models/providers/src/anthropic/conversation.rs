//! The conversation as content blocks, each serialised once a turn.

use std::borrow::Cow;

use nanobot_provider::ChatRequest;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ProviderName, ToolMessage,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::render::{CallIds, EMPTY, IMAGE_OMITTED, arguments, plain_id, tool_name};
use crate::sent::SentConversation;

const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
/// A content block, serialised, and the role that says it.
#[derive(Debug)]
pub(super) struct SentBlock {
    role: &'static str,
    block: Box<RawValue>,
}

/// Blocks of the conversation, serialised.
pub(super) type SentBlocks = SentConversation<SentBlock>;
/// Returns the conversation, of which the beginning need not be serialised again.
pub(super) fn conversation(name: &ProviderName, request: &ChatRequest) -> SentBlocks {
    SentBlocks::of(name, request, CallIds::new(plain_id), |message, ids| {
        let (role, blocks) = message_blocks(name, message, ids);
        let blocks = blocks.iter().map(|block| {
            let block = to_raw_value(block)?;
            Ok(SentBlock { role, block })
        });
        blocks.collect::<serde_json::Result<_>>().ok()
    })
}
/// Returns all blocks of the conversation, each with its role. It begins and ends with the user, with
/// a filler if needed.
pub(super) fn blocks(conversation: &SentBlocks) -> Vec<(&'static str, Cow<'_, RawValue>)> {
    let sent = conversation.parts();
    let filler = |beside: Option<&SentBlock>| {
        let is_needed = beside.is_none_or(|block| block.role != "user");
        let filler = to_raw_value(&text(EMPTY)).ok().filter(|_| is_needed)?;
        Some(("user", Cow::Owned(filler)))
    };
    let blocks = sent
        .iter()
        .map(|sent| (sent.role, Cow::Borrowed(&*sent.block)));
    let begin = filler(sent.first());
    let end = filler(sent.last()).filter(|_| !sent.is_empty());
    begin.into_iter().chain(blocks).chain(end).collect()
}

/// Returns the role and the blocks of a message.
fn message_blocks(
    name: &ProviderName,
    message: &ChatMessage,
    ids: &mut CallIds,
) -> (&'static str, Vec<Value>) {
    match message {
        // The system prompt is sent separately; a transcript has no system messages.
        ChatMessage::System { .. } => ("user", Vec::new()),
        ChatMessage::User(user) => ("user", or_empty(content(&user.content))),
        ChatMessage::Assistant(message) => ("assistant", or_empty(assistant(name, message, ids))),
        ChatMessage::Tool(result) => {
            let id = ids.result(&result.tool_call_id);
            ("user", vec![tool_result(result, &id)])
        }
    }
}

fn or_empty(mut blocks: Vec<Value>) -> Vec<Value> {
    if blocks.is_empty() {
        blocks.push(text(EMPTY));
    }
    blocks
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns the signed thinking blocks that this provider made.
pub(super) fn thoughts<'a>(
    name: &ProviderName,
    assistant_message: &'a AssistantMessage,
) -> impl Iterator<Item = &'a Value> {
    let is_own = assistant_message
        .provider
        .as_ref()
        .is_none_or(|provider| provider == name);
    let has_text = |block: &Value, member: &str| {
        block
            .get(member)
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    assistant_message
        .thinking_blocks
        .iter()
        .filter(move |block| {
            let is_signed = match block.get("type").and_then(Value::as_str) {
                Some("thinking") => has_text(block, "signature"),
                Some("redacted_thinking") => has_text(block, "data"),
                _ => false,
            };
            is_own && is_signed
        })
}

fn assistant(
    name: &ProviderName,
    assistant_message: &AssistantMessage,
    ids: &mut CallIds,
) -> Vec<Value> {
    let mut blocks: Vec<Value> = thoughts(name, assistant_message).cloned().collect();
    let words = assistant_message
        .content
        .as_ref()
        .map(Content::to_text)
        .unwrap_or_default();
    if !words.trim().is_empty() {
        blocks.push(text(&words));
    }
    let calls = assistant_message.tool_calls.iter().map(|call| {
        let name = tool_name(call.name.as_str());
        json!({ "type": "tool_use", "id": ids.call(&call.id, false), "name": name, "input": arguments(call) })
    });
    blocks.extend(calls);
    // A message may not consist of thinking blocks alone.
    if blocks.iter().all(|block| {
        block
            .get("type")
            .is_some_and(|kind| kind != "text" && kind != "tool_use")
    }) {
        blocks.push(text(EMPTY));
    }
    blocks
}

fn tool_result(result: &ToolMessage, id: &str) -> Value {
    let blocks = or_empty(content(&result.content));
    json!({ "type": "tool_result", "tool_use_id": id, "content": blocks })
}

fn content(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(words) => text_block(words).into_iter().collect(),
        Content::Blocks(blocks) => blocks.iter().filter_map(block).collect(),
    }
}

fn block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::ImageUrl { image_url } => Some(image(&image_url.url)),
        ContentBlock::Other(value) => value
            .get("text")
            .and_then(Value::as_str)
            .and_then(text_block),
    }
}

/// Returns a text block, or `None` for blank text, which the API rejects.
fn text_block(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

fn image(url: &str) -> Value {
    let Some(data) = url.strip_prefix("data:") else {
        return json!({ "type": "image", "source": { "type": "url", "url": url } });
    };
    match data.split_once(";base64,") {
        Some((kind, data)) if IMAGE_TYPES.contains(&kind) => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } })
        }
        _ => text(IMAGE_OMITTED),
    }
}
