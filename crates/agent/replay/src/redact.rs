//! Redacts secrets and the names of home folders in a record.
//!
//! Decision: every text of a record passes the same filter, so that a turn stays consistent: equal
//! texts are redacted in the same way everywhere. Ids that link records stay unchanged, and so does
//! the structure of tool schemas.
//!
//! Private facts in plain words cannot be recognised: a bundle still contains a conversation.

use std::path::Path;

use nanobot_redact::{HIDDEN, Secrets, hidden, is_secret_name, redacted, without_secrets};
use nanobot_session::MessageEntry;
use nanobot_types::{
    AssistantMessage, ChatMessage, Content, ContentBlock, ImageUrl, Map, MediaRef, ToolCall,
    ToolMessage, UserMessage,
};
use serde_json::Value;

/// Parents of home folders.
const HOMES: [&str; 4] = ["/home/", "/Users/", "\\Users\\", "\\\\Users\\\\"];

/// Redacts secrets and home folders in texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    home: Option<String>,
    secrets: Secrets,
}

impl Redactor {
    /// Creates a redactor that also knows the home folder of the record's owner.
    #[must_use]
    pub fn new(home: Option<&Path>) -> Self {
        let home = home.map(|home| {
            home.to_string_lossy()
                .trim_end_matches(['/', '\\'])
                .to_owned()
        });
        Self {
            home: home.filter(|home| home.len() > 1),
            secrets: Secrets::default(),
        }
    }

    /// Adds exact values that are secrets.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Returns the text with every secret replaced by `***` and every home folder by `~`.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        without_secrets(&self.without_homes(&self.secrets.redact(text)))
    }

    /// Redacts every text in a value. A value under the name of a secret is hidden whole.
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        redacted(value, &|text| self.text(text))
    }

    /// Redacts a tool's schema, in which the name of a secret is only the name of a parameter.
    pub(crate) fn schema(&self, schema: &Value) -> Value {
        match schema {
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(name, value)| (name.clone(), self.schema(value)))
                    .collect(),
            ),
            Value::Array(items) => items.iter().map(|item| self.schema(item)).collect(),
            other => self.value(other),
        }
    }

    pub(crate) fn entry(&self, entry: &MessageEntry) -> MessageEntry {
        MessageEntry {
            message: self.message(&entry.message).into(),
            inbound: entry.inbound.clone(),
            runtime: entry.runtime.as_deref().map(|runtime| self.text(runtime)),
            at: entry.at,
            extra: self.map(&entry.extra),
        }
    }

    fn map(&self, map: &Map) -> Map {
        let hide = |name: &String, value: &Value| {
            if is_secret_name(name) {
                hidden(value)
            } else {
                self.value(value)
            }
        };
        map.iter()
            .map(|(name, value)| (name.clone(), hide(name, value)))
            .collect()
    }

    fn message(&self, message: &ChatMessage) -> ChatMessage {
        match message {
            ChatMessage::System { content } => ChatMessage::System {
                content: self.content(content),
            },
            ChatMessage::User(user) => ChatMessage::User(UserMessage {
                content: self.content(&user.content),
                media: self.media(&user.media),
            }),
            ChatMessage::Assistant(said) => ChatMessage::Assistant(AssistantMessage {
                content: said.content.as_ref().map(|content| self.content(content)),
                tool_calls: said.tool_calls.iter().map(|call| self.call(call)).collect(),
                reasoning_content: said
                    .reasoning_content
                    .as_deref()
                    .map(|text| self.text(text)),
                thinking_blocks: said
                    .thinking_blocks
                    .iter()
                    .map(|block| self.value(block))
                    .collect(),
                provider: said.provider.clone(),
            }),
            ChatMessage::Tool(result) => ChatMessage::Tool(ToolMessage {
                content: self.content(&result.content),
                media: self.media(&result.media),
                ..result.clone()
            }),
        }
    }

    fn media(&self, media: &[MediaRef]) -> Vec<MediaRef> {
        let file = |file: &MediaRef| MediaRef {
            location: self.text(&file.location),
            mime: file.mime.clone(),
        };
        media.iter().map(file).collect()
    }

    fn content(&self, content: &Content) -> Content {
        match content {
            Content::Text(text) => Content::Text(self.text(text)),
            Content::Blocks(blocks) => {
                Content::Blocks(blocks.iter().map(|block| self.block(block)).collect())
            }
        }
    }

    fn block(&self, block: &ContentBlock) -> ContentBlock {
        match block {
            ContentBlock::Text { text } => ContentBlock::Text {
                text: self.text(text),
            },
            ContentBlock::ImageUrl { image_url } => {
                let url = match image_url.url.starts_with("data:") {
                    true => HIDDEN.to_owned(),
                    false => self.text(&image_url.url),
                };
                ContentBlock::ImageUrl {
                    image_url: ImageUrl { url },
                }
            }
            ContentBlock::Other(value) => ContentBlock::Other(self.value(value)),
        }
    }

    /// Redacts a call. Arguments that were the text of a JSON object stay one.
    fn call(&self, call: &ToolCall) -> ToolCall {
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            Ok(value) => self.value(&value).to_string(),
            Err(_) => self.text(&call.arguments),
        };
        ToolCall {
            arguments,
            extra: self.map(&call.extra),
            function_extra: self.map(&call.function_extra),
            ..call.clone()
        }
    }

    fn without_homes(&self, text: &str) -> String {
        let text = match &self.home {
            Some(home) => replace_folder(text, home),
            None => text.to_owned(),
        };
        HOMES
            .iter()
            .fold(text, |text, above| without_people(&text, above))
    }
}

/// Replaces `folder` by `~`, unless it is only the beginning of a longer name.
fn replace_folder(text: &str, folder: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(folder) {
        output.push_str(before);
        output.push_str(if after.starts_with(is_name) {
            folder
        } else {
            "~"
        });
        rest = after;
    }
    output.push_str(rest);
    output
}

/// Replaces every home folder in `above`, including its drive, by `~`.
fn without_people(text: &str, above: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(above) {
        output.push_str(before);
        let name = after.split(|c| !is_name(c)).next().unwrap_or_default();
        // The same name below another folder is not a home folder.
        if name.is_empty() || output.ends_with(|c| is_name(c) || c == '~') {
            output.push_str(above);
            rest = after;
            continue;
        }
        if output.ends_with(':') {
            output.pop();
            output.pop();
        }
        output.push('~');
        rest = after.strip_prefix(name).unwrap_or(after);
    }
    output.push_str(rest);
    output
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn redacts_secrets_and_home_folders() {
        let redactor = Redactor::new(Some(Path::new("/srv/people/ann/")));
        for (text, redacted) in [
            ("", ""),
            (
                "nothing to hide: 42 tokens, the key is under the mat",
                "nothing to hide: 42 tokens, the key is under the mat",
            ),
            (
                "max_tokens: 100, session key x",
                "max_tokens: 100, session key x",
            ),
            ("OPENAI_API_KEY=abc123", "OPENAI_API_KEY=***"),
            ("password: hunter2\nuser: ann", "password: ***\nuser: ann"),
            ("password:\nnext line", "password:\nnext line"),
            (
                r#"{"apiKey": "two words", "model": "m"}"#,
                r#"{"apiKey": "***", "model": "m"}"#,
            ),
            (
                r#"{\"token\":\"abc\",\"a\":1}"#,
                r#"{\"token\":\"***\",\"a\":1}"#,
            ),
            (
                r#"{"token": "a\"b", "secret": ""}"#,
                r#"{"token": "***", "secret": ""}"#,
            ),
            (r#"{"token": "cut off"#, r#"{"token": "*** off"#),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            (
                "curl -H 'Authorization: Bearer abc'",
                "curl -H 'Authorization: Bearer ***'",
            ),
            ("use sk-proj-abcdefgh now", "use *** now"),
            ("pip install sk-learn hf_hub", "pip install sk-learn hf_hub"),
            ("AKIAIOSFODNN7EXAMPLE", "***"),
            (
                "1234567890:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
                "1234567890:***",
            ),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "***"),
            (
                "sha 3a7bd3e2360a3d29eea436fcfb7e44c735d117c4",
                "sha 3a7bd3e2360a3d29eea436fcfb7e44c735d117c4",
            ),
            (
                "https://me:word@proxy.example/x?api_key=abc&y=1",
                "https://me:***@proxy.example/x?api_key=***&y=1",
            ),
            (
                "git clone https://abc@host/a.git",
                "git clone https://***@host/a.git",
            ),
            (
                "/usr/lib/x86_64-linux-gnu/libssl3/v1.2.3/some.so",
                "/usr/lib/x86_64-linux-gnu/libssl3/v1.2.3/some.so",
            ),
            (
                "a_name_that_is_very_long_but_only_made_of_words",
                "a_name_that_is_very_long_but_only_made_of_words",
            ),
            (
                "這是一個沒有秘密的句子但是很長很長很長很長很長很長很長 2026",
                "這是一個沒有秘密的句子但是很長很長很長很長很長很長很長 2026",
            ),
            (
                "in /srv/people/ann/notes and /srv/people/anna",
                "in ~/notes and /srv/people/anna",
            ),
            (
                "/home/bob/x, /Users/eve and /data/home/bob",
                "~/x, ~ and /data/home/bob",
            ),
            (r"C:\Users\Bob\x and C:\\Users\\Bob\\x", r"~\x and ~\\x"),
            ("*** stays ***, token=***", "*** stays ***, token=***"),
        ] {
            let once = redactor.text(text);
            assert_eq!(once, redacted, "{text}");
            assert_eq!(
                redactor.text(&once),
                once,
                "a second time changes nothing: {text}"
            );
        }
    }

    #[test]
    fn redaction_keeps_schemas_and_ids() {
        let schema = json!({"type": "object", "properties": {"token": {"type": "string"}}});
        let redactor = Redactor::default();
        assert_eq!(redactor.schema(&schema), schema);
        let id = "call_0123456789abcdefABCDEF0123456789";
        let call = ToolCall::new(id, "login", r#"{"token":"a","user":"ann"}"#);
        let said = AssistantMessage {
            tool_calls: vec![call],
            ..AssistantMessage::default()
        };
        let redacted = redactor.entry(&MessageEntry::new(ChatMessage::Assistant(said)));
        let ChatMessage::Assistant(said) = &*redacted.message else {
            panic!("{redacted:?}")
        };
        assert_eq!(
            said.tool_calls,
            [ToolCall::new(
                id,
                "login",
                r#"{"token":"***","user":"ann"}"#
            )]
        );
    }
}
