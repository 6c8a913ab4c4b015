//! Actions of people: messages and events, and their pushes.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::BOT_ID;
use crate::connection::Push;
use crate::incoming::{Incoming, Person};
use crate::model::{Callback, CallbackKind, Chat, Pushed, StoredMessage};
use crate::state::WeComState;

/// Command of the callbacks of messages.
pub(crate) const MESSAGE: &str = "aibot_msg_callback";
/// Command of the callbacks of events.
pub(crate) const EVENT: &str = "aibot_event_callback";

impl WeComState {
    pub(crate) fn add_person(&mut self, person: &Person) {
        let chat = Chat {
            is_group: false,
            has_bot: true,
            is_open: false,
        };
        self.chats.entry(person.direct()).or_insert(chat);
    }

    pub(crate) fn add_group(&mut self, id: &str, has_bot: bool) {
        let chat = Chat {
            is_group: true,
            has_bot,
            is_open: false,
        };
        self.chats.insert(id.to_owned(), chat);
    }

    /// Adds a message of a person, and pushes it if it reaches the bot.
    pub(crate) fn push(&mut self, mut incoming: Incoming, is_pushed: bool) -> Pushed {
        self.add_person(&incoming.person);
        if !self.chats.contains_key(&incoming.chat) {
            self.add_group(&incoming.chat, true);
        }
        for file in std::mem::take(&mut incoming.files) {
            self.add_file(&mut incoming.content, file);
        }
        let message_id = self.next_id("CAIQ16HMjQYY");
        let stored = StoredMessage {
            kind: incoming.kind.clone(),
            content: incoming.content.clone(),
        };
        self.messages.insert(message_id.clone(), stored);
        let mut is_heard = false;
        if let Some(chat) = self.chats.get_mut(&incoming.chat) {
            is_heard = chat.has_bot && (!chat.is_group || incoming.mentions_bot);
            chat.is_open |= is_heard;
        }
        if !is_pushed || !is_heard {
            return Pushed {
                chat_id: incoming.chat,
                message_id,
                req_id: String::new(),
                push: None,
            };
        }
        let body = self.message_body(&message_id, &incoming);
        self.queue(MESSAGE, body, CallbackKind::Message)
    }

    /// Returns the body of the callback of a message.
    fn message_body(&mut self, id: &str, incoming: &Incoming) -> Value {
        let code = self.next_id("RESPONSECODE");
        let response = format!("{}/cgi-bin/aibot/response", self.media);
        let mut body = json!({
            "msgid": id, "aibotid": BOT_ID, "chattype": "single", "msgtype": incoming.kind,
            "from": {"userid": incoming.person.userid},
            "response_url": format!("{response}?response_code={code}"),
        });
        self.add_chat(&mut body, &incoming.chat);
        if let Some(created) = incoming.created {
            set(&mut body, "create_time", created);
        }
        let content = self.with_addresses(&incoming.content);
        set(&mut body, &incoming.kind, content);
        let quoted = incoming.quotes.as_ref();
        if let Some(quote) = quoted.and_then(|quoted| self.quote(quoted)) {
            set(&mut body, "quote", quote);
        }
        body
    }

    fn add_chat(&self, body: &mut Value, id: &str) {
        if self.chats.get(id).is_some_and(|chat| chat.is_group) {
            set(body, "chattype", "group");
            set(body, "chatid", id);
        }
    }

    /// Returns a message as it is contained in one that quotes it.
    fn quote(&mut self, id: &str) -> Option<Value> {
        let (kind, content) = match self.messages.get(id) {
            Some(message) => (message.kind.clone(), message.content.clone()),
            None => {
                let sent = self.sent.iter().find(|sent| sent.key == id)?;
                ("text".to_owned(), json!({"content": sent.text}))
            }
        };
        let mut quote = json!({"msgtype": kind});
        let content = self.with_addresses(&content);
        set(&mut quote, &kind, content);
        Some(quote)
    }

    /// Pushes an event of a person.
    pub(crate) fn push_event(&mut self, chat: &str, person: &Person, event: &Value) -> Pushed {
        self.add_person(person);
        let kind = match event.get("eventtype").and_then(Value::as_str) {
            Some("enter_chat") => CallbackKind::EnterChat,
            Some("template_card_event") => {
                let task = event.pointer("/template_card_event/task_id");
                let task = task.and_then(Value::as_str).unwrap_or_default();
                CallbackKind::Card(task.to_owned())
            }
            _ => CallbackKind::Other,
        };
        let mut body = self.event_body(event);
        set(&mut body, "chattype", "single");
        set(&mut body, "from", json!({"userid": person.userid}));
        self.add_chat(&mut body, chat);
        self.queue(EVENT, body, kind)
    }

    /// Returns the body of an event without a chat.
    pub(crate) fn event_body(&mut self, event: &Value) -> Value {
        let id = self.next_id("CAIQ16HMjQYY");
        let created = self.now() / 1000;
        json!({
            "msgid": id, "create_time": created, "aibotid": BOT_ID, "msgtype": "event",
            "event": event,
        })
    }

    /// Queues a push, and remembers the callback for answers.
    pub(crate) fn queue(&mut self, cmd: &str, body: Value, kind: CallbackKind) -> Pushed {
        let text = |place| body.pointer(place).and_then(Value::as_str);
        let chat_id = text("/chatid").or_else(|| text("/from/userid"));
        let chat_id = chat_id.unwrap_or_default().to_owned();
        let message_id = text("/msgid").unwrap_or_default().to_owned();
        let req_id = self.next_id("TESTreq_");
        let callback = Callback {
            kind,
            chat: chat_id.clone(),
            at: self.now(),
            is_answered: false,
            streams: std::collections::BTreeMap::new(),
        };
        self.callbacks.insert(req_id.clone(), callback);
        let push = Push {
            cmd: cmd.to_owned(),
            req_id: req_id.clone(),
            body,
            is_waiting: true,
            deliveries: 0,
        };
        self.pushes.push(push);
        self.dispatch();
        Pushed {
            chat_id,
            message_id,
            req_id,
            push: Some(self.pushes.len() - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{GROUP, Probe, ann};

    #[test]
    fn groups_deliver_only_mentions() {
        let mut probe = Probe::new();
        let unheard = probe.state.push(Incoming::to(GROUP, &ann(), "hi"), true);
        assert_eq!((unheard.push, unheard.req_id.as_str()), (None, ""));
        let (_, frame) = probe.push(Incoming::to(GROUP, &ann(), "hi").mentioning_bot());
        let body = &frame["body"];
        assert_eq!(body["text"], json!({"content": "@nanobot hi"}));
        assert_eq!(
            (&body["chattype"], &body["chatid"]),
            (&json!("group"), &json!(GROUP))
        );
        let (pushed, frame) = probe.push(Incoming::direct(&ann(), "hi").created_at(5));
        let body = &frame["body"];
        assert_eq!(frame["cmd"], MESSAGE);
        assert_eq!(frame["headers"]["req_id"], pushed.req_id);
        assert_eq!(
            (&body["chattype"], body.get("chatid"), &body["create_time"]),
            (&json!("single"), None, &json!(5))
        );
        assert_eq!(body["from"], json!({"userid": "ann"}));
        assert_eq!(body["msgid"], pushed.message_id);
    }

    #[test]
    fn messages_contain_the_quoted_one() {
        let mut probe = Probe::new();
        let text = probe
            .state
            .push(Incoming::direct(&ann(), "first"), false)
            .message_id;
        let file = Incoming::direct(&ann(), "").with_file("a.txt", "x");
        let file = probe.state.push(file, false).message_id;
        assert_eq!(probe.send("ann", "from the bot"), 0);
        let key = probe.state.sent[0].key.clone();
        let table = [(text, "text"), (file, "file"), (key, "text")];
        for (quoted, kind) in table {
            let (_, frame) = probe.push(Incoming::direct(&ann(), "what?").quoting(&quoted));
            let quote = &frame["body"]["quote"];
            assert_eq!(quote["msgtype"], kind);
            assert!(quote[kind].is_object(), "{quote}");
        }
        let (_, frame) = probe.push(Incoming::direct(&ann(), "what?").quoting("unknown"));
        assert_eq!(frame["body"].get("quote"), None);
    }

    #[test]
    fn events_have_their_type_and_time() {
        let mut probe = Probe::new();
        let event = json!({"eventtype": "enter_chat"});
        let pushed = probe.state.push_event("ann", &ann(), &event);
        let frame = probe.frame();
        assert_eq!(
            (&frame["cmd"], &frame["body"]["event"]),
            (&json!(EVENT), &event)
        );
        assert!(frame["body"]["create_time"].is_i64());
        assert_eq!(pushed.chat_id, "ann");
        assert_eq!(
            probe.state.callbacks[&pushed.req_id].kind,
            CallbackKind::EnterChat
        );
    }
}
