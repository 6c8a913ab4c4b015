//! Signs of the bot: typing, reactions, and marks of messages that were read.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, NOT_FOUND};
use crate::jid;
use crate::model::KnownMessage;
use crate::params::Params;
use crate::state::WhatsAppState;

impl WhatsAppState {
    /// Begins or ends the sign of typing.
    pub(crate) fn type_text(&mut self, params: Params<'_>) -> ApiResult {
        let Ok(chat) = self.addressed(params.text("to")) else {
            return Self::check_target(params);
        };
        self.typing.retain(|typing| *typing != chat);
        if params.flag("active") {
            self.typing.push(chat);
        }
        Ok(Value::Null)
    }

    /// Marks a message as read.
    pub(crate) fn mark_read(&mut self, params: Params<'_>) -> ApiResult {
        Self::check_target(params)?;
        let chat = self.canonical(params.text("to"));
        match self.known(&chat, params) {
            Ok(known) if !known.is_from_bot => self.read.push(params.text("id").to_owned()),
            _ => self.complain("read: no such message of a person in this chat"),
        }
        Ok(Value::Null)
    }

    /// Sets or removes the bot's reaction to a message.
    pub(crate) fn react(&mut self, params: Params<'_>) -> ApiResult {
        self.link.check()?;
        let chat = self.addressed(params.text("to"))?;
        let known = self.known(&chat, params)?;
        if known.is_from_bot != params.flag("fromBot") {
            return Err(ApiError::invalid("fromBot"));
        }
        let (id, emoji) = (params.text("id"), params.text("emoji"));
        if emoji.is_empty() {
            self.reactions.remove(id);
        } else {
            self.reactions.insert(id.to_owned(), emoji.to_owned());
        }
        let id = self.next_id("3EB0");
        Ok(json!({"type": "sent", "to": params.text("to"), "id": id, "repeated": false}))
    }

    /// Returns the message that a frame is about.
    fn known(&self, chat: &str, params: Params<'_>) -> Result<&KnownMessage, ApiError> {
        let known = self.messages.get(params.text("id"));
        let known = known.filter(|known| known.chat == chat);
        let known = known.ok_or_else(|| ApiError::because(NOT_FOUND, "no such message"))?;
        let participant = params.text("participant");
        let needs_participant = jid::is_group(chat) && !known.is_from_bot;
        let named = self.canonical(participant);
        if needs_participant && named != self.canonical(&known.participant) {
            return Err(ApiError::invalid("participant is not the sender"));
        }
        Ok(known)
    }

    /// Refuses a `to` that is no JID. Other targets are not checked.
    fn check_target(params: Params<'_>) -> ApiResult {
        if jid::is_chat(params.text("to")) {
            Ok(Value::Null)
        } else {
            Err(ApiError::invalid("to is no JID of a chat"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::ACCOUNT_LID;
    use crate::incoming::Incoming;
    use crate::probe::{GROUP, Probe, ann, id};

    /// A client that has heard of the person and the group.
    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_group(GROUP, true);
        probe
    }

    #[test]
    fn typing_ends_with_a_message() {
        let mut probe = probe();
        for is_active in [true, false, true] {
            let typing = json!({"to": ann().lid(), "active": is_active});
            assert_eq!(probe.call("typing", &typing), Value::Null);
            assert_eq!(probe.state.typing.len(), usize::from(is_active));
        }
        probe.send(&id(1), &ann().direct(), "done");
        assert_eq!(probe.state.typing, Vec::<String>::new());
        assert_eq!(
            probe.code("typing", &json!({"to": "ann", "active": true})),
            "invalid"
        );
        assert_eq!(probe.complaints().len(), 1);
    }

    #[test]
    fn messages_are_read_and_reacted_to() {
        let mut probe = probe();
        let (pushed, _) = probe.push(Incoming::to(GROUP, &ann(), "hello"));
        let heard = pushed.message_id;
        let target =
            |participant: &str| json!({"to": GROUP, "id": heard, "participant": participant});
        // The person has two names.
        for participant in [ann().lid(), ann().direct()] {
            assert_eq!(probe.call("read", &target(&participant)), Value::Null);
        }
        assert_eq!(probe.state.read, [heard.clone(), heard.clone()]);
        for emoji in ["👀", "✅", ""] {
            let mut react = target(&ann().lid());
            react["emoji"] = json!(emoji);
            let answer = probe.call("react", &react);
            assert_eq!(
                (&answer["type"], &answer["to"]),
                (&json!("sent"), &json!(GROUP))
            );
            let shown = probe.state.reactions.get(&heard).map(String::as_str);
            assert_eq!(shown, Some(emoji).filter(|emoji| !emoji.is_empty()));
        }
        probe.send(&id(1), GROUP, "mine");
        let mine = json!({"to": GROUP, "id": id(1), "fromBot": true, "emoji": "👍"});
        assert_eq!(probe.code("react", &mine), "sent");
        assert_eq!(probe.complaints(), Vec::<String>::new());
        let wrong = [
            json!({"to": GROUP, "id": heard, "emoji": "👀"}),
            json!({"to": GROUP, "id": heard, "participant": ACCOUNT_LID, "emoji": "👀"}),
            json!({"to": GROUP, "id": id(1), "emoji": "👀"}),
        ];
        for react in wrong {
            assert_eq!(probe.code("react", &react), "invalid", "{react}");
        }
        let unknown = json!({"to": GROUP, "id": "unknown", "emoji": "👀"});
        assert_eq!(probe.code("react", &unknown), "not_found");
        assert_eq!(probe.call("read", &target("")), Value::Null);
        assert_eq!(
            probe.call("read", &json!({"to": GROUP, "id": id(1)})),
            Value::Null
        );
        assert_eq!(probe.complaints().len(), 5);
    }
}
