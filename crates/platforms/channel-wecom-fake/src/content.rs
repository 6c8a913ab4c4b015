//! Contents of messages of the bot, by their type.

use serde_json::Value;

use crate::api::{ApiError, INVALID_MEDIA_ID, INVALID_MESSAGE_TYPE};
use crate::card;
use crate::model::SentFile;
use crate::params::Params;
use crate::route;
use crate::state::WeComState;

/// Longest id of a feedback, in bytes.
const FEEDBACK_LIMIT: usize = 256;

/// A checked content.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) kind: String,
    /// The member of the body that is named like the type.
    pub(crate) value: Value,
    pub(crate) text: String,
    pub(crate) files: Vec<SentFile>,
}

impl WeComState {
    /// Checks the content of a message whose type is one of `kinds`.
    pub(crate) fn read_content(
        &mut self,
        cmd: &str,
        params: Params<'_>,
        kinds: &[&str],
    ) -> Result<Content, ApiError> {
        let kind = params.text("msgtype");
        if !kinds.contains(&kind) {
            return Err(ApiError::because(INVALID_MESSAGE_TYPE, kind));
        }
        let Some(content) = params.object(kind) else {
            return Err(ApiError::unreadable(&format!(
                "missing field `body.{kind}`"
            )));
        };
        self.check_members(cmd, params, &[kind]);
        self.check_content(cmd, kind, content)?;
        let (text, files) = match kind {
            "template_card" => (card::checked(content)?, Vec::new()),
            "image" | "file" | "voice" | "video" => {
                (String::new(), vec![self.media_file(kind, content)?])
            }
            _ => (content.text("content").to_owned(), Vec::new()),
        };
        if text.len() > self.text_limit {
            return Err(ApiError::parameter("content is too long"));
        }
        if matches!(kind, "markdown" | "text") && text.is_empty() {
            return Err(ApiError::parameter("content is empty"));
        }
        Ok(Content {
            kind: kind.to_owned(),
            value: Value::Object(content.0.clone()),
            text,
            files,
        })
    }

    /// Records contents of other types than that of the message.
    pub(crate) fn check_members(&mut self, cmd: &str, params: Params<'_>, kinds: &[&str]) {
        let others = params
            .0
            .iter()
            .filter(|(name, value)| value.is_object() && !kinds.contains(&name.as_str()));
        let others = others.map(|(name, _)| format!("{cmd}: {name} in a message of another type"));
        self.complaints.extend(others);
    }

    /// Checks the parameters of the content of one type.
    pub(crate) fn check_content(
        &mut self,
        cmd: &str,
        kind: &str,
        content: Params<'_>,
    ) -> Result<(), ApiError> {
        let Some(fields) = route::content(kind) else {
            return Ok(());
        };
        for name in content.check(&format!("body.{kind}"), fields)? {
            self.complain(format!("{cmd}: unknown parameter {kind}.{name}"));
        }
        if let Some(feedback) = content.object("feedback") {
            for name in feedback.check("body.feedback", route::FEEDBACK)? {
                self.complain(format!("{cmd}: unknown parameter feedback.{name}"));
            }
            if !(1..=FEEDBACK_LIMIT).contains(&feedback.text("id").len()) {
                return Err(ApiError::parameter("feedback.id"));
            }
        }
        Ok(())
    }

    fn media_file(&self, kind: &str, content: Params<'_>) -> Result<SentFile, ApiError> {
        let now = self.now();
        let media = self.media_files.get(content.text("media_id"));
        let media = media.filter(|media| media.expires > now);
        let Some(media) = media else {
            return Err(ApiError::new(INVALID_MEDIA_ID));
        };
        if media.file.kind != kind {
            return Err(ApiError::because(INVALID_MEDIA_ID, "of another type").clumsy());
        }
        Ok(media.file.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::INVALID_PARAMETER;
    use crate::probe::Probe;

    #[test]
    fn feedback_has_an_id() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let table = [
            (json!({"id": "f1"}), 0, 0),
            (json!({"id": "f1", "msgid": "m1"}), 0, 1),
            (json!({"id": ""}), INVALID_PARAMETER, 1),
            (json!({"id": "f".repeat(257)}), INVALID_PARAMETER, 1),
            (json!({}), INVALID_PARAMETER, 1),
        ];
        for (index, (feedback, code, complaints)) in table.into_iter().enumerate() {
            let stream = json!({"id": index.to_string(), "content": "x", "feedback": feedback});
            let body = json!({"msgtype": "stream", "stream": stream});
            assert_eq!(probe.code("aibot_respond_msg", &callback, &body), code);
            assert_eq!(probe.complaints().len(), complaints, "{body}");
        }
    }

    #[test]
    fn card_of_a_stream_is_not_shown() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let stream = json!({"id": "s1", "content": "x", "finish": true});
        let whole = |kind: &str, card: Value| {
            let stream = stream.clone();
            json!({"msgtype": kind, "stream": stream, "template_card": card})
        };
        let (card, wrong) = (
            json!({"card_type": "text_notice"}),
            json!({"card_type": "x"}),
        );
        let table = [
            (whole("stream_with_template_card", card.clone()), 0, 1),
            (
                whole("stream_with_template_card", wrong),
                INVALID_PARAMETER,
                1,
            ),
            (whole("stream", card), 0, 1),
        ];
        for (body, code, complaints) in table {
            assert_eq!(probe.code("aibot_respond_msg", &callback, &body), code);
            assert_eq!(probe.complaints().len(), complaints, "{body}");
        }
        assert_eq!(probe.state.sent.len(), 1);
    }
}
