//! Members of the request body.
//!
//! Decision: these types borrow the conversation and the tools and serialise straight into the
//! bytes to send. A tree of JSON values would copy every text of the conversation once more for
//! each request, and a long turn sends the same texts a hundred times.
//!
//! Members are written in the order in which they are declared, followed by those of vendors and
//! the configuration, sorted by name. Equal requests therefore have equal bytes, and a message or
//! tool keeps its bytes as the conversation grows.

use std::borrow::Cow;
use std::mem;

use nanobot_types::{ImageUrl, Map};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::render::CacheControl;

const CACHE_CONTROL: &str = "cache_control";

/// A request body. It has no `Debug`, because the configured parameters may contain keys.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<ConversationItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    /// All other members. The members above are not among them: the configuration may not set them.
    #[serde(flatten)]
    pub(super) parameters: Map,
}

/// A message of the conversation, serialised or not.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ConversationItem<'a> {
    /// The bytes of an earlier request.
    Sent(&'a RawValue),
    New(Message<'a>),
}

/// A message of the conversation.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: MessageContent<'a>,
    },
    User {
        content: MessageContent<'a>,
    },
    Assistant(AssistantReply<'a>),
    Tool {
        tool_call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        content: Cow<'a, str>,
    },
}

/// A message of the model.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AssistantReply<'a> {
    /// The text; `null` in a message of calls only.
    pub(super) content: Option<Cow<'a, str>>,
    #[serde(flatten)]
    pub(super) reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) thinking_blocks: Vec<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call<'a>>,
}

/// Reasoning as plain text, in the member that its vendor reads.
#[derive(Clone, Debug)]
pub(super) struct Reasoning<'a> {
    pub(super) member: &'static str,
    pub(super) text: &'a str,
}

impl Serialize for Reasoning<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.member, self.text)])
    }
}

/// A tool call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct Call<'a> {
    id: String,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    extra: Cow<'a, Map>,
}

/// The function object of a tool call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CalledFunction<'a> {
    name: String,
    arguments: Cow<'a, str>,
    #[serde(flatten)]
    extra: Cow<'a, Map>,
}

impl<'a> Call<'a> {
    pub(super) fn new(id: String, function: CalledFunction<'a>) -> Self {
        Self {
            id,
            function,
            extra: Cow::default(),
        }
    }

    /// Adds a vendor's further members.
    pub(super) fn with_extra(mut self, extra: &'a Map) -> Self {
        self.extra = without(extra, &["type", "id", "function"]);
        self
    }
}

impl<'a> CalledFunction<'a> {
    pub(super) fn new(name: String, arguments: Cow<'a, str>) -> Self {
        Self {
            name,
            arguments,
            extra: Cow::default(),
        }
    }

    /// Adds a vendor's further members.
    pub(super) fn with_extra(mut self, extra: &'a Map) -> Self {
        self.extra = without(extra, &["name", "arguments"]);
        self
    }
}

/// Returns the members without those named in `own`, which would otherwise be written twice.
fn without<'a>(members: &'a Map, own: &[&str]) -> Cow<'a, Map> {
    let mut members = Cow::Borrowed(members);
    for name in own {
        if members.contains_key(*name) {
            members.to_mut().remove(*name);
        }
    }
    members
}

/// Content of a message from the user or of the system prompt.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl MessageContent<'_> {
    /// Sets a cache mark on the last part, turning plain text into a part.
    pub(super) fn mark(&mut self) {
        if let Self::Text(text) = self {
            *self = Self::Parts(vec![Part::text(mem::take(text))]);
        }
        if let Self::Parts(parts) = self
            && let Some(part) = parts.last_mut()
        {
            part.mark();
        }
    }
}

/// A part of a message's content.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    kind: PartKind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartKind<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: &'a ImageUrl,
    },
    /// All members of the part, with its type.
    #[serde(untagged)]
    Opaque(Cow<'a, Map>),
}

impl<'a> Part<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::unmarked(PartKind::Text { text: text.into() })
    }

    pub(super) fn image(image_url: &'a ImageUrl) -> Self {
        Self::unmarked(PartKind::ImageUrl { image_url })
    }

    /// Creates a part that is sent as it is.
    pub(super) fn opaque(members: &'a Map) -> Self {
        Self::unmarked(PartKind::Opaque(Cow::Borrowed(members)))
    }

    fn unmarked(kind: PartKind<'a>) -> Self {
        Self {
            kind,
            cache_control: None,
        }
    }

    /// Sets a cache mark, in place of one that the part came with.
    fn mark(&mut self) {
        if let PartKind::Opaque(members) = &mut self.kind
            && members.contains_key(CACHE_CONTROL)
        {
            members.to_mut().remove(CACHE_CONTROL);
        }
        self.cache_control = Some(CacheControl::Ephemeral);
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct Tool<'a> {
    pub(super) function: ToolFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// The function object of a tool.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ToolFunction<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a Value,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map {
        serde_json::from_value(value).unwrap()
    }

    fn written(part: &impl Serialize) -> String {
        serde_json::to_string(part).unwrap()
    }

    #[test]
    fn body_is_written_in_a_fixed_order() {
        let schema = json!({ "type": "object" });
        let (thought, extra) = (
            json!({ "type": "thinking", "thinking": "t" }),
            map(json!({ "b": 2, "a": 1 })),
        );
        let function = CalledFunction::new("exec".to_owned(), "{}".into()).with_extra(&extra);
        let reply = AssistantReply {
            content: None,
            reasoning: Some(Reasoning {
                member: "reasoning",
                text: "r",
            }),
            thinking_blocks: vec![&thought],
            tool_calls: vec![Call::new("c1".to_owned(), function).with_extra(&extra)],
        };
        let body = Body {
            model: "m",
            messages: [
                Message::System {
                    content: MessageContent::Text("s".into()),
                },
                Message::User {
                    content: MessageContent::Parts(vec![Part::text("u")]),
                },
                Message::Assistant(reply),
                Message::Tool {
                    tool_call_id: "c1".to_owned(),
                    name: Some("exec".to_owned()),
                    content: "\"读\"\n".into(),
                },
            ]
            .map(ConversationItem::New)
            .into(),
            tools: vec![Tool {
                function: ToolFunction {
                    name: "exec",
                    description: "d",
                    parameters: &schema,
                },
                cache_control: Some(CacheControl::Ephemeral),
            }],
            parameters: map(json!({ "stream": true, "max_tokens": 1 })),
        };
        let expected = [
            r#"{"model":"m","messages":["#,
            r#"{"role":"system","content":"s"},"#,
            r#"{"role":"user","content":[{"type":"text","text":"u"}]},"#,
            r#"{"role":"assistant","content":null,"reasoning":"r","#,
            r#""thinking_blocks":[{"thinking":"t","type":"thinking"}],"#,
            r#""tool_calls":[{"type":"function","id":"c1","#,
            r#""function":{"name":"exec","arguments":"{}","a":1,"b":2},"a":1,"b":2}]},"#,
            r#"{"role":"tool","tool_call_id":"c1","name":"exec","content":"\"读\"\n"}],"#,
            r#""tools":[{"type":"function","#,
            r#""function":{"name":"exec","description":"d","parameters":{"type":"object"}},"#,
            r#""cache_control":{"type":"ephemeral"}}],"#,
            r#""max_tokens":1,"stream":true}"#,
        ];
        assert_eq!(written(&body), expected.concat());
    }

    #[test]
    fn vendor_members_do_not_replace_ours() {
        let outer = map(json!({ "id": "x", "type": "y", "function": {}, "signature": "s" }));
        let inner = map(json!({ "name": "x", "arguments": 1 }));
        let function = CalledFunction::new("exec".to_owned(), "{}".into()).with_extra(&inner);
        assert_eq!(
            written(&Call::new("c1".to_owned(), function).with_extra(&outer)),
            r#"{"type":"function","id":"c1","function":{"name":"exec","arguments":"{}"},"signature":"s"}"#
        );
    }

    #[test]
    fn last_part_is_marked_once() {
        let file = map(json!({ "type": "file", "file": {}, "cache_control": "theirs" }));
        let picture = ImageUrl {
            url: "data:,".to_owned(),
        };
        let table = [
            (
                MessageContent::Text("a".into()),
                r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]"#,
            ),
            (
                MessageContent::Parts(vec![Part::opaque(&file), Part::image(&picture)]),
                r#"[{"cache_control":"theirs","file":{},"type":"file"},{"type":"image_url","image_url":{"url":"data:,"},"cache_control":{"type":"ephemeral"}}]"#,
            ),
            (
                MessageContent::Parts(vec![Part::opaque(&file)]),
                r#"[{"file":{},"type":"file","cache_control":{"type":"ephemeral"}}]"#,
            ),
        ];
        for (mut content, expected) in table {
            content.mark();
            assert_eq!(written(&content), expected);
        }
    }
}
