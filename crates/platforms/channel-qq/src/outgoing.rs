//! One message on its way out, and the call that sends it.
//!
//! A reply has a number: QQ refuses a second one with the same number to the same message. The
//! number is derived from the key of the reply, so that an attempt whose outcome is unknown can be
//! repeated without harm. Messages in guilds have no numbers.

use bytes::Bytes;
use nanobot_channel::{Map, Value};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::api::{Api, Body};
use crate::error::CallError;
use crate::target::Place;
use crate::wire::text;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// A text as it is.
    Text(String),
    /// A text in QQ's Markdown; not in guilds.
    Markdown(String),
    /// An uploaded file; not in guilds.
    Media(String),
    /// A picture; only in guilds.
    Picture(Bytes, String),
    /// A picture that QQ fetches; only in guilds.
    PictureAt(String),
}

/// The message that is answered, and the number of the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) message: &'a str,
    pub(crate) number: u32,
}

impl Outgoing {
    fn members(&self) -> Map {
        let members = match self {
            Self::Text(text) => json!({"msg_type": 0, "content": text}),
            Self::Markdown(text) => json!({"msg_type": 2, "markdown": {"content": text}}),
            Self::Media(info) => json!({"msg_type": 7, "media": {"file_info": info}}),
            Self::PictureAt(address) => json!({"image": address}),
            Self::Picture(..) => json!({}),
        };
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    /// Returns the content of the request.
    fn body(&self, place: &Place, reply: Option<Reply<'_>>) -> Value {
        let mut members = self.members();
        let is_guild = matches!(place, Place::Guild(_));
        if is_guild {
            members.remove("msg_type");
        }
        if let Some(reply) = reply {
            members.insert("msg_id".to_owned(), reply.message.into());
            if !is_guild {
                members.insert("msg_seq".to_owned(), reply.number.into());
            }
        }
        members.into()
    }
}

/// Sends a message, and returns its id if QQ reports it.
pub(crate) async fn send_message(
    api: &Api,
    place: &Place,
    outgoing: &Outgoing,
    reply: Option<Reply<'_>>,
) -> Result<Option<String>, CallError> {
    #[derive(Deserialize)]
    struct Sent {
        #[serde(default, deserialize_with = "text")]
        id: String,
    }
    let path = format!("{}/messages", place.path());
    let sent: Sent = match outgoing {
        Outgoing::Picture(bytes, name) => {
            let form = || picture_form(bytes, name, reply);
            api.send_form(&path, form).await?
        }
        outgoing => {
            let body = outgoing.body(place, reply);
            api.call(Method::POST, &path, Body::Json(&body)).await?
        }
    };
    Ok(Some(sent.id).filter(|id| !id.is_empty()))
}

fn picture_form(bytes: &Bytes, name: &str, reply: Option<Reply<'_>>) -> Form {
    let length = bytes.len() as u64;
    let part = Part::stream_with_length(reqwest::Body::from(bytes.clone()), length);
    let form = Form::new().part("file_image", part.file_name(name.to_owned()));
    match reply {
        Some(reply) => form.text("msg_id", reply.message.to_owned()),
        None => form,
    }
}

/// Returns the number of a reply: 31 bits of a digest of its key, at least 1.
pub(crate) fn reply_number(key: &str) -> u32 {
    let digest = Sha256::digest(key.as_bytes());
    let bytes = digest.iter().take(4);
    let bits = bytes.fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte));
    (bits >> 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_has_the_form_of_its_place() {
        let (person, guild) = (Place::Person("U".into()), Place::Guild("9".into()));
        let reply = Some(Reply {
            message: "m1",
            number: 7,
        });
        let text = Outgoing::Text("hi".to_owned());
        let table = [
            (
                text.body(&person, reply),
                json!({"msg_type": 0, "content": "hi", "msg_id": "m1", "msg_seq": 7}),
            ),
            (
                text.body(&person, None),
                json!({"msg_type": 0, "content": "hi"}),
            ),
            (
                text.body(&guild, reply),
                json!({"content": "hi", "msg_id": "m1"}),
            ),
            (
                Outgoing::Markdown("**x**".to_owned()).body(&person, None),
                json!({"msg_type": 2, "markdown": {"content": "**x**"}}),
            ),
            (
                Outgoing::Media("f".to_owned()).body(&person, None),
                json!({"msg_type": 7, "media": {"file_info": "f"}}),
            ),
            (
                Outgoing::PictureAt("https://x.test".to_owned()).body(&guild, None),
                json!({"image": "https://x.test"}),
            ),
        ];
        for (body, expected) in table {
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn number_is_a_positive_digest_of_the_key() {
        let numbers = ["turn/0/0", "turn/0/1", "turn/0/0/file/0"].map(reply_number);
        assert!(
            numbers
                .iter()
                .all(|number| (1..=i32::MAX as u32).contains(number))
        );
        assert_eq!(numbers[0], reply_number("turn/0/0"));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
    }
}
