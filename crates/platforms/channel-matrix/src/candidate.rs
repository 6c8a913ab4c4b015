//! From an event of a room to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, Value,
};
use nanobot_channel_kit::intake::Piece;
use serde_json::json;

use crate::attachment::{caption, file_of};
use crate::id::localpart;
use crate::mention::{OwnNames, is_mentioned, without_leading_mention};
use crate::relation::{Relation, without_reply_fallback};
use crate::wire::{Event, cut, text};

/// Longest place of a shared location, in bytes.
const PLACE_LIMIT: usize = 200;

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<MatrixOrigin>;

/// Facts that are needed after the check of access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixOrigin {
    /// The message that this one answers.
    pub(crate) reply_to: Option<String>,
    /// `true` if the message begins with a command, which a quotation before it would hide.
    pub(crate) is_command: bool,
}

/// The room of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) room: &'a str,
    pub(crate) name: &'a str,
    pub(crate) is_direct: bool,
    pub(crate) is_encrypted: bool,
}

/// The reader of messages.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) names: &'a OwnNames,
    pub(crate) allows_room_mentions: bool,
}

impl Reader<'_> {
    /// Reads an event. `None` if it is no message of a person for the assistant. `is_own` returns
    /// `true` for messages of the assistant.
    pub(crate) fn candidate(
        &self,
        place: &Place<'_>,
        event: &Event,
        is_own: impl Fn(&str) -> bool,
    ) -> Option<CandidateMessage> {
        let (sender, id, content) = (event.sender()?, event.id()?, event.content());
        if sender == self.names.user_id || event.state_key().is_some() {
            return None;
        }
        let relation = Relation::read(content);
        if relation.is_edit {
            return None;
        }
        let kind = match event.kind() {
            "m.room.message" => text(content, "msgtype"),
            "m.sticker" => "m.sticker",
            _ => return None,
        };
        let body = without_reply_fallback(&relation, text(content, "body"));
        let own_text = without_leading_mention(self.names, body);
        let pieces = pieces(kind, sender, own_text, content)?;
        let is_reply_to_own = relation.reply_to.as_deref().is_some_and(is_own);
        let addressed =
            is_reply_to_own || is_mentioned(self.names, content, body, self.allows_room_mentions);
        let arrival = if place.is_direct {
            Arrival::direct()
        } else {
            Arrival::group(addressed)
        };
        let is_group = arrival.kind == ChatKind::Group;
        let metadata = json!({
            "message_id": id, "event_id": id, "room": place.name, "is_group": is_group,
            "is_encrypted": place.is_encrypted, "sender_name": localpart(sender),
        });
        let mut metadata = members(metadata);
        if let Some(thread) = &relation.thread {
            metadata.insert("thread_root_event_id".to_owned(), json!(thread));
            metadata.insert("thread_reply_to_event_id".to_owned(), json!(id));
        }
        Some(CandidateMessage {
            sender: SenderId::from(sender),
            chat: ChatId::from(place.room),
            arrival,
            id: MessageId::from(id),
            metadata,
            session: None,
            delivery: DeliveryContext {
                reply_to: (is_group || relation.thread.is_some()).then(|| MessageId::from(id)),
                thread: relation.thread,
                ..DeliveryContext::default()
            },
            origin: MatrixOrigin {
                is_command: own_text.trim_start().starts_with('/'),
                reply_to: relation.reply_to,
            },
            pieces,
        })
    }
}

/// Returns the content of a message; `None` for one that is not for people.
fn pieces(kind: &str, sender: &str, own_text: &str, content: &Value) -> Option<Vec<Piece>> {
    let pieces = match kind {
        "m.text" => vec![Piece::Text(own_text.to_owned())],
        "m.emote" => vec![Piece::Text(format!("* {} {own_text}", localpart(sender)))],
        "m.location" => {
            let place = cut(text(content, "geo_uri"), PLACE_LIMIT);
            vec![Piece::Text(format!("{own_text}\n{place}"))]
        }
        kind => {
            let file = Piece::File(file_of(kind, content)?);
            let caption = match kind {
                "m.sticker" => Some(own_text),
                _ => caption(content).map(|_| own_text),
            };
            let caption = caption.map(|caption| Piece::Text(caption.to_owned()));
            caption.into_iter().chain([file]).collect()
        }
    };
    Some(pieces)
}

/// Returns the text of an event that is quoted; the kind of its file if it has none.
pub(crate) fn quoted_text(event: &Event) -> Option<String> {
    let content = event.content();
    let kind = match event.kind() {
        "m.room.message" => text(content, "msgtype"),
        "m.sticker" => "m.sticker",
        _ => return None,
    };
    if let Some(file) = file_of(kind, content) {
        let caption = caption(content).unwrap_or_default();
        let shown = format!("[{}: {}] {caption}", file.kind, file.name);
        return Some(shown.trim_end().to_owned());
    }
    let body = without_reply_fallback(&Relation::read(content), text(content, "body"));
    Some(body.to_owned()).filter(|body| !body.trim().is_empty())
}

fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> OwnNames {
        OwnNames {
            user_id: "@bot:x.test".to_owned(),
            display_name: "Bot".to_owned(),
        }
    }

    fn event(content: &Value) -> Event {
        Event(json!({
            "type": "m.room.message", "sender": "@ann:x.test", "event_id": "$1",
            "content": content,
        }))
    }

    fn read(event: &Event, is_direct: bool) -> Option<CandidateMessage> {
        let names = names();
        let reader = Reader {
            names: &names,
            allows_room_mentions: false,
        };
        let place = Place {
            room: "!a:x.test",
            name: "Room",
            is_direct,
            is_encrypted: false,
        };
        reader.candidate(&place, event, |id| id == "$own")
    }

    fn content_text(found: &CandidateMessage) -> String {
        let texts = found.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::File(file) => format!("<{}>", file.kind),
            other => format!("{other:?}"),
        });
        texts.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn messages_of_people_are_read() {
        let table = [
            (json!({"msgtype": "m.text", "body": "hi"}), Some("hi")),
            (
                json!({"msgtype": "m.emote", "body": "waves"}),
                Some("* ann waves"),
            ),
            (json!({"msgtype": "m.notice", "body": "hi"}), None),
            (
                json!({"msgtype": "m.key.verification.request", "body": "x"}),
                None,
            ),
            (
                json!({"msgtype": "m.image", "body": "look", "filename": "a.png", "url": "mxc://x/a"}),
                Some("look|<image>"),
            ),
            (
                json!({"msgtype": "m.file", "body": "a.pdf", "url": "mxc://x/a"}),
                Some("<file>"),
            ),
            (
                json!({"msgtype": "m.location", "body": "here", "geo_uri": "geo:1,2"}),
                Some("here\ngeo:1,2"),
            ),
            (
                json!({"msgtype": "m.text", "body": "* new", "m.new_content": {"body": "new"},
                    "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
                None,
            ),
            (json!({"body": "hi"}), None),
            (json!(null), None),
        ];
        for (content, expected) in table {
            let found = read(&event(&content), true);
            let found = found.as_ref().map(content_text);
            assert_eq!(found.as_deref(), expected, "{content}");
        }
    }

    #[test]
    fn own_and_state_events_are_passed_over() {
        let whole = event(&json!({"msgtype": "m.text", "body": "hi"}));
        for (name, value) in [
            ("sender", json!("@bot:x.test")),
            ("sender", json!("ann")),
            ("sender", json!(null)),
            ("event_id", json!("1")),
            ("state_key", json!("")),
            ("type", json!("m.room.redaction")),
        ] {
            let mut event = whole.clone();
            event.0[name] = value;
            assert!(read(&event, true).is_none(), "{name}");
        }
    }

    #[test]
    fn group_message_is_addressed_by_mention_or_reply() {
        let addressed = |content: Value| {
            let mut content = content;
            content["msgtype"] = json!("m.text");
            let found = read(&event(&content), false).unwrap();
            (found.arrival.addressed, content_text(&found))
        };
        let reply = |to: &str| {
            json!({"body": "> <@bot:x.test> hi\n\nyes", "m.mentions": {},
                "m.relates_to": {"m.in_reply_to": {"event_id": to}}})
        };
        assert_eq!(addressed(json!({"body": "hi"})), (false, "hi".to_owned()));
        assert_eq!(
            addressed(json!({"body": "@bot:x.test: /new"})),
            (true, "/new".to_owned())
        );
        assert_eq!(addressed(reply("$own")), (true, "yes".to_owned()));
        assert_eq!(addressed(reply("$other")), (false, "yes".to_owned()));
    }

    #[test]
    fn thread_is_in_the_delivery_and_not_in_the_session() {
        let content = json!({"msgtype": "m.text", "body": "hi", "m.relates_to": {
            "rel_type": "m.thread", "event_id": "$0", "is_falling_back": true,
            "m.in_reply_to": {"event_id": "$own"},
        }});
        let found = read(&event(&content), true).unwrap();
        assert_eq!(found.delivery.thread.as_deref(), Some("$0"));
        assert_eq!(found.delivery.reply_to, Some("$1".into()));
        assert_eq!((found.session, found.origin.reply_to), (None, None));
        assert_eq!(found.metadata["thread_root_event_id"], "$0");
    }

    #[test]
    fn quotation_is_the_text_or_the_file() {
        let quoted = |content: Value| quoted_text(&event(&content));
        assert_eq!(
            quoted(json!({"msgtype": "m.text", "body": "hi"})).unwrap(),
            "hi"
        );
        assert_eq!(
            quoted(json!({"msgtype": "m.image", "body": "a.png", "url": "mxc://x/a"})).unwrap(),
            "[image: a.png]"
        );
        assert_eq!(quoted(json!({"msgtype": "m.text", "body": " "})), None);
    }
}
