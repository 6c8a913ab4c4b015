//! Messages of a conversation with a model, in the shape session files and OpenAI-like vendors
//! share: a `role` tag beside the fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CallId, Map, MediaRef, ProviderName, ToolName};

/// An image by address; `data:` URLs carry the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageUrl {
    /// The address.
    pub url: String,
}

/// One block of a multi-part content.
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
        /// Where it is.
        image_url: ImageUrl,
    },
    /// A block of a kind this program does not know, kept as it was read.
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
    /// All text in it, blocks joined by newlines.
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

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Adds a paragraph at the end: after a blank line in text, as a last text block otherwise.
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

/// A call of a tool by the model.
///
/// `arguments` is the text of a JSON object exactly as it is stored and sent again, so that
/// replaying it yields the same bytes. A call whose arguments could not be read is kept as
/// [`ToolCall::malformed`]: it is answered with an error and never run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Links the call to its result.
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// The text of a JSON object.
    pub arguments: String,
    /// What else the vendor put beside the call and wants back (`provider_specific_fields`).
    pub extra: Map,
    /// The same, inside the function object.
    pub function_extra: Map,
}

/// The member that marks arguments which could not be read.
const MALFORMED: &str = "_malformed";
const MALFORMED_WHY: &str = "_why";

impl ToolCall {
    /// A call with nothing beside it.
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

    /// A call whose arguments were no JSON object: `raw` is what came, `why` what was wrong.
    pub fn malformed(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        raw: &str,
        why: &str,
    ) -> Self {
        let arguments = serde_json::json!({ MALFORMED: raw, MALFORMED_WHY: why });
        Self::new(id, name, arguments.to_string())
    }

    /// The arguments as an object, or why the call must not run.
    ///
    /// # Errors
    /// The reason, in words for the model, when the call is [`ToolCall::malformed`] or its
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

/// Vendors send text; some files and gateways hold the object itself.
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

/// What a person, or something that speaks for one, said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text, or blocks read from another program's file.
    pub content: Content,
    /// Files that came with it; images among them are rendered from here at every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRef>,
}

/// What the model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The visible text.
    #[serde(default)]
    pub content: Option<Content>,
    /// The tools it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The model's reasoning as plain text, where the vendor gives it and wants it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Signed reasoning blocks, opaque.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub thinking_blocks: Vec<serde_json::Value>,
    /// Whose reasoning it is; another provider never sees it.
    #[serde(default, rename = "_provider", skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<serde_json::Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The call it answers.
    pub tool_call_id: CallId,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ToolName>,
    /// The answer.
    pub content: Content,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum ChatMessage {
    /// Instructions.
    System {
        /// The text.
        content: Content,
    },
    /// A person.
    User(UserMessage),
    /// The model.
    Assistant(AssistantMessage),
    /// A tool's answer.
    Tool(ToolMessage),
}

impl ChatMessage {
    /// A person's plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage {
            content: Content::Text(text.into()),
            media: Vec::new(),
        })
    }

    /// The model's plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            content: Some(Content::Text(text.into())),
            ..AssistantMessage::default()
        })
    }

    /// A tool's answer to one call.
    pub fn tool(call: &ToolCall, output: impl Into<String>) -> Self {
        Self::Tool(ToolMessage {
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: Content::Text(output.into()),
        })
    }

    /// The role as it is written.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Tool(_) => "tool",
        }
    }

    /// Its visible text; empty when there is none.
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
    fn an_assistant_line_of_the_python_program_survives_a_round_trip() {
        let line = r#"{"content":"let me see","reasoning_content":"R","role":"assistant","tool_calls":[{"function":{"arguments":"{\"command\": \"echo hi\"}","name":"exec"},"id":"abc123XYZ","type":"function"}]}"#;
        let message: ChatMessage = serde_json::from_str(line).unwrap();
        let again: serde_json::Value = serde_json::to_value(&message).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(line).unwrap()
        );
    }

    #[test]
    fn unknown_blocks_are_kept() {
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
    fn malformed_arguments_stay_valid_json_and_never_parse() {
        let call = ToolCall::malformed("1", "read_file", "{\"path\": \"a", "cut off");
        assert!(serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok());
        assert_eq!(call.parsed_arguments(), Err("cut off".to_owned()));
    }
}
