//! Messages of a conversation with a model, in the shape shared by session files and
//! OpenAI-compatible vendors: a `role` tag next to the fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CallId, Map, MediaRef, ProviderName, ToolName};

/// An image URL; a `data:` URL carries the bytes themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageUrl {
    /// The URL.
    pub url: String,
}

/// One block of multi-part content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    ImageUrl {
        /// The image's URL.
        image_url: ImageUrl,
    },
    /// A block of an unknown kind, kept as read.
    #[serde(untagged)]
    Other(serde_json::Value),
}

/// Text, or a list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<ContentBlock>),
}

impl Content {
    /// Returns all text, with the blocks joined by newlines.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts: Vec<&str> = blocks
                    .iter()
                    .filter_map(|block| match block {
                        ContentBlock::Text { text } => Some(text.as_str()),
                        ContentBlock::ImageUrl { .. } | ContentBlock::Other(_) => None,
                    })
                    .collect();
                texts.join("\n")
            }
        }
    }

    /// `true` if the text, or the list of blocks, is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Appends a paragraph: after a blank line to text, as a new text block to blocks.
    pub fn append_paragraph(&mut self, paragraph: &str) {
        match self {
            Self::Text(text) => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(paragraph);
            }
            Self::Blocks(blocks) => blocks.push(ContentBlock::Text {
                text: paragraph.to_owned(),
            }),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A tool call by the model.
///
/// `arguments` is the text of a JSON object exactly as it is stored and sent again, so that
/// replaying it yields the same bytes. A call with unreadable arguments is kept as
/// [`ToolCall::malformed`]: it gets an error as its result and never runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Id that links the call to its result.
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// The text of a JSON object.
    pub arguments: String,
    /// Further members of the call that the vendor expects back (`provider_specific_fields`).
    pub extra: Map,
    /// Further members of the function object that the vendor expects back.
    pub function_extra: Map,
}

/// Member that marks unreadable arguments and holds their raw text.
const MALFORMED: &str = "_malformed";
const MALFORMED_WHY: &str = "_why";

impl ToolCall {
    /// Creates a call without extra members.
    pub fn new(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: Map::new(),
            function_extra: Map::new(),
        }
    }

    /// Creates a call whose arguments are not a JSON object: `raw` is the received text and `why`
    /// the reason.
    pub fn malformed(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        raw: &str,
        why: &str,
    ) -> Self {
        let arguments = serde_json::json!({ MALFORMED: raw, MALFORMED_WHY: why });
        Self::new(id, name, arguments.to_string())
    }

    /// Parses the arguments as a JSON object.
    ///
    /// # Errors
    /// Returns the reason, worded for the model, if the call is [`ToolCall::malformed`] or its
    /// arguments are not the text of a JSON object.
    pub fn parsed_arguments(&self) -> Result<Map, String> {
        let value: serde_json::Value = serde_json::from_str(&self.arguments)
            .map_err(|error| format!("arguments are not JSON: {error}"))?;
        let serde_json::Value::Object(map) = value else {
            return Err(format!(
                "arguments must be a JSON object, got {}",
                self.arguments
            ));
        };
        match map.get(MALFORMED_WHY) {
            Some(why) if map.contains_key(MALFORMED) => {
                Err(why.as_str().unwrap_or("unreadable arguments").to_owned())
            }
            _ => Ok(map),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WireCall {
    id: CallId,
    #[serde(rename = "type", default = "function")]
    kind: String,
    function: WireFunction,
    #[serde(flatten)]
    extra: Map,
}

#[derive(Serialize, Deserialize)]
struct WireFunction {
    name: ToolName,
    arguments: WireArguments,
    #[serde(flatten)]
    extra: Map,
}

/// Arguments as read from a vendor or a file: vendors send text, but some files and gateways hold
/// the object itself.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireArguments {
    Text(String),
    Value(serde_json::Value),
}

fn function() -> String {
    "function".to_owned()
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireCall {
            id: self.id.clone(),
            kind: function(),
            function: WireFunction {
                name: self.name.clone(),
                arguments: WireArguments::Text(self.arguments.clone()),
                extra: self.function_extra.clone(),
            },
            extra: self.extra.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireCall::deserialize(deserializer)?;
        let arguments = match wire.function.arguments {
            WireArguments::Text(text) => text,
            WireArguments::Value(value) => value.to_string(),
        };
        Ok(Self {
            id: wire.id,
            name: wire.function.name,
            arguments,
            extra: wire.extra,
            function_extra: wire.function.extra,
        })
    }
}

/// A message from a person, or from the program on a person's behalf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text, or the blocks read from another program's file.
    pub content: Content,
    /// Attached files. Images among them are rendered from here for every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
}

/// A message from the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The visible text.
    #[serde(default)]
    pub content: Option<Content>,
    /// The tools it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Reasoning as plain text, if the vendor sends it and expects it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Signed reasoning blocks, opaque.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub thinking_blocks: Vec<serde_json::Value>,
    /// The provider that the reasoning belongs to; it is never sent to another provider.
    #[serde(default, rename = "_provider", skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<serde_json::Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The call that it answers.
    pub tool_call_id: CallId,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ToolName>,
    /// The result.
    pub content: Content,
    /// Pictures of the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum ChatMessage {
    /// A system message with instructions.
    System {
        /// The text.
        content: Content,
    },
    /// A message from a person.
    User(UserMessage),
    /// A message from the model.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    Tool(ToolMessage),
}

impl ChatMessage {
    /// Creates a user message of plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage {
            content: Content::Text(text.into()),
            media: Vec::new(),
        })
    }

    /// Creates an assistant message of plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            content: Some(Content::Text(text.into())),
            ..AssistantMessage::default()
        })
    }

    /// Creates the result of one tool call.
    pub fn tool(call: &ToolCall, output: impl Into<String>) -> Self {
        Self::Tool(ToolMessage {
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: Content::Text(output.into()),
            media: Vec::new(),
        })
    }

    /// Returns the files of the message.
    #[must_use]
    pub fn media(&self) -> &[MediaRef] {
        match self {
            Self::User(user) => &user.media,
            Self::Tool(result) => &result.media,
            Self::System { .. } | Self::Assistant(_) => &[],
        }
    }

    /// Returns the role as written in JSON.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Tool(_) => "tool",
        }
    }

    /// Returns the visible text; empty if there is none.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::System { content } => content.to_text(),
            Self::User(user) => user.content.to_text(),
            Self::Assistant(assistant) => assistant
                .content
                .as_ref()
                .map(Content::to_text)
                .unwrap_or_default(),
            Self::Tool(tool) => tool.content.to_text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assistant_message_of_python_program_round_trips() {
        let line = r#"{"content":"let me see","reasoning_content":"R","role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\": \"echo hi\"}","name":"exec"},"id":"abc123XYZ","type":"function"}]}"#;
        let message: ChatMessage = serde_json::from_str(line).unwrap();
        let again: serde_json::Value = serde_json::to_value(&message).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(line).unwrap()
        );
    }

    #[test]
    fn unknown_content_blocks_round_trip() {
        let line =
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"sticker","id":3}]}"#;
        let message: ChatMessage = serde_json::from_str(line).unwrap();
        assert_eq!(message.text(), "a");
        assert_eq!(
            serde_json::to_value(&message).unwrap(),
            serde_json::from_str::<serde_json::Value>(line).unwrap()
        );
    }

    #[test]
    fn malformed_arguments_are_valid_json_but_never_parse() {
        let call = ToolCall::malformed("1", "read_file", "{\"path\": \"a", "cut off");
        assert!(serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok());
        assert_eq!(call.parsed_arguments(), Err("cut off".to_owned()));
    }
}
