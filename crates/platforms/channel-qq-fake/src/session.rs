//! Sessions: numbered events, their confirmation, and their replay after a resumption.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::connection::{Out, SessionEvent};
use crate::state::QqState;

/// Time for which a session can be resumed, in milliseconds. QQ does not document its own.
const SESSION_VALIDITY: i64 = 300_000;

impl QqState {
    /// Confirms the events up to a number. Returns `false` if there are fewer.
    pub(crate) fn confirm(&mut self, session: &str, last: u64) -> bool {
        let known = self.sessions.iter().find(|known| known.id == session);
        let Some(known) = known.filter(|known| last <= known.last) else {
            return false;
        };
        let (seen, unseen): (Vec<_>, Vec<_>) =
            known.events.iter().partition(|event| event.number <= last);
        // A push that was repeated counts from its last number on.
        let unseen: BTreeSet<usize> = unseen.iter().map(|event| event.push).collect();
        for event in seen.iter().filter(|event| !unseen.contains(&event.push)) {
            if let Some(push) = self.pushes.get_mut(event.push) {
                push.is_acknowledged = true;
            }
        }
        true
    }

    /// Connects a client with its session, and sends what it missed.
    pub(crate) fn resume(&mut self, connection: usize, data: &Value) {
        if self.is_refused(connection, data) {
            return;
        }
        let id = data.get("session_id").and_then(Value::as_str);
        let (Some(id), Some(last)) = (id, data.get("seq").and_then(Value::as_u64)) else {
            return self.refuse_frame(connection, 4002, "resumed without a session or a number");
        };
        self.forget_sessions();
        let Some(session) = self.sessions.iter().find(|known| known.id == id) else {
            return self.invalidate_session(connection, 4006);
        };
        if last < session.forgotten {
            return self.invalidate_session(connection, 4007);
        }
        if last > session.last {
            self.complain("resumed after an event that never was");
            return self.invalidate_session(connection, 4007);
        }
        if let Some(rival) = session.connection {
            self.close_with(rival, 4009);
            self.detach(rival);
        }
        self.confirm(id, last);
        self.replay(connection, id, last);
    }

    fn invalidate_session(&mut self, connection: usize, code: u16) {
        self.send_frame(connection, &json!({"op": 9, "d": false}));
        self.close_with(connection, code);
    }

    /// Sends the events after a number, and `RESUMED`.
    fn replay(&mut self, connection: usize, id: &str, last: u64) {
        let Some(session) = self.sessions.iter_mut().find(|known| known.id == id) else {
            return;
        };
        session.connection = Some(connection);
        let missed = session.events.iter().filter(|event| event.number > last);
        let missed: Vec<(usize, String)> = missed
            .map(|event| (event.push, event.frame.clone()))
            .collect();
        let resumed = json!({"op": 0, "s": session.next(), "t": "RESUMED", "d": ""});
        self.attach(connection, id.to_owned());
        for (push, frame) in missed {
            self.count_delivery(push);
            self.send_out(connection, Out::Text(frame));
        }
        self.send_frame(connection, &resumed);
        self.resumed += 1;
    }

    fn count_delivery(&mut self, push: usize) {
        if let Some(push) = self.pushes.get_mut(push) {
            push.deliveries += 1;
        }
    }

    /// Adds a push to the sessions that take it, and sends it to those that are connected.
    pub(crate) fn deliver(&mut self, number: usize) {
        self.forget_sessions();
        let Some(push) = self.pushes.get(number) else {
            return;
        };
        let (name, id, intents, data) = (&push.name, &push.id, push.intents, &push.data);
        let mut receivers = Vec::new();
        for session in &mut self.sessions {
            if intents != 0 && session.intents & intents == 0 {
                continue;
            }
            let sequence = session.next();
            let frame = json!({"op": 0, "s": sequence, "t": name, "id": id, "d": data});
            let frame = frame.to_string();
            receivers.extend(session.connection.map(|open| (open, frame.clone())));
            session.add(SessionEvent {
                number: sequence,
                push: number,
                frame,
            });
        }
        for (connection, frame) in receivers {
            let open = self.connections.get(&connection);
            if open.is_some_and(|open| !open.is_leaving) {
                self.count_delivery(number);
                self.send_out(connection, Out::Text(frame));
            }
        }
    }

    /// Forgets the sessions that can no longer be resumed.
    fn forget_sessions(&mut self) {
        let oldest = self.now() - SESSION_VALIDITY;
        self.sessions
            .retain(|known| known.connection.is_some() || known.left > oldest);
    }

    /// Leaves the session of a connection for a resumption.
    fn detach(&mut self, connection: usize) {
        let now = self.now();
        let mut sessions = self.sessions.iter_mut();
        if let Some(session) = sessions.find(|known| known.connection == Some(connection)) {
            session.connection = None;
            session.left = now;
        }
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        self.connections.remove(&connection);
        self.detach(connection);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ann};

    fn push(probe: &mut Probe, text: &str) -> usize {
        probe
            .state
            .push(Incoming::direct(&ann(), text), true)
            .pushes[0]
    }

    /// Returns the numbers and texts of events.
    fn texts(events: &[Value]) -> Vec<(u64, &str)> {
        let number = |event: &Value| event["s"].as_u64().unwrap();
        let shown = events.iter();
        shown
            .map(|event| {
                (
                    number(event),
                    event["d"]["content"].as_str().unwrap_or_default(),
                )
            })
            .collect()
    }

    #[test]
    fn missed_events_are_replayed_with_their_numbers() {
        let mut probe = Probe::new();
        let session = probe.connect(0);
        let first = push(&mut probe, "1");
        assert_eq!(texts(&probe.events(0)), [(2, "1")]);
        probe.state.remove_connection(0);
        push(&mut probe, "2");
        probe.open(1);
        probe.resume(1, &session, 1);
        let events = probe.events(1);
        assert_eq!(texts(&events), [(2, "1"), (3, "2"), (4, "")]);
        assert_eq!(events[2]["t"], "RESUMED");
        assert_eq!(probe.state.pushes[first].deliveries, 2);
        assert!(!probe.state.pushes[first].is_acknowledged);
        probe.frame(1, &json!({"op": 1, "d": 2}));
        assert_eq!(probe.events(1), [json!({"op": 11})]);
        assert!(probe.state.pushes[first].is_acknowledged);
        push(&mut probe, "3");
        assert_eq!(texts(&probe.events(1)), [(5, "3")]);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn sessions_end_after_a_while() {
        let mut probe = Probe::new();
        let session = probe.connect(0);
        probe.state.remove_connection(0);
        probe.state.advanced = Duration::from_secs(301);
        for (connection, id, seq, code) in [(1, session.as_str(), 1, 4006), (2, "unknown", 1, 4006)]
        {
            probe.open(connection);
            probe.resume(connection, id, seq);
            assert_eq!(
                probe.end(connection),
                (Some(json!({"op": 9, "d": false})), code)
            );
        }
        let session = probe.connect(3);
        probe.state.remove_connection(3);
        probe.open(4);
        probe.resume(4, &session, 9);
        assert_eq!(probe.end(4).1, 4007);
        assert_eq!(probe.state.complaints.len(), 1);
    }

    #[test]
    fn repeated_event_is_acknowledged_by_its_new_number() {
        let mut probe = Probe::new();
        probe.connect(0);
        let number = push(&mut probe, "x");
        probe.state.pushes[number].is_acknowledged = false;
        probe.state.deliver(number);
        for (last, is_acknowledged) in [(2, false), (3, true)] {
            probe.frame(0, &json!({"op": 1, "d": last}));
            assert_eq!(probe.state.pushes[number].is_acknowledged, is_acknowledged);
        }
    }

    #[test]
    fn history_of_a_session_is_bounded() {
        let mut probe = Probe::new();
        let session = probe.connect(0);
        for _ in 0..=crate::connection::HISTORY {
            push(&mut probe, "x");
        }
        probe.state.remove_connection(0);
        for (connection, seq, is_resumed) in [(1, 1, false), (2, 2, true)] {
            probe.open(connection);
            probe.resume(connection, &session, seq);
            let open = &probe.state.connections[&connection];
            assert_eq!(open.session.is_some(), is_resumed);
        }
    }

    #[test]
    fn events_go_to_every_session_with_the_intent() {
        let mut probe = Probe::new();
        for number in 0..2 {
            probe.connect(number);
        }
        probe.state.sessions[1].intents = 1 << 12;
        let number = push(&mut probe, "x");
        assert_eq!((probe.events(0).len(), probe.events(1).len()), (1, 0));
        probe.state.deliver(number);
        assert_eq!(probe.state.pushes[number].deliveries, 2);
        let odd = probe.state.queue("EVENT_OF_TOMORROW", 0, json!({}));
        assert_eq!(probe.state.pushes[odd].deliveries, 2);
    }
}
