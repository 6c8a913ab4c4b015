//! Subscriptions, and the events that are delivered with them.

use serde_json::{Value, json};

use crate::account::GROUP_ID;
use crate::api::{ApiError, ApiResult};
use crate::model::TEXT_PANEL;
use crate::params::Params;
use crate::state::MochatState;

/// Usual number of events in one answer.
pub(crate) const USUAL_LIMIT: usize = 100;

impl MochatState {
    /// Subscribes to sessions: to all of them or to none. Returns the events after the cursors; a
    /// session without a cursor begins with its first event.
    pub(crate) fn subscribe_sessions(&mut self, connection: usize, params: &Params) -> ApiResult {
        let ids = params.ids("sessionIds");
        for id in &ids {
            self.check_chat(id, true)?;
        }
        for (id, cursor) in params.cursors() {
            self.show_cursor(&id, cursor.as_u64().unwrap_or_default())?;
        }
        let limit = params.limit(USUAL_LIMIT);
        let mut sessions = Vec::new();
        for id in ids {
            let cursor = params.cursors().get(&id).and_then(Value::as_u64);
            sessions.push(self.read_events(&id, cursor.unwrap_or_default(), limit));
            self.subscribe(connection, id);
        }
        Ok(json!({"sessions": sessions}))
    }

    /// Subscribes to panels; an empty list is every text panel of the group.
    pub(crate) fn subscribe_panels(&mut self, connection: usize, params: &Params) -> ApiResult {
        let mut ids = params.ids("panelIds");
        if ids.is_empty() {
            let all = self.chats.iter();
            let texts = all.filter(|(_, chat)| chat.panel == Some(TEXT_PANEL) && chat.has_robot);
            ids = texts.map(|(id, _)| id.clone()).collect();
        }
        for id in &ids {
            self.check_chat(id, false)?;
        }
        for id in &ids {
            self.subscribe(connection, id.clone());
        }
        Ok(json!({"panelIds": ids, "groupId": GROUP_ID}))
    }

    fn subscribe(&mut self, connection: usize, chat: String) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.subscriptions.insert(chat);
        }
    }

    /// Checks that a session or text panel exists and that the bot is a member.
    pub(crate) fn check_chat(&self, id: &str, is_session: bool) -> Result<(), ApiError> {
        let what = if is_session { "Session" } else { "Panel" };
        let chat = self.chats.get(id);
        let Some(chat) = chat.filter(|chat| chat.is_session() == is_session) else {
            return Err(ApiError::unknown(what, id));
        };
        if !chat.has_robot {
            return Err(ApiError::with_message(403, "Not a participant"));
        }
        if chat.panel.is_some_and(|kind| kind != TEXT_PANEL) {
            return Err(ApiError::malformed(format!("{what} {id} has no text")));
        }
        Ok(())
    }

    /// Records the cursor that a client shows for a session.
    pub(crate) fn show_cursor(&mut self, id: &str, cursor: u64) -> Result<(), ApiError> {
        let Some(chat) = self.chats.get_mut(id) else {
            return Ok(());
        };
        if cursor > chat.last_seq() {
            let reason = format!("the cursor {cursor} of {id} was never given");
            return Err(ApiError::malformed(reason));
        }
        chat.cursor = chat.cursor.max(cursor);
        Ok(())
    }

    /// Returns the events of a session after a cursor, and those to repeat, as a client gets them.
    pub(crate) fn read_events(&mut self, id: &str, cursor: u64, limit: usize) -> Value {
        let Some(chat) = self.chats.get_mut(id) else {
            return Value::Null;
        };
        let repeats = std::mem::take(&mut chat.repeats);
        let mut reached = cursor;
        let mut events = Vec::new();
        for event in &mut chat.events {
            let is_new = event.seq > cursor && events.len() < limit;
            if is_new || repeats.contains(&event.seq) {
                event.deliveries += 1;
                events.push(event.written(id));
                reached = reached.max(event.seq);
            }
        }
        json!({"sessionId": id, "cursor": reached, "events": events})
    }

    /// Sends the events that were too many for the acknowledgement of a subscription.
    pub(crate) fn send_backlog(&mut self, connection: usize, params: &Params) {
        let limit = params.limit(USUAL_LIMIT);
        for id in params.ids("sessionIds") {
            let cursor = params.cursors().get(&id).and_then(Value::as_u64);
            let cursor = cursor.unwrap_or_default();
            let Some(chat) = self.chats.get(&id) else {
                continue;
            };
            let rest = chat.events.iter().filter(|event| event.seq > cursor);
            let rest: Vec<u64> = rest.skip(limit).map(|event| event.seq).collect();
            for batch in rest.chunks(limit.max(1)) {
                self.send_events(connection, &id, batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{SUBSCRIBE_PANELS, SUBSCRIBE_SESSIONS};
    use crate::probe::{PANEL, Probe, ann, contents, text};

    #[test]
    fn acknowledgement_has_the_events_after_the_cursor() {
        let mut probe = Probe::new();
        for word in ["a", "b", "c"] {
            probe.state.add_message(text(word));
        }
        let number = probe.connect();
        for (cursor, limit, expected, rest) in [
            (0, 10, &["a", "b", "c"][..], &[][..]),
            (1, 10, &["b", "c"], &[]),
            (0, 2, &["a", "b"], &["c"]),
            (0, 1, &["a"], &["b", "c"]),
            (3, 10, &[], &[]),
        ] {
            let ack = probe.subscribe(number, cursor, limit);
            let batch = &ack["data"]["sessions"][0];
            assert_eq!(contents(batch), expected);
            let reached = cursor + u64::try_from(expected.len()).unwrap();
            assert_eq!(batch["cursor"], json!(reached));
            assert_eq!(
                probe.contents(number),
                rest,
                "what is above the limit follows"
            );
        }
        probe.state.keeps_backlog = true;
        probe.subscribe(number, 0, 1);
        assert_eq!(probe.contents(number), Vec::<Value>::new());
        assert_eq!(probe.state.chats[&ann().direct()].cursor, 3);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn unknown_session_prevents_every_subscription() {
        let mut probe = Probe::new();
        let number = probe.connect();
        let session = ann().direct();
        let body = json!({"sessionIds": [session, "session_x"], "cursors": {}, "limit": 1});
        probe.emit(number, SUBSCRIBE_SESSIONS, &body);
        let expected = json!({"result": false, "message": "Session session_x not found"});
        assert_eq!(probe.ack(number), expected);
        assert_eq!(probe.state.subscribers(&session), Vec::<usize>::new());
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn malformed_subscriptions_are_refused_and_recorded() {
        let mut probe = Probe::new();
        probe.state.add_panel("folder", 1);
        let number = probe.connect();
        let session = ann().direct();
        let table = [
            (SUBSCRIBE_SESSIONS, json!({"sessionIds": [session]})),
            (
                SUBSCRIBE_SESSIONS,
                json!({"sessionIds": [session], "cursors": {session.clone(): -1}, "limit": 1}),
            ),
            (
                SUBSCRIBE_SESSIONS,
                json!({"sessionIds": [session], "cursors": {session.clone(): 7}, "limit": 1}),
            ),
            (
                SUBSCRIBE_SESSIONS,
                json!({"sessionIds": [""], "cursors": {}, "limit": 1}),
            ),
            (
                SUBSCRIBE_SESSIONS,
                json!({"sessionIds": [session], "cursors": {}, "limit": 0}),
            ),
            (SUBSCRIBE_PANELS, json!({})),
            (SUBSCRIBE_PANELS, json!({"panelIds": ["folder"]})),
        ];
        for (index, (name, body)) in table.iter().enumerate() {
            probe.emit(number, name, body);
            assert_eq!(probe.ack(number)["result"], json!(false), "{body}");
            assert_eq!(probe.state.complaints.len(), index + 1, "{body}");
        }
    }

    #[test]
    fn empty_list_is_every_text_panel() {
        let mut probe = Probe::new();
        probe.state.add_panel("folder", 1);
        probe.state.add_panel("another", 0);
        let number = probe.connect();
        probe.emit(number, SUBSCRIBE_PANELS, &json!({"panelIds": []}));
        let data = json!({"panelIds": ["another", PANEL], "groupId": GROUP_ID});
        assert_eq!(probe.ack(number), json!({"result": true, "data": data}));
        assert_eq!(probe.state.subscribers(PANEL), [number]);
    }
}
