//! One message on its way out, and the call that sends it.

use nanobot_channel::markup::{Document, Markup as _, ZERO_WIDTH_SPACE};
use nanobot_channel::{Map, Value};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::api::{Api, Body, Endpoint};
use crate::card::{CARD_LIMIT, body_length};
use crate::error::{CallError, Refusal};
use crate::markup::CardMarkdown;
use crate::target::SendTarget;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    kind: &'static str,
    content: String,
}

impl Outgoing {
    pub(crate) fn new(kind: &'static str, content: &Value) -> Self {
        Self {
            kind,
            content: content.to_string(),
        }
    }

    /// A text as it is: in the simplest form in which nothing of it is markup.
    pub(crate) fn plain(text: &str) -> Self {
        if escaped(text) == text {
            return Self::new("text", &json!({"text": text}));
        }
        let element = |text: &str| json!([{"tag": "text", "text": text}]);
        let paragraphs: Vec<Value> = text.split('\n').map(element).collect();
        for paragraphs in [paragraphs, vec![element(text)]] {
            let post = json!({"zh_cn": {"title": "", "content": paragraphs}});
            if body_length(&post) <= CARD_LIMIT {
                return Self::new("post", &post);
            }
        }
        let text = text.replace('<', &format!("<{ZERO_WIDTH_SPACE}"));
        Self::new("text", &json!({"text": text}))
    }

    /// A link to a file elsewhere.
    pub(crate) fn link(address: &str) -> Self {
        let link = json!([[{"tag": "a", "text": address, "href": address}]]);
        Self::new("post", &json!({"zh_cn": {"title": "", "content": link}}))
    }
}

/// Sends a message, and returns its id if Feishu reports it. A message that can no longer be
/// answered is not: the new one goes to the chat.
pub(crate) async fn send_message(
    api: &Api,
    target: &SendTarget,
    outgoing: &Outgoing,
    id: Option<&str>,
) -> Result<Option<String>, CallError> {
    #[derive(Deserialize)]
    struct Sent {
        message_id: Option<String>,
    }
    let mut body = Map::new();
    body.insert("msg_type".to_owned(), outgoing.kind.into());
    body.insert("content".to_owned(), outgoing.content.as_str().into());
    if let Some(id) = id {
        body.insert("uuid".to_owned(), id.into());
    }
    if let Some(answered) = &target.answered {
        let mut body = body.clone();
        body.insert("reply_in_thread".to_owned(), answered.in_topic.into());
        let path = ["im", "v1", "messages", &answered.message, "reply"];
        let endpoint = Endpoint::new(Method::POST, path);
        match api.data::<Sent>(&endpoint, Body::Json(body.into())).await {
            Err(error) if error.is(Refusal::is_about_the_answered) => {
                tracing::debug!(%error, "a message cannot be answered; the answer goes to its chat");
            }
            outcome => return outcome.map(|sent| sent.message_id),
        }
    }
    body.insert("receive_id".to_owned(), target.id.as_str().into());
    let endpoint =
        Endpoint::new(Method::POST, ["im", "v1", "messages"]).with("receive_id_type", target.kind);
    let sent = api.data::<Sent>(&endpoint, Body::Json(body.into())).await?;
    Ok(sent.message_id)
}

/// Returns a digest of a key in the length of an id, which has at most 50 characters.
pub(crate) fn uuid(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let bytes = digest.iter().take(20);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a text in which nothing is markup.
pub(crate) fn escaped(text: &str) -> String {
    CardMarkdown.render(&Document {
        text: text.to_owned(),
        ..Document::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_sent_so_that_nothing_of_it_is_markup() {
        let table = [
            ("hello 語", "text"),
            ("see https://x.test/a?b=1 now", "text"),
            ("<at user_id=\"all\">all</at>", "post"),
            ("**bold**", "post"),
        ];
        for (text, kind) in table {
            assert_eq!(Outgoing::plain(text).kind, kind, "{text}");
        }
        let lines = Outgoing::plain("*\na");
        let expected = json!({"zh_cn": {"title": "", "content": [
            [{"tag": "text", "text": "*"}], [{"tag": "text", "text": "a"}],
        ]}});
        assert_eq!(lines, Outgoing::new("post", &expected));
        let many = Outgoing::plain(&"*\n".repeat(3000));
        assert_eq!(
            (many.kind, many.content.matches("tag").count()),
            ("post", 1)
        );
        let long = Outgoing::plain(&"<at>\n".repeat(9000));
        assert!(long.kind == "text" && !long.content.contains("<at"));
    }

    #[test]
    fn uuid_is_a_bounded_digest_of_the_key() {
        let ids = ["turn/0/0", "turn/0/1", "turn/0/0/file/0"].map(uuid);
        assert!(ids.iter().all(|id| id.len() == 40), "{ids:?}");
        assert_eq!(ids[0], uuid("turn/0/0"));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }
}
