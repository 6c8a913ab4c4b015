//! Content of messages of the bot.

use serde_json::Value;

use crate::api::ApiError;
use crate::model::{ChatKind, SentFile};
use crate::params::Params;
use crate::state::QqState;

const TEXT: i64 = 0;
const MARKDOWN: i64 = 2;
/// Shows that the bot is writing.
const NOTIFICATION: i64 = 6;
const MEDIA: i64 = 7;

/// The content of a message, checked.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) msg_type: i64,
    pub(crate) text: String,
    pub(crate) files: Vec<SentFile>,
}

impl Content {
    /// Returns `true` if it is only shown while the bot writes.
    pub(crate) fn is_notification(&self) -> bool {
        self.msg_type == NOTIFICATION
    }
}

impl QqState {
    /// Reads the content of a message.
    pub(crate) fn read_content(
        &self,
        kind: ChatKind,
        params: &Params,
    ) -> Result<Content, ApiError> {
        let content = if kind.is_guild() {
            guild_content(params)?
        } else {
            self.typed_content(kind, params)?
        };
        if content.msg_type == MARKDOWN && self.rules.refuses_markdown {
            return Err(ApiError::new(304_036));
        }
        if content.text.chars().count() > self.rules.text_limit {
            return Err(ApiError::new(40_054_007));
        }
        let has_url = ["http://", "https://"]
            .iter()
            .any(|scheme| content.text.contains(scheme));
        if has_url && self.rules.refuses_urls {
            let code = if kind.is_guild() { 304_003 } else { 40_054_010 };
            return Err(ApiError::new(code));
        }
        Ok(content)
    }

    /// Reads a message to a user or a group, which names its type.
    fn typed_content(&self, kind: ChatKind, params: &Params) -> Result<Content, ApiError> {
        let msg_type = params.number("msg_type").unwrap_or(TEXT);
        let text = params.text("content").to_owned();
        let has = |name| params.object(name).is_some();
        // The members of other types must be absent.
        for (name, owner) in [("markdown", MARKDOWN), ("media", MEDIA)] {
            if has(name) != (msg_type == owner) {
                return Err(ApiError::because(22_006, name));
            }
        }
        let mut files = Vec::new();
        let text = match msg_type {
            TEXT => not_empty(text)?,
            MARKDOWN if !text.trim().is_empty() => {
                return Err(ApiError::because(22_006, "content"));
            }
            MARKDOWN => markdown(params)?,
            MEDIA => {
                files.push(self.uploaded(kind, params)?);
                text.trim().to_owned()
            }
            NOTIFICATION if kind == ChatKind::User && has("input_notify") => String::new(),
            other => return Err(ApiError::because(340_069, &other.to_string())),
        };
        Ok(Content {
            msg_type,
            text,
            files,
        })
    }
}

/// Reads a message to a guild, whose type follows from its members.
fn guild_content(params: &Params) -> Result<Content, ApiError> {
    let mut files = Vec::new();
    if let Some((name, bytes)) = &params.file {
        if !is_picture(bytes) {
            return Err(ApiError::because(40_034_004, name));
        }
        files.push(SentFile {
            name: name.clone(),
            kind: "image".to_owned(),
            url: String::new(),
            bytes: bytes.clone(),
        });
    }
    let image = params.text("image");
    if !image.is_empty() {
        files.push(SentFile {
            name: "image".to_owned(),
            kind: "image".to_owned(),
            url: image.to_owned(),
            bytes: bytes::Bytes::new(),
        });
    }
    let text = params.text("content").to_owned();
    if params.object("markdown").is_some() {
        if !text.is_empty() || !files.is_empty() {
            return Err(ApiError::because(22_006, "markdown"));
        }
        return Ok(Content {
            msg_type: MARKDOWN,
            text: markdown(params)?,
            files,
        });
    }
    let (msg_type, text) = if files.is_empty() {
        (TEXT, not_empty(text)?)
    } else {
        (MEDIA, text)
    };
    Ok(Content {
        msg_type,
        text,
        files,
    })
}

fn markdown(params: &Params) -> Result<String, ApiError> {
    let content = params.object("markdown").and_then(|all| all.get("content"));
    let text = content.and_then(Value::as_str).unwrap_or_default();
    not_empty(text.to_owned())
}

fn not_empty(text: String) -> Result<String, ApiError> {
    if text.trim().is_empty() {
        return Err(ApiError::new(50_006));
    }
    Ok(text)
}

/// Returns `true` for the formats of pictures that QQ documents.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    let formats: [&[u8]; 2] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"];
    formats.iter().any(|magic| bytes.starts_with(magic))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::probe::{PNG, Probe, ann};

    #[test]
    fn type_of_a_message_decides_on_its_members() {
        let mut probe = Probe::new();
        probe.state.rules.active_quota = 100;
        probe.state.rules.text_limit = 5;
        probe.state.add_person(&ann());
        let info = probe.upload("users", &ann().openid, 1, PNG)["file_info"].clone();
        let table = [
            (json!({"content": "x"}), 0),
            (json!({"msg_type": 0, "content": "四个汉字吗"}), 0),
            (
                json!({"msg_type": 0, "content": "六个汉字是吗"}),
                40_054_007,
            ),
            (json!({"msg_type": 0, "content": " "}), 50_006),
            (
                json!({"msg_type": 0, "content": "x", "markdown": {"content": "x"}}),
                22_006,
            ),
            (json!({"msg_type": 2, "markdown": {"content": "*x*"}}), 0),
            (json!({"msg_type": 2, "markdown": {"content": ""}}), 50_006),
            (
                json!({"msg_type": 2, "content": "x", "markdown": {"content": "x"}}),
                22_006,
            ),
            (json!({"msg_type": 2, "content": "x"}), 22_006),
            (json!({"msg_type": 7, "media": {"file_info": info}}), 0),
            (
                json!({"msg_type": 7, "media": {"file_info": "unknown"}}),
                304_080,
            ),
            (json!({"msg_type": 3, "ark": {}}), 340_069),
        ];
        for (body, code) in table {
            assert_eq!(probe.send("users", &ann().openid, &body), code, "{body}");
        }
        let shown = probe.state.sent.iter();
        let shown: Vec<_> = shown
            .map(|sent| (sent.msg_type, sent.text.as_str()))
            .collect();
        assert_eq!(shown, [(0, "x"), (0, "四个汉字吗"), (2, "*x*"), (7, "")]);
        assert_eq!(probe.state.sent[3].files[0].bytes, PNG);
    }

    #[test]
    fn platform_can_refuse_urls_and_markdown() {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.rules.refuses_urls = true;
        probe.state.rules.refuses_markdown = true;
        let link = json!({"content": "see https://a.example"});
        assert_eq!(probe.send("users", &ann().openid, &link), 40_054_010);
        let dms = format!("/dms/{}/messages", ann().dms());
        assert_eq!(probe.code("POST", &dms, &link), 304_003);
        let markdown = json!({"msg_type": 2, "markdown": {"content": "x"}});
        assert_eq!(probe.send("users", &ann().openid, &markdown), 304_036);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }
}
