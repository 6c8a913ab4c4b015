//! Adapts a request to one candidate.

use std::sync::Arc;

use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ProviderName, ToolMessage, Transcript,
    UserMessage,
};

use super::Candidate;
use crate::{ChatRequest, Generation};

/// Placeholder for an image that the model does not accept.
const IMAGE_OMITTED: &str = "[image omitted]";

/// Returns the request with the candidate's model and generation parameters, and without the
/// reasoning of other providers.
pub(super) fn for_candidate(request: &ChatRequest, candidate: &Candidate) -> ChatRequest {
    let mut request = request.clone();
    request.model = candidate.model.clone();
    if request.generation == Generation::default() {
        request.generation = candidate.generation.clone();
    }
    let name = candidate.provider.name();
    request.transcript = request
        .transcript
        .map(|message| without_foreign_reasoning(message, name));
    request
}

fn without_foreign_reasoning(message: &Arc<ChatMessage>, name: &ProviderName) -> Arc<ChatMessage> {
    let ChatMessage::Assistant(assistant) = &**message else {
        return Arc::clone(message);
    };
    let foreign = assistant
        .provider
        .as_ref()
        .is_some_and(|provider| provider != name);
    if !foreign || (assistant.reasoning_content.is_none() && assistant.thinking_blocks.is_empty()) {
        return Arc::clone(message);
    }
    let assistant = AssistantMessage {
        reasoning_content: None,
        thinking_blocks: Vec::new(),
        ..assistant.clone()
    };
    Arc::new(ChatMessage::Assistant(assistant))
}

pub(super) fn has_images(transcript: &Transcript) -> bool {
    transcript
        .messages()
        .iter()
        .filter_map(|message| blocks(message))
        .flatten()
        .any(is_image)
}

/// Returns the conversation with a placeholder in place of each image.
pub(super) fn without_images(transcript: Transcript) -> Transcript {
    transcript.map(|message| {
        if !blocks(message).into_iter().flatten().any(is_image) {
            return Arc::clone(message);
        }
        Arc::new(match &**message {
            ChatMessage::User(user) => ChatMessage::User(UserMessage {
                content: described(&user.content),
                media: user.media.clone(),
            }),
            ChatMessage::Tool(tool) => ChatMessage::Tool(ToolMessage {
                content: described(&tool.content),
                ..tool.clone()
            }),
            other => other.clone(),
        })
    })
}

/// Returns the blocks of a message that may contain images.
fn blocks(message: &ChatMessage) -> Option<&[ContentBlock]> {
    match message {
        ChatMessage::User(UserMessage {
            content: Content::Blocks(blocks),
            ..
        })
        | ChatMessage::Tool(ToolMessage {
            content: Content::Blocks(blocks),
            ..
        }) => Some(blocks),
        _ => None,
    }
}

fn is_image(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::ImageUrl { .. })
}

fn described(content: &Content) -> Content {
    let Content::Blocks(blocks) = content else {
        return content.clone();
    };
    let describe = |block: &ContentBlock| {
        if is_image(block) {
            ContentBlock::Text {
                text: IMAGE_OMITTED.to_owned(),
            }
        } else {
            block.clone()
        }
    };
    Content::Blocks(blocks.iter().map(describe).collect())
}
