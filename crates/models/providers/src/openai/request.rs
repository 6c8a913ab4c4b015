//! Builds the request body: the conversation and the tools.

use std::borrow::Cow;
use std::sync::Arc;

use nanobot_provider::ChatRequest;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ModelId, ProviderName, ToolCall,
    ToolMessage, ToolSource, ToolSpec,
};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::parameters::parameters;
use super::sent::{SentMessages, conversation};
use super::wire::{
    AssistantReply, Body, Call, CalledFunction, ConversationItem, Message, MessageContent, Part,
    Reasoning, Tool, ToolFunction,
};
use crate::refusal::ParamNames;
use crate::render::{
    CacheControl, CallIds, EMPTY, RenderedMessages, arguments, plain_id, short_id, text, texts,
    tool_name,
};
use crate::settings::ExtraBody;
use crate::{ProviderSpec, Quirks};

/// Introduces the pictures of tool results.
const RESULT_PICTURES: &str = "[Pictures of the tool results above]";

pub(crate) fn render(
    spec: &ProviderSpec,
    name: &ProviderName,
    request: &ChatRequest,
) -> RenderedMessages {
    RenderedMessages {
        tools: texts(&tools(&request.tools)),
        system: text(&system(&request.system)),
        messages: {
            let renderer = MessageRenderer::new(&spec.quirks, name, &request.model);
            let messages = request.transcript.messages();
            texts(&renderer.messages(messages, &mut renderer.ids()))
        },
    }
}

/// Returns the request body, without the parameters in `refused` and with those in `extra`. `sent`
/// is the serialised beginning of the conversation, which is empty if [`takes_marks`].
pub(super) fn body<'a>(
    renderer: &MessageRenderer<'_>,
    request: &'a ChatRequest,
    refused: &ParamNames,
    extra: &ExtraBody,
    sent: &'a SentMessages,
) -> Body<'a> {
    let quirks = renderer.quirks;
    let mut system = (!request.system.is_empty()).then(|| system(&request.system));
    let mut conversation = conversation(sent, renderer, request);
    let mut tools = tools(&request.tools);
    if takes_marks(quirks, &request.model) {
        mark(
            &request.tools,
            system.as_mut(),
            &mut conversation,
            &mut tools,
        );
    }
    let mut parameters = parameters(quirks, request, refused);
    extra.add_to(&mut parameters);
    let system = system.into_iter().map(ConversationItem::New);
    Body {
        model: request.model.as_str(),
        messages: system.chain(conversation).collect(),
        tools,
        parameters,
    }
}

fn tools(specs: &[ToolSpec]) -> Vec<Tool<'_>> {
    specs.iter().map(tool).collect()
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        function: ToolFunction {
            name: spec.name.as_str(),
            description: &spec.description,
            parameters: &spec.parameters,
        },
        cache_control: None,
    }
}

/// Returns `true` if marks are sent: for models whose vendors cache only at explicit marks. The
/// others cache by themselves.
pub(super) fn takes_marks(quirks: &Quirks, model: &ModelId) -> bool {
    let model = model.as_str().to_lowercase();
    quirks.cache_marks
        && ["claude", "anthropic/", "gemini"]
            .iter()
            .any(|part| model.contains(part))
}

/// Marks what to cache: the built-in tools, the system prompt, and the two newest user messages.
/// Marking two of them means that the cache entry of the previous request is found again. Tool
/// results are plain text in this protocol and cannot be marked.
fn mark<'a>(
    specs: &[ToolSpec],
    system: Option<&mut Message<'a>>,
    conversation: &mut [ConversationItem<'a>],
    tools: &mut [Tool<'_>],
) {
    let own = specs
        .iter()
        .take_while(|spec| spec.source == ToolSource::BuiltIn)
        .count();
    if let Some(tool) = own.checked_sub(1).and_then(|last| tools.get_mut(last)) {
        tool.cache_control = Some(CacheControl::Ephemeral);
    }
    let users = conversation.iter_mut().rev().filter_map(|item| match item {
        ConversationItem::New(message @ Message::User { .. }) => Some(message),
        ConversationItem::New(_) | ConversationItem::Sent(_) => None,
    });
    for message in users.take(2).chain(system) {
        if let Message::User { content } | Message::System { content } = message {
            content.mark();
        }
    }
}

fn system(text: &str) -> Message<'_> {
    Message::System {
        content: MessageContent::Text(text.into()),
    }
}

/// Renders the messages of a conversation for one vendor and model.
#[derive(Debug)]
pub(super) struct MessageRenderer<'s> {
    pub(super) quirks: &'s Quirks,
    pub(super) name: &'s ProviderName,
    keep_blocks: bool,
}

impl<'s> MessageRenderer<'s> {
    pub(super) fn new(quirks: &'s Quirks, name: &'s ProviderName, model: &ModelId) -> Self {
        Self {
            quirks,
            name,
            keep_blocks: model.as_str().to_lowercase().contains("claude"),
        }
    }

    /// Returns the ids of a conversation before its first call.
    pub(super) fn ids(&self) -> CallIds {
        CallIds::new(if self.quirks.short_ids {
            short_id
        } else {
            plain_id
        })
    }

    /// Returns `true` for a tool result with pictures, which follow in a message after it.
    pub(super) fn has_pictures(message: &ChatMessage) -> bool {
        matches!(message, ChatMessage::Tool(result) if pictures(result).next().is_some())
    }

    /// Renders the rest of a conversation; `ids` are those of the calls before it.
    pub(super) fn messages<'a>(
        &self,
        messages: &'a [Arc<ChatMessage>],
        ids: &mut CallIds,
    ) -> Vec<Message<'a>> {
        let mut rendered = Vec::new();
        let mut pictures = ResultPictures::default();
        for message in messages {
            match &**message {
                ChatMessage::Tool(result) => pictures.add(result),
                _ => rendered.extend(pictures.take()),
            }
            rendered.extend(self.message(message, ids));
        }
        rendered.extend(pictures.take());
        rendered
    }

    /// Renders a message without the pictures of its result. Returns `None` for one that is not
    /// sent.
    pub(super) fn message<'a>(
        &self,
        message: &'a ChatMessage,
        ids: &mut CallIds,
    ) -> Option<Message<'a>> {
        Some(match message {
            // The system prompt is sent separately; a transcript has no system messages.
            ChatMessage::System { .. } => return None,
            ChatMessage::User(user) => Message::User {
                content: user_content(&user.content),
            },
            ChatMessage::Assistant(assistant_message) => {
                let is_own = assistant_message.provider.as_ref() == Some(self.name);
                let is_foreign = is_foreign(assistant_message, self.name);
                let calls = assistant_message.tool_calls.iter().map(|call| {
                    let id = ids.call(&call.id, is_own && !self.quirks.short_ids);
                    tool_call(call, id, is_foreign)
                });
                let calls = calls.collect();
                assistant(
                    self.quirks,
                    is_foreign,
                    self.keep_blocks,
                    assistant_message,
                    calls,
                )
            }
            ChatMessage::Tool(result) => tool_result(result, ids.result(&result.tool_call_id)),
        })
    }
}

/// Returns the pictures of a tool result.
fn pictures(result: &ToolMessage) -> impl Iterator<Item = Part<'_>> {
    let blocks = match &result.content {
        Content::Blocks(blocks) => blocks.as_slice(),
        Content::Text(_) => &[],
    };
    let is_picture = |block: &&ContentBlock| matches!(block, ContentBlock::ImageUrl { .. });
    blocks.iter().filter(is_picture).filter_map(part)
}

/// Pictures of tool results. Results are plain text in this protocol, so a message from the user
/// shows their pictures after them.
#[derive(Default)]
struct ResultPictures<'a>(Vec<Part<'a>>);

impl<'a> ResultPictures<'a> {
    fn add(&mut self, result: &'a ToolMessage) {
        self.0.extend(pictures(result));
    }

    /// Returns the message with the pictures so far, and forgets them.
    fn take(&mut self) -> Option<Message<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let mut parts = vec![Part::text(RESULT_PICTURES)];
        parts.append(&mut self.0);
        Some(Message::User {
            content: MessageContent::Parts(parts),
        })
    }
}

/// Returns `true` if another provider made the message. A message without a provider counts as our
/// own.
fn is_foreign(assistant_message: &AssistantMessage, name: &ProviderName) -> bool {
    assistant_message
        .provider
        .as_ref()
        .is_some_and(|provider| provider != name)
}

fn tool_result(result: &ToolMessage, id: String) -> Message<'_> {
    Message::Tool {
        tool_call_id: id,
        name: result.name.as_ref().map(|name| tool_name(name.as_str())),
        content: or_empty(tool_content(&result.content)),
    }
}

/// Builds the message of a reply. Its reasoning is sent back to the provider that made it only.
fn assistant<'a>(
    quirks: &Quirks,
    is_foreign: bool,
    keep_blocks: bool,
    assistant_message: &'a AssistantMessage,
    tool_calls: Vec<Call<'a>>,
) -> Message<'a> {
    let words = assistant_message
        .content
        .as_ref()
        .map(content_text)
        .filter(|words| !words.is_empty());
    let content = words.or_else(|| tool_calls.is_empty().then_some(EMPTY.into()));
    let reasoning = quirks
        .reasoning_back
        .zip(assistant_message.reasoning_content.as_deref())
        .filter(|_| !is_foreign)
        .map(|(member, text)| Reasoning { member, text });
    // Reasoning of the same provider's Responses API means nothing here.
    let is_block = |block: &&Value| block.get("type").is_none_or(|kind| kind != "reasoning");
    let thinking_blocks = if keep_blocks && !is_foreign {
        let blocks = assistant_message.thinking_blocks.iter();
        blocks.filter(is_block).collect()
    } else {
        Vec::new()
    };
    Message::Assistant(AssistantReply {
        content,
        reasoning,
        thinking_blocks,
        tool_calls,
    })
}

/// Builds a tool call. The members that a vendor added to its call are sent back to that vendor
/// only.
fn tool_call(call: &ToolCall, id: String, is_foreign: bool) -> Call<'_> {
    let text = if is_object(&call.arguments) {
        Cow::Borrowed(call.arguments.as_str())
    } else {
        Value::Object(arguments(call)).to_string().into()
    };
    let function = CalledFunction::new(tool_name(call.name.as_str()), text);
    if is_foreign {
        Call::new(id, function)
    } else {
        Call::new(id, function.with_extra(&call.function_extra)).with_extra(&call.extra)
    }
}

/// Returns `true` for the text of a JSON object.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn user_content(content: &Content) -> MessageContent<'_> {
    let parts: Vec<Part<'_>> = match content {
        Content::Text(text) => return MessageContent::Text(or_empty(text.into())),
        Content::Blocks(blocks) => blocks.iter().filter_map(part).collect(),
    };
    if parts.is_empty() {
        MessageContent::Text(EMPTY.into())
    } else {
        MessageContent::Parts(parts)
    }
}

/// Returns the part for a block; `None` for the private blocks of other programs.
fn part(block: &ContentBlock) -> Option<Part<'_>> {
    match block {
        ContentBlock::Text { text } => text_part(text),
        ContentBlock::ImageUrl { image_url } => Some(Part::image(image_url)),
        ContentBlock::Other(value) => match value.get("type")?.as_str()? {
            "input_text" | "output_text" => text_part(value.get("text")?.as_str()?),
            "input_audio" | "file" => value.as_object().map(Part::opaque),
            _ => None,
        },
    }
}

fn text_part(text: &str) -> Option<Part<'_>> {
    (!text.is_empty()).then(|| Part::text(text))
}

/// Returns a tool result as text, the only form that the API accepts there.
fn tool_content(content: &Content) -> Cow<'_, str> {
    match content {
        Content::Text(text) => text.into(),
        Content::Blocks(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                ContentBlock::Text { text } => Some(text.as_str()),
                ContentBlock::ImageUrl { .. } => None,
                ContentBlock::Other(value) => value.get("text").and_then(Value::as_str),
            });
            texts.collect::<Vec<_>>().join("\n").into()
        }
    }
}

/// Returns all text, like [`Content::to_text`], without copying plain text.
fn content_text(content: &Content) -> Cow<'_, str> {
    match content {
        Content::Text(text) => text.into(),
        Content::Blocks(_) => content.to_text().into(),
    }
}

fn or_empty(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_empty() { EMPTY.into() } else { text }
}
