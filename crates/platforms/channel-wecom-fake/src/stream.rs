//! Streamed replies: frames of one id, each with the whole text so far.

use serde_json::Value;

use crate::api::{ApiError, ApiResult, STREAM_EXPIRED};
use crate::callback::REPLY_WINDOW;
use crate::content::Content;
use crate::model::Stream;
use crate::params::Params;
use crate::state::WeComState;

const RESPOND: &str = "aibot_respond_msg";
/// Time between the first and the last frame, in milliseconds.
const STREAM_WINDOW: i64 = 360_000;
/// Longest id of a stream, in bytes.
const ID_LIMIT: usize = 256;

impl WeComState {
    /// Begins, changes or finishes a stream.
    pub(crate) fn respond_stream(
        &mut self,
        req_id: &str,
        chat: &str,
        params: Params<'_>,
    ) -> ApiResult {
        let Some(stream) = params.object("stream") else {
            return Err(ApiError::unreadable("missing field `body.stream`"));
        };
        let content = self.read_stream(stream)?;
        self.check_chat(chat)?;
        let (id, now) = (stream.text("id"), self.now());
        let is_finish = stream.flag("finish");
        let known = self
            .callback(req_id, REPLY_WINDOW)?
            .streams
            .get(id)
            .cloned();
        match known {
            None => {
                let sent = self.keep(RESPOND, req_id, chat, content)?;
                if let Some(message) = self.sent.get_mut(sent) {
                    message.stream = Some(id.to_owned());
                    message.is_streaming = !is_finish;
                }
                let begun = Stream {
                    sent,
                    begun: now,
                    finish: is_finish.then(|| Value::Object(stream.0.clone())),
                };
                let callback = self.callback(req_id, REPLY_WINDOW)?;
                callback.streams.insert(id.to_owned(), begun);
            }
            Some(Stream {
                finish: Some(last), ..
            }) => {
                self.limits.count(chat, now)?;
                // A client that got no answer to the last frame sends it again.
                if last != Value::Object(stream.0.clone()) {
                    return Err(ApiError::parameter("the stream is finished"));
                }
            }
            Some(Stream { begun, .. }) if now - begun >= STREAM_WINDOW => {
                return Err(ApiError::new(STREAM_EXPIRED));
            }
            Some(Stream { sent, .. }) => {
                self.limits.count(chat, now)?;
                self.change_stream(sent, content, is_finish);
                let callback = self.callback(req_id, REPLY_WINDOW)?;
                if let Some(known) = callback.streams.get_mut(id) {
                    known.finish = is_finish.then(|| Value::Object(stream.0.clone()));
                }
            }
        }
        Ok(Value::Null)
    }

    fn change_stream(&mut self, sent: usize, content: Content, is_finish: bool) {
        if let Some(message) = self.sent.get_mut(sent) {
            let before = std::mem::replace(&mut message.text, content.text);
            message.history.push(before);
            message.content = content.value;
            message.is_streaming = !is_finish;
        }
    }

    fn read_stream(&mut self, stream: Params<'_>) -> Result<Content, ApiError> {
        self.check_content(RESPOND, "stream", stream)?;
        let (id, text) = (stream.text("id"), stream.text("content"));
        if id.is_empty() || id.len() > ID_LIMIT {
            return Err(ApiError::parameter("stream.id"));
        }
        if text.len() > self.text_limit {
            return Err(ApiError::parameter("content is too long"));
        }
        if stream.0.contains_key("msg_item") {
            // WeCom accepts the pictures, and shows none.
            self.complain(format!("{RESPOND}: msg_item is not shown"));
        }
        Ok(Content {
            kind: "stream".to_owned(),
            value: Value::Object(stream.0.clone()),
            text: text.to_owned(),
            files: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::api::INVALID_PARAMETER;
    use crate::probe::Probe;

    #[test]
    fn stream_changes_until_it_is_finished() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        assert_eq!(probe.stream(&callback, "s1", "", false), 0);
        assert_eq!(probe.stream(&callback, "s1", "grows", false), 0);
        assert!(probe.state.sent[0].is_streaming);
        assert_eq!(probe.stream(&callback, "s1", "done", true), 0);
        // The same frame may come again; anything else may not.
        assert_eq!(probe.stream(&callback, "s1", "done", true), 0);
        assert_eq!(probe.complaints().len(), 0);
        assert_eq!(
            probe.stream(&callback, "s1", "more", true),
            INVALID_PARAMETER
        );
        assert_eq!(probe.complaints().len(), 1);
        assert_eq!(probe.stream(&callback, "s2", "another", true), 0);
        let sent = &probe.state.sent;
        assert_eq!((sent.len(), sent[0].text.as_str()), (2, "done"));
        assert_eq!(sent[0].history, ["", "grows"]);
        assert_eq!(sent[0].stream.as_deref(), Some("s1"));
        assert!(!sent[0].is_streaming);
    }

    #[test]
    fn stream_expires_after_six_minutes() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        assert_eq!(probe.stream(&callback, "s1", "first", false), 0);
        probe.state.advanced = Duration::from_secs(359);
        assert_eq!(probe.stream(&callback, "s1", "second", false), 0);
        probe.state.advanced = Duration::from_secs(360);
        assert_eq!(probe.stream(&callback, "s1", "late", true), STREAM_EXPIRED);
        assert_eq!(probe.stream(&callback, "s2", "new", true), 0);
        assert_eq!(probe.complaints().len(), 0);
    }

    #[test]
    fn frames_are_limited() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let (fits, long) = ("x".repeat(20_480), "x".repeat(20_481));
        assert_eq!(probe.stream(&callback, "s1", &fits, false), 0);
        assert_eq!(
            probe.stream(&callback, "s1", &long, false),
            INVALID_PARAMETER
        );
        assert_eq!(probe.stream(&callback, "", "x", false), INVALID_PARAMETER);
        assert_eq!(probe.complaints().len(), 2);
    }

    #[test]
    fn pictures_of_streams_are_not_shown() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let items = json!([{"msgtype": "image", "image": {"base64": "", "md5": ""}}]);
        let stream = json!({"id": "s1", "content": "x", "finish": true, "msg_item": items});
        let body = json!({"msgtype": "stream", "stream": stream});
        assert_eq!(probe.code(RESPOND, &callback, &body), 0);
        let complaint = "aibot_respond_msg: msg_item is not shown";
        assert_eq!(probe.complaints(), [complaint]);
        assert_eq!(probe.state.sent[0].files, []);
    }
}
