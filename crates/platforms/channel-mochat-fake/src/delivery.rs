//! Deliveries of events to the clients that are connected.

use serde_json::{Value, json};

use crate::account::{GROUP_ID, INBOX_APPEND, PANEL_EVENTS, SESSION_EVENTS};
use crate::connection::SocketConnection;
use crate::model::{Event, Feed, time};
use crate::packet::Packet;
use crate::state::MochatState;

impl MochatState {
    /// Adds an event to a session or panel, without delivering it. Returns its number.
    pub(crate) fn add_event(
        &mut self,
        chat: &str,
        kind: &str,
        created: i64,
        payload: Value,
    ) -> u64 {
        let Some(chat) = self.chats.get_mut(chat) else {
            return 0;
        };
        let seq = chat.last_seq() + 1;
        chat.events.push(Event {
            seq,
            kind: kind.to_owned(),
            created,
            payload,
            deliveries: 0,
        });
        seq
    }

    /// Delivers an event to the clients that are connected.
    pub(crate) fn deliver(&mut self, chat: &str, seq: u64) {
        if self.feed != Feed::Notifications {
            for connection in self.subscribers(chat) {
                self.send_events(connection, chat, &[seq]);
            }
        }
        if self.feed != Feed::Events {
            for (name, payload) in self.notifications(chat, seq) {
                self.send_to_all(&Packet::event(&name, &payload));
            }
        }
    }

    pub(crate) fn subscribers(&self, chat: &str) -> Vec<usize> {
        let is_subscriber =
            |open: &SocketConnection| open.listens() && open.subscriptions.contains(chat);
        let open = self.connections.iter();
        let open = open.filter(|(_, open)| is_subscriber(open));
        open.map(|(number, _)| *number).collect()
    }

    /// Sends events of one session or panel in one packet.
    pub(crate) fn send_events(&mut self, connection: usize, id: &str, numbers: &[u64]) {
        let Some(chat) = self.chats.get_mut(id) else {
            return;
        };
        let name = if chat.is_session() {
            SESSION_EVENTS
        } else {
            PANEL_EVENTS
        };
        let mut events = Vec::new();
        for number in numbers {
            let event = chat.events.iter_mut().find(|event| event.seq == *number);
            if let Some(event) = event {
                event.deliveries += 1;
                events.push(event.written(id));
            }
        }
        let cursor = numbers.iter().max();
        let payload = json!({"sessionId": id, "cursor": cursor, "events": events});
        self.send(connection, &Packet::event(name, &payload));
    }

    /// Sends a packet to every client that is logged in.
    pub(crate) fn send_to_all(&mut self, packet: &Packet) {
        let open = self.connections.iter();
        let open = open.filter(|(_, open)| open.listens());
        let numbers: Vec<usize> = open.map(|(number, _)| *number).collect();
        for number in numbers {
            self.send(number, packet);
        }
    }

    /// Returns the notifications of an event: of a panel's messages, and of messages for the bot.
    fn notifications(&self, id: &str, seq: u64) -> Vec<(String, Value)> {
        let Some(chat) = self.chats.get(id) else {
            return Vec::new();
        };
        let Some(event) = chat.events.iter().find(|event| event.seq == seq) else {
            return Vec::new();
        };
        let mut notifications = Vec::new();
        let kind = event.kind.strip_prefix("message.");
        if let Some(kind) = kind.filter(|_| !chat.is_session()) {
            let name = format!("notify:chat.message.{kind}");
            notifications.push((name, message_notification(id, event)));
        } else if event.kind == "message.add" {
            notifications.push((INBOX_APPEND.to_owned(), inbox_item(&chat.converse, event)));
        }
        notifications
    }

    pub(crate) fn repeat(&mut self, id: &str, seq: u64) {
        self.deliver(id, seq);
        let has_subscribers = !self.subscribers(id).is_empty();
        if let Some(chat) = self.chats.get_mut(id).filter(|_| !has_subscribers) {
            chat.repeats.push(seq);
        }
    }
}

fn message_notification(panel: &str, event: &Event) -> Value {
    let member = |key: &str| event.payload.get(key).cloned().unwrap_or_default();
    let group = match member("groupId") {
        Value::Null => json!(GROUP_ID),
        group => group,
    };
    json!({
        "_id": event.message_id(), "converseId": panel, "groupId": group,
        "author": member("author"), "authorInfo": member("authorInfo"),
        "content": member("content"), "meta": member("meta"), "reactions": [],
        "hasRecall": event.kind == "message.recall", "createdAt": time(event.created),
        "updatedAt": time(event.created),
    })
}

fn inbox_item(converse: &str, event: &Event) -> Value {
    let content = match event.payload.get("content") {
        Some(Value::String(text)) => text.clone(),
        other => other.map(Value::to_string).unwrap_or_default(),
    };
    let snippet: String = content.chars().take(40).collect();
    json!({
        "_id": format!("inbox{}", event.message_id()), "type": "message", "readed": false,
        "createdAt": time(event.created), "updatedAt": time(event.created),
        "payload": {
            "converseId": converse, "messageId": event.message_id(),
            "messageAuthor": event.payload.get("author"), "messageSnippet": snippet,
            "messagePlainContent": content,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{PANEL, Probe, ann, contents, text};

    fn names(probe: &mut Probe, connection: usize) -> Vec<String> {
        let events = probe.events(connection).into_iter();
        events.map(|(name, _)| name).collect()
    }

    #[test]
    fn feed_decides_on_events_and_notifications() {
        let mut probe = Probe::new();
        let (subscribed, other) = (probe.connect(), probe.connect());
        probe.subscribe(subscribed, 0, 10);
        probe.subscribe_panel(subscribed);
        let table: [(Feed, &[&str]); 3] = [
            (Feed::Events, &[SESSION_EVENTS, PANEL_EVENTS]),
            (
                Feed::Notifications,
                &[INBOX_APPEND, "notify:chat.message.add"],
            ),
            (
                Feed::Both,
                &[
                    SESSION_EVENTS,
                    INBOX_APPEND,
                    PANEL_EVENTS,
                    "notify:chat.message.add",
                ],
            ),
        ];
        for (feed, expected) in table {
            probe.state.feed = feed;
            probe.state.push(text("x"));
            probe.state.push(Incoming::to(PANEL, &ann(), "y"));
            assert_eq!(names(&mut probe, subscribed), expected, "{feed:?}");
            // Clients without a subscription only get notifications.
            let notifications = expected.iter().filter(|name| name.starts_with("notify:"));
            let notifications: Vec<_> = notifications.copied().collect();
            assert_eq!(names(&mut probe, other), notifications, "{feed:?}");
        }
    }

    #[test]
    fn event_names_its_number_and_its_chat() {
        let mut probe = Probe::new();
        let number = probe.connect();
        probe.subscribe(number, 0, 10);
        probe.state.feed = Feed::Events;
        let incoming = text("hello").created_at(1_700_000_000_123);
        let pushed = probe.state.push(incoming);
        let [(_, payload)] = probe.events(number).try_into().unwrap();
        let id = ann().direct();
        assert_eq!(
            (&payload["sessionId"], &payload["cursor"]),
            (&json!(id), &json!(1))
        );
        let event = &payload["events"][0];
        let expected = json!("2023-11-14T22:13:20.123Z");
        assert_eq!(
            (&event["timestamp"], &event["seq"]),
            (&expected, &json!(pushed.seq))
        );
    }

    #[test]
    fn repeated_event_waits_for_a_client() {
        let mut probe = Probe::new();
        let hello = probe.state.push(text("hello"));
        probe.state.push(text("next"));
        probe.state.repeat(&hello.chat_id, hello.seq);
        let number = probe.connect();
        let ack = probe.subscribe(number, 2, 10);
        let batch = &ack["data"]["sessions"][0];
        assert_eq!(
            (contents(batch), &batch["cursor"]),
            (vec![json!("hello")], &json!(2))
        );
        probe.state.repeat(&hello.chat_id, hello.seq);
        assert_eq!(probe.contents(number), [json!("hello")]);
        let ack = probe.subscribe(number, 2, 10);
        assert_eq!(ack["data"]["sessions"][0]["events"], json!([]));
    }
}
