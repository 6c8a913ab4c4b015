//! Token estimates of messages, tools and images.

use nanobot_types::{AssistantMessage, ChatMessage, Content, ContentBlock, MediaRef, ToolSpec};

use super::text::estimate_tokens;

/// Tokens of a message besides its text: role and separators.
const MESSAGE: usize = 4;
/// Tokens of a tool call besides its name and arguments: an id and the JSON around it.
const CALL: usize = 12;
/// Tokens of a tool besides its name, description and schema.
const TOOL: usize = 8;
/// Tokens of an image. Providers scale large images down before they count: Anthropic charges width
/// × height / 750, at most about 1,600; OpenAI charges 85 plus 170 per 512-pixel tile, at most
/// about 1,445 in high detail.
const IMAGE: usize = 1_500;

/// Estimates the tokens of a message in a request, with its images, tool calls and reasoning.
#[must_use]
pub fn estimate_message(message: &ChatMessage) -> usize {
    MESSAGE
        + message.media().iter().map(media).sum::<usize>()
        + match message {
            ChatMessage::System { content } => estimate_content(content),
            ChatMessage::User(user) => estimate_content(&user.content),
            ChatMessage::Assistant(assistant) => estimate_assistant(assistant),
            ChatMessage::Tool(result) => {
                let name = result
                    .name
                    .as_ref()
                    .map_or(0, |name| estimate_tokens(name.as_str()));
                CALL / 2 + name + estimate_content(&result.content)
            }
        }
}

/// Estimates the tokens of the tool list.
#[must_use]
pub fn estimate_tools(tools: &[ToolSpec]) -> usize {
    let of = |tool: &ToolSpec| {
        let texts = estimate_tokens(tool.name.as_str()) + estimate_tokens(&tool.description);
        TOOL + texts + estimate_tokens(&tool.parameters.to_string())
    };
    tools.iter().map(of).sum()
}

fn estimate_assistant(assistant: &AssistantMessage) -> usize {
    let content = assistant.content.as_ref().map_or(0, estimate_content);
    let reasoning = assistant
        .reasoning_content
        .as_deref()
        .map_or(0, estimate_tokens);
    let thinking: usize = assistant
        .thinking_blocks
        .iter()
        .map(|block| estimate_tokens(&block.to_string()))
        .sum();
    let calls = assistant.tool_calls.iter();
    let calls: usize = calls
        .map(|call| CALL + estimate_tokens(call.name.as_str()) + estimate_tokens(&call.arguments))
        .sum();
    // Providers take one of the two, never both.
    content + reasoning.max(thinking) + calls
}

fn estimate_content(content: &Content) -> usize {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => estimate_tokens(text),
        ContentBlock::ImageUrl { .. } => IMAGE,
        ContentBlock::Other(value) => estimate_tokens(&value.to_string()),
    };
    match content {
        Content::Text(text) => estimate_tokens(text),
        Content::Blocks(blocks) => blocks.iter().map(block).sum(),
    }
}

/// Estimates the tokens of an attached file: images are sent, other files are only named.
fn media(media: &MediaRef) -> usize {
    let is_image = media
        .mime
        .as_deref()
        .is_some_and(|mime| mime.starts_with("image/"))
        || [".png", ".jpg", ".jpeg", ".gif", ".webp"]
            .iter()
            .any(|extension| media.location.to_ascii_lowercase().ends_with(extension));
    if is_image {
        IMAGE
    } else {
        estimate_tokens(&media.location) + MESSAGE
    }
}

#[cfg(test)]
mod tests {
    use nanobot_types::{Effect, ToolCall, ToolSource};
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_images_calls_and_tools() {
        let plain = estimate_message(&ChatMessage::user("hello"));
        assert_eq!(plain, 5);
        let mut user = nanobot_types::UserMessage {
            content: "hello".into(),
            media: Vec::new(),
        };
        user.media.push(MediaRef::new("/media/cat.PNG"));
        assert_eq!(estimate_message(&ChatMessage::User(user)), plain + IMAGE);

        let call = ToolCall::new("1", "read_file", r#"{"path":"notes.md"}"#);
        let answer = AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        };
        assert!(estimate_message(&ChatMessage::Assistant(answer)) > CALL + MESSAGE + 5);
        assert!(estimate_message(&ChatMessage::tool(&call, "text ".repeat(100))) > 100);

        let tool = ToolSpec {
            name: "read_file".into(),
            description: "Reads a file.".to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            effect: Effect::Pure,
            source: ToolSource::BuiltIn,
        };
        assert!((20..60).contains(&estimate_tools(&[tool])));
    }
}
