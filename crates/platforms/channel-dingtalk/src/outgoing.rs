//! One message on its way out, and the call that sends it.
//!
//! DingTalk has no key against duplicates: a message that is sent again appears twice.

use nanobot_channel::Value;
use nanobot_channel::markup::{Document, Markup as _};
use nanobot_channel_kit::call::DEFAULT_RETRY_AFTER;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::error::{CallError, Refusal};
use crate::markup::DingTalkMarkdown;
use crate::target::SendTarget;

/// Longest title, in characters. It is shown in lists of chats and in notifications.
const TITLE_LIMIT: usize = 30;
/// The title of a message without words.
const USUAL_TITLE: &str = "nanobot";

/// A message on its way out, as the key of its template and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    template: &'static str,
    values: Value,
}

impl Outgoing {
    /// Creates a message in Markdown. `plain` is the same text without marks.
    pub(crate) fn markdown(text: &str, plain: &str) -> Self {
        Self {
            template: "sampleMarkdown",
            values: json!({"title": title(plain), "text": text}),
        }
    }

    /// Creates a message of a text as it is: in Markdown if nothing of it is a mark there.
    pub(crate) fn plain(text: &str) -> Self {
        if escaped(text) == text {
            return Self::markdown(text, text);
        }
        Self {
            template: "sampleText",
            values: json!({"content": text}),
        }
    }

    /// Creates a picture by its address, or by the id of its upload.
    pub(crate) fn picture(location: &str) -> Self {
        Self {
            template: "sampleImageMsg",
            values: json!({"photoURL": location}),
        }
    }

    /// Creates a file by the id of its upload.
    pub(crate) fn file(media: &str, name: &str, kind: &str) -> Self {
        Self {
            template: "sampleFile",
            values: json!({"mediaId": media, "fileName": name, "fileType": kind}),
        }
    }
}

/// The answer to a send. The lists name recipients who do not get the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Receipt {
    process_query_key: Value,
    invalid_staff_id_list: Value,
    flow_controlled_staff_id_list: Value,
}

impl Receipt {
    /// Returns the key of the message.
    ///
    /// # Errors
    /// The reason why the only recipient does not get it.
    fn accepted(self, recipient: Option<&str>) -> Result<Option<String>, CallError> {
        let is_listed = |list: &Value| {
            let list = list.as_array().map_or(&[][..], Vec::as_slice);
            recipient.is_some_and(|id| list.iter().any(|listed| listed.as_str() == Some(id)))
        };
        if is_listed(&self.flow_controlled_staff_id_list) {
            return Err(CallError::RateLimited(DEFAULT_RETRY_AFTER));
        }
        match recipient {
            Some(id) if is_listed(&self.invalid_staff_id_list) => {
                Err(CallError::Refused(Refusal::of_recipient(id)))
            }
            _ => Ok(self.process_query_key.as_str().map(str::to_owned)),
        }
    }
}

/// Sends a message, and returns its key if DingTalk reports it.
pub(crate) async fn send_message(
    api: &Api,
    target: &SendTarget,
    outgoing: &Outgoing,
) -> Result<Option<String>, CallError> {
    let mut body = json!({
        "robotCode": api.client_id, "msgKey": outgoing.template,
        "msgParam": outgoing.values.to_string(),
    });
    let (path, key, value) = match target {
        SendTarget::Group(id) => (
            "v1.0/robot/groupMessages/send",
            "openConversationId",
            json!(id),
        ),
        SendTarget::User(id) => ("v1.0/robot/oToMessages/batchSend", "userIds", json!([id])),
    };
    if let Some(members) = body.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
    let receipt: Receipt = api.call(Method::POST, path, &body).await?;
    match target {
        SendTarget::Group(_) => receipt.accepted(None),
        SendTarget::User(id) => receipt.accepted(Some(id)),
    }
}

/// Returns a text in which nothing is markup.
pub(crate) fn escaped(text: &str) -> String {
    DingTalkMarkdown.render(&Document {
        text: text.to_owned(),
        ..Document::default()
    })
}

/// Returns the first words of a text.
fn title(plain: &str) -> String {
    let line = plain.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or(USUAL_TITLE);
    if line.chars().count() <= TITLE_LIMIT {
        return line.to_owned();
    }
    let head: String = line.chars().take(TITLE_LIMIT).collect();
    // Words are cut off whole where there are any.
    let words = head.rsplit_once(char::is_whitespace);
    let words = words.map_or(head.as_str(), |(words, _)| words).trim_end();
    format!("{words}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_the_first_words() {
        let table = [
            ("\n  hello\nmore", "hello".to_owned()),
            ("", USUAL_TITLE.to_owned()),
            (
                "the quick brown fox jumps over the dog",
                "the quick brown fox jumps…".to_owned(),
            ),
            (&"語".repeat(40), format!("{}…", "語".repeat(30))),
            (&"語".repeat(30), "語".repeat(30)),
        ];
        for (plain, expected) in table {
            assert_eq!(title(plain), expected);
        }
    }

    #[test]
    fn plain_text_is_no_markup() {
        let table = [
            (
                "hello 語",
                "sampleMarkdown",
                json!({"title": "hello 語", "text": "hello 語"}),
            ),
            ("*a*\n<b>", "sampleText", json!({"content": "*a*\n<b>"})),
        ];
        for (text, template, values) in table {
            assert_eq!(Outgoing::plain(text), Outgoing { template, values });
        }
    }

    #[test]
    fn receipt_names_recipients_who_get_nothing() {
        let table = [
            (json!({"processQueryKey": "k"}), Ok(Some("k".to_owned()))),
            (
                json!({"processQueryKey": 5, "invalidStaffIdList": ["ben"]}),
                Ok(None),
            ),
            (
                json!({"flowControlledStaffIdList": ["ann"]}),
                Err(CallError::RateLimited(DEFAULT_RETRY_AFTER)),
            ),
            (
                json!({"processQueryKey": "k", "invalidStaffIdList": ["ann"]}),
                Err(CallError::Refused(Refusal::of_recipient("ann"))),
            ),
        ];
        for (answer, expected) in table {
            let receipt: Receipt = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(receipt.accepted(Some("ann")), expected, "{answer}");
        }
    }
}
