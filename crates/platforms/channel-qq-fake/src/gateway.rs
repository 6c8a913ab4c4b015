//! Frames of clients: heartbeats and identifications.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::{BOT_ID, BOT_NAME};
use crate::connection::{GatewaySession, Out};
use crate::state::QqState;

/// All intents that are documented.
const INTENTS: u64 = 1 | 1 << 1 | 3 << 9 | 1 << 12 | 3 << 18 | 0x7f << 24;

impl QqState {
    /// Handles a text frame from the client.
    pub(crate) fn handle_frame(&mut self, connection: usize, text: &str) {
        let Ok(frame @ Value::Object(_)) = serde_json::from_str::<Value>(text) else {
            return self.refuse_frame(connection, 4002, "no JSON object");
        };
        let known = ["op", "d", "s", "t", "id"];
        let members = frame.as_object().into_iter().flatten();
        for (name, _) in members.filter(|(name, _)| !known.contains(&name.as_str())) {
            self.complain(&format!("a frame with the unknown member {name}"));
        }
        let data = frame.get("d").unwrap_or(&Value::Null);
        let is_identified = self
            .connections
            .get(&connection)
            .is_some_and(|open| open.session.is_some());
        match frame.get("op").and_then(Value::as_u64) {
            Some(1) => self.beat(connection, data),
            Some(2 | 6) if is_identified => {
                self.refuse_frame(connection, 4005, "identified twice");
            }
            Some(2) => self.identify(connection, data),
            Some(6) => self.resume(connection, data),
            _ => self.refuse_frame(connection, 4001, "an unknown opcode"),
        }
    }

    /// Records what no correct client does, and closes its connection.
    pub(crate) fn refuse_frame(&mut self, connection: usize, code: u16, what: &str) {
        self.complain(&format!("{code} {what}"));
        self.close_with(connection, code);
    }

    pub(crate) fn close_with(&mut self, connection: usize, code: u16) {
        self.send_out(connection, Out::Close(code));
        if let Some(open) = self.connections.get_mut(&connection) {
            open.is_leaving = true;
        }
    }

    pub(crate) fn send_out(&mut self, connection: usize, out: Out) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(out);
        }
    }

    pub(crate) fn send_frame(&mut self, connection: usize, frame: &Value) {
        self.send_out(connection, Out::Text(frame.to_string()));
    }

    fn beat(&mut self, connection: usize, data: &Value) {
        self.beats += 1;
        let session = self.connections.get_mut(&connection).and_then(|open| {
            open.last_beat = Instant::now();
            open.session.clone()
        });
        let last = data.as_u64();
        if last.is_none() && !data.is_null() {
            return self.refuse_frame(connection, 4002, "a heartbeat without a number");
        }
        if let (Some(session), Some(last)) = (session, last)
            && !self.confirm(&session, last)
        {
            return self.refuse_frame(connection, 4007, "a heartbeat of an event that never was");
        }
        if !self.rules.withholds_acks {
            self.send_frame(connection, &json!({"op": 11}));
        }
    }

    /// Closes a connection whose token or bot is refused. Returns `true` if it did.
    pub(crate) fn is_refused(&mut self, connection: usize, data: &Value) -> bool {
        let token = data
            .get("token")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let code = if self.is_authorized(token) {
            self.rules.refuse_sessions
        } else {
            Some(4004)
        };
        if let Some(code) = code {
            self.close_with(connection, code);
        }
        code.is_some()
    }

    fn identify(&mut self, connection: usize, data: &Value) {
        if self.is_refused(connection, data) {
            return;
        }
        let known = ["token", "intents", "shard", "properties"];
        let members = data.as_object().into_iter().flatten();
        for (name, _) in members.filter(|(name, _)| !known.contains(&name.as_str())) {
            self.complain(&format!("identified with the unknown member {name}"));
        }
        let intents = data.get("intents").and_then(Value::as_u64);
        let Some(intents) = intents.filter(|all| *all != 0 && all & !INTENTS == 0) else {
            return self.refuse_frame(connection, 4013, "invalid intents");
        };
        if intents & self.rules.disallowed_intents != 0 {
            return self.close_with(connection, 4014);
        }
        let shard = data.get("shard").cloned().unwrap_or_else(|| json!([0, 1]));
        if shard != json!([0, 1]) {
            return self.refuse_frame(connection, 4010, "an invalid shard");
        }
        if self.remaining_sessions() == 0 {
            return self.close_with(connection, 4008);
        }
        self.identified.push(self.now());
        let id = self.next_id("7e570000-");
        let mut session = GatewaySession {
            id: id.clone(),
            intents,
            events: VecDeque::new(),
            last: 0,
            forgotten: 0,
            connection: Some(connection),
            left: 0,
        };
        let ready = json!({
            "op": 0, "s": session.next(), "t": "READY",
            "d": {
                "version": 1, "session_id": id, "shard": shard,
                "user": {"id": BOT_ID, "username": BOT_NAME, "bot": true, "status": 1},
            },
        });
        self.sessions.push(session);
        self.attach(connection, id);
        self.send_frame(connection, &ready);
    }

    pub(crate) fn attach(&mut self, connection: usize, session: String) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.session = Some(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Probe;

    #[test]
    fn bad_frames_close_the_connection() {
        let token = |probe: &Probe| format!("QQBot {}", probe.token);
        let mut probe = Probe::new();
        let identify = |token: String, intents: u64, shard: [u64; 2]| {
            json!({"op": 2, "d": {"token": token, "intents": intents, "shard": shard}}).to_string()
        };
        let good = token(&probe);
        let table = [
            ("no json".to_owned(), 4002, 1),
            ("[]".to_owned(), 4002, 1),
            (json!({"op": 99}).to_string(), 4001, 1),
            (json!({"op": 1, "d": "x"}).to_string(), 4002, 1),
            (json!({"op": 6, "d": {"token": good}}).to_string(), 4002, 1),
            (identify("QQBot wrong".to_owned(), 1 << 25, [0, 1]), 4004, 0),
            (identify(good.clone(), 0, [0, 1]), 4013, 1),
            (identify(good.clone(), 1 << 60, [0, 1]), 4013, 1),
            (identify(good.clone(), 1 << 9, [0, 1]), 4014, 0),
            (identify(good.clone(), 1 << 25, [1, 1]), 4010, 1),
        ];
        for (number, (frame, code, complaints)) in table.into_iter().enumerate() {
            probe.open(number);
            probe.state.complaints.clear();
            probe.state.handle_frame(number, &frame);
            assert_eq!(probe.end(number).1, code, "{frame}");
            assert_eq!(probe.state.complaints.len(), complaints, "{frame}");
        }
        probe.connect(50);
        probe.frame(50, &json!({"op": 1, "d": 99}));
        assert_eq!(probe.end(50).1, 4007);
        probe.connect(51);
        let again = identify(good, 1 << 25, [0, 1]);
        probe.state.handle_frame(51, &again);
        assert_eq!(probe.end(51).1, 4005);
        probe.state.rules.refuse_sessions = Some(4915);
        probe.open(52);
        probe.identify(52);
        assert_eq!(probe.end(52).1, 4915);
    }

    #[test]
    fn zombies_get_no_acknowledgements() {
        let mut probe = Probe::new();
        probe.connect(0);
        probe.state.rules.withholds_acks = true;
        probe.frame(0, &json!({"op": 1, "d": 1}));
        assert_eq!(probe.events(0), Vec::<Value>::new());
        assert_eq!(probe.state.beats, 1);
    }
}
