//! Messages of the bot.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, FORBIDDEN, NOT_FOUND, TOO_LARGE};
use crate::jid;
use crate::model::{KnownMessage, SentFile, SentMessage};
use crate::params::Params;
use crate::route::{MEDIA, MEDIA_KINDS, QUOTE};
use crate::state::WhatsAppState;

impl WhatsAppState {
    /// Returns the chat of a JID that is addressed by the client.
    pub(crate) fn addressed(&self, to: &str) -> Result<String, ApiError> {
        if !jid::is_chat(to) {
            return Err(ApiError::invalid("to is no JID of a chat"));
        }
        let chat = self.canonical(to);
        match self.chats.get(&chat) {
            None => Err(ApiError::because(NOT_FOUND, "no such chat")),
            Some(false) => Err(ApiError::new(FORBIDDEN)),
            Some(true) => Ok(chat),
        }
    }

    /// Sends a message. Nothing is sent again whose id is known.
    pub(crate) fn send_message(&mut self, connection: usize, params: Params<'_>) -> ApiResult {
        let (id, to, text) = (params.text("id"), params.text("to"), params.text("text"));
        if !is_message_id(id) {
            return Err(ApiError::invalid("the form of id"));
        }
        if !jid::is_chat(to) {
            return Err(ApiError::invalid("to is no JID of a chat"));
        }
        if text.chars().count() > self.text_limit {
            return Err(ApiError::because(TOO_LARGE, "the text").clumsy());
        }
        let quote = self.read_quote(params)?;
        self.check_media(params)?;
        if text.is_empty() && params.object("media").is_none() {
            return Err(ApiError::invalid("neither text nor media"));
        }
        let done =
            |is_repeated| json!({"type": "sent", "to": to, "id": id, "repeated": is_repeated});
        if self.sent_ids.iter().any(|known| known == id) {
            self.check_repetition(id, to, text);
            return Ok(done(true));
        }
        self.link.check()?;
        let chat = self.addressed(to)?;
        let files = self.read_media(connection, params)?;
        self.typing.retain(|typing| *typing != chat);
        // WhatsApp shows a message once, however often its id is sent.
        if self.messages.contains_key(id) {
            self.check_repetition(id, to, text);
        } else {
            self.keep(id, &chat, to, text, quote, files);
        }
        self.sent_ids.push_back(id.to_owned());
        while self.sent_ids.len() > self.id_limit {
            self.sent_ids.pop_front();
        }
        Ok(done(false))
    }

    /// Keeps a message of the bot.
    pub(crate) fn keep(
        &mut self,
        id: &str,
        chat: &str,
        to: &str,
        text: &str,
        quote: Value,
        files: Vec<SentFile>,
    ) {
        let known = KnownMessage {
            chat: chat.to_owned(),
            participant: crate::account::ACCOUNT_LID.to_owned(),
            is_from_bot: true,
            content: text.to_owned(),
        };
        self.messages.insert(id.to_owned(), known);
        self.sent.push(SentMessage {
            id: id.to_owned(),
            chat_id: chat.to_owned(),
            to: to.to_owned(),
            text: text.to_owned(),
            quote,
            files,
        });
    }

    /// Records an id that is used for two messages.
    fn check_repetition(&mut self, id: &str, to: &str, text: &str) {
        let sent = self.sent.iter().find(|sent| sent.id == id);
        if sent.is_none_or(|sent| sent.to != to || sent.text != text) {
            self.complain("send: an id of another message");
        }
    }

    fn read_quote(&mut self, params: Params<'_>) -> Result<Value, ApiError> {
        let Some(quote) = params.object("quote") else {
            return Ok(Value::Null);
        };
        self.check_part("send", "quote", quote, QUOTE)?;
        let participant = quote.text("participant");
        if quote.text("id").is_empty() {
            return Err(ApiError::invalid("quote.id is empty"));
        }
        if !participant.is_empty() && !jid::is_person(participant) {
            return Err(ApiError::invalid("quote.participant is no JID of a person"));
        }
        Ok(Value::Object(quote.0.clone()))
    }

    fn check_media(&mut self, params: Params<'_>) -> Result<(), ApiError> {
        let Some(media) = params.object("media") else {
            return Ok(());
        };
        self.check_part("send", "media", media, MEDIA)?;
        if !MEDIA_KINDS.contains(&media.text("kind")) {
            return Err(ApiError::invalid("media.kind"));
        }
        let mime = media.text("mime").split_once('/');
        if mime.is_none_or(|(kind, rest)| kind.is_empty() || rest.is_empty()) {
            return Err(ApiError::invalid("media.mime"));
        }
        if media.text("kind") == "document" && media.text("name").is_empty() {
            return Err(ApiError::invalid("a document without a name"));
        }
        Ok(())
    }

    fn read_media(&self, connection: usize, params: Params<'_>) -> Result<Vec<SentFile>, ApiError> {
        let Some(media) = params.object("media") else {
            return Ok(Vec::new());
        };
        let file = SentFile {
            kind: media.text("kind").to_owned(),
            mime: media.text("mime").to_owned(),
            name: media.text("name").to_owned(),
            bytes: self.uploaded(connection, media.text("ref"))?,
        };
        Ok(vec![file])
    }
}

/// Returns `true` if the id has the form of those that clients choose.
fn is_message_id(id: &str) -> bool {
    let digits = id.strip_prefix("3EB0").unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    (16..=28).contains(&digits.len()) && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::link::Status;
    use crate::probe::{FIRST, GROUP, Probe, ann, id};

    /// A client that has heard of the person and the group.
    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_group(GROUP, true);
        probe
    }

    #[test]
    fn message_is_sent_once() {
        let mut probe = probe();
        let message = json!({"id": id(1), "to": ann().lid(), "text": "hello"});
        for is_repeated in [false, true] {
            let expected = json!({
                "type": "sent", "requestId": "r1", "to": ann().lid(), "id": id(1),
                "repeated": is_repeated,
            });
            assert_eq!(probe.call("send", &message), expected);
        }
        let [sent] = &probe.state.sent[..] else {
            panic!("not one message");
        };
        assert_eq!((&sent.chat_id, &sent.to), (&ann().direct(), &ann().lid()));
        assert_eq!(probe.complaints(), Vec::<String>::new());
        assert_eq!(probe.send(&id(1), &ann().lid(), "another"), "sent");
        assert_eq!(probe.complaints(), ["send: an id of another message"]);
        // Only the last ids are known, but WhatsApp shows a message once all the same.
        probe.state.id_limit = 1;
        assert_eq!(probe.send(&id(2), GROUP, "to all"), "sent");
        assert_eq!(probe.call("send", &message)["repeated"], false);
        assert_eq!(probe.texts(), ["hello", "to all"]);
    }

    #[test]
    fn unknown_outcome_is_settled_by_the_same_id() {
        let mut probe = probe();
        let fault = Fault::ErrorAfterEffect("unknown_outcome".to_owned());
        probe.state.calls.fail_next("send", fault);
        assert_eq!(probe.send(&id(1), GROUP, "hello"), "unknown_outcome");
        let message = json!({"id": id(1), "to": GROUP, "text": "hello"});
        assert_eq!(probe.call("send", &message)["repeated"], false);
        assert_eq!(probe.call("send", &message)["repeated"], true);
        assert_eq!(probe.texts(), ["hello"]);
    }

    #[test]
    fn wrong_messages_are_refused_and_recorded() {
        let mut probe = probe();
        probe.upload("u1", 0, b"file");
        let media = json!({"ref": "u1", "kind": "document", "mime": "text/plain", "name": "a"});
        let with = |name: &str, value: Value| {
            let mut media = media.clone();
            media[name] = value;
            json!({"media": media})
        };
        let invalid = [
            json!({"id": "3EB0123"}),
            json!({"id": "3EB0000000000000000a"}),
            json!({"id": format!("3EB0{}", "A".repeat(29))}),
            json!({"id": format!("3EB1{}", "A".repeat(18))}),
            json!({"id": 5}),
            json!({"to": "ann"}),
            json!({"to": "status@broadcast"}),
            json!({"text": ""}),
            json!({"text": null}),
            json!({"quote": {"id": ""}}),
            json!({"quote": {"content": "x"}}),
            json!({"quote": {"id": "x", "participant": GROUP}}),
            with("kind", json!("hologram")),
            with("mime", json!("text")),
            with("name", json!("")),
            with("ref", json!(5)),
        ];
        let whole = json!({"id": id(1), "to": GROUP, "text": "x"});
        for changes in invalid {
            let mut message = whole.clone();
            for (name, value) in changes.as_object().unwrap() {
                message[name] = value.clone();
            }
            assert_eq!(probe.code("send", &message), "invalid", "{changes}");
            assert_eq!(probe.complaints().len(), 1, "{changes}");
        }
        let mut message = whole;
        message["text"] = json!("語".repeat(65_537));
        assert_eq!(probe.code("send", &message), "too_large");
        message["text"] = json!("語".repeat(65_536));
        message["media"] = with("ref", json!("u9"))["media"].clone();
        assert_eq!(probe.code("send", &message), "not_found");
        assert_eq!(probe.complaints().len(), 2);
        message["media"] = media;
        assert_eq!(probe.code("send", &message), "sent");
        let files = &probe.state.sent[0].files;
        assert_eq!(
            (files[0].name.as_str(), &files[0].bytes[..]),
            ("a", &b"file"[..])
        );
    }

    #[test]
    fn chats_refuse_messages() {
        let mut probe = probe();
        probe.state.add_group("7@g.us", false);
        let table = [
            ("8@g.us", "not_found"),
            ("9@s.whatsapp.net", "not_found"),
            ("7@g.us", "forbidden"),
        ];
        for (to, code) in table {
            assert_eq!(probe.send(&id(1), to, "x"), code);
        }
        for (status, code) in [
            (Status::Unlinked, "unlinked"),
            (Status::Connecting, "not_connected"),
            (Status::Disconnected, "not_connected"),
        ] {
            probe.state.set_status(status, None, None);
            probe.outs(FIRST);
            assert_eq!(probe.send(&id(1), GROUP, "x"), code);
        }
        assert_eq!(probe.texts(), Vec::<&str>::new());
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }
}
