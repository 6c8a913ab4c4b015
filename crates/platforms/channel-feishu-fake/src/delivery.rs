//! Deliveries of events in frames, until each event is acknowledged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{AppEvent, Delivery, Out};
use crate::frame::{CONTROL, DATA, Frame, SERVICE, decode};
use crate::model::Pushed;
use crate::state::FeishuState;

/// Maximum number of retries of an event that was refused or not answered in time.
const RETRIES: u32 = 4;

impl FeishuState {
    /// Delivers waiting events, each to one of the connections.
    pub(crate) fn dispatch(&mut self) {
        let open: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, open)| !open.is_leaving)
            .map(|(number, _)| *number)
            .collect();
        if open.is_empty() {
            return;
        }
        for number in 0..self.events.len() {
            let Some(event) = self.events.get_mut(number).filter(|event| event.is_waiting) else {
                continue;
            };
            event.is_waiting = false;
            event.deliveries += 1;
            let Some(connection) = open.get(number % open.len()).copied() else {
                continue;
            };
            let id = format!("push-{}", self.in_flight.len());
            let mut frames = frames(event, &id, self.parts);
            if self.lost_parts > 0 {
                self.lost_parts -= 1;
                frames.pop();
            }
            if self.reverses_parts {
                frames.reverse();
            }
            let delivery = Delivery {
                event: number,
                connection,
                at: Instant::now(),
                is_over: false,
            };
            self.in_flight.insert(id, delivery);
            if let Some(open) = self.connections.get_mut(&connection) {
                open.outbox.extend(frames.into_iter().map(Out::Binary));
            }
        }
    }

    pub(crate) fn repeat(&mut self, pushed: &Pushed) {
        for number in &pushed.events {
            if let Some(event) = self.events.get_mut(*number) {
                event.is_waiting = true;
                event.is_acknowledged = false;
                event.retries = 0;
            }
        }
        self.dispatch();
    }

    /// Handles a frame from the client.
    pub(crate) fn handle_frame(&mut self, connection: usize, bytes: &[u8]) {
        let frame = match decode(bytes) {
            Ok(frame) => frame,
            Err(reason) => return self.complain(&format!("no frame: {reason}")),
        };
        match (frame.method, frame.header("type")) {
            (CONTROL, Some("ping")) => self.handle_ping(connection, &frame),
            (CONTROL, Some("pong")) => {}
            (DATA, Some("event" | "card")) => self.handle_answer(connection, &frame),
            (method, kind) => self.complain(&format!("a frame of method {method}, type {kind:?}")),
        }
    }

    fn handle_ping(&mut self, connection: usize, frame: &Frame) {
        if frame.service != SERVICE {
            self.complain(&format!("a ping for the service {}", frame.service));
        }
        self.pings += 1;
        self.pong(connection);
    }

    /// Sends a pong with the configuration of clients.
    pub(crate) fn pong(&mut self, connection: usize) {
        let config = self.client_config.json().to_string();
        let pong = Frame::new(CONTROL, &[("type", "pong")], config.as_bytes());
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(Out::Binary(pong.encode_to_vec()));
        }
    }

    fn handle_answer(&mut self, connection: usize, frame: &Frame) {
        let id = frame.header("message_id").unwrap_or_default();
        let delivery = self.in_flight.get_mut(id);
        let Some(delivery) = delivery.filter(|known| known.connection == connection) else {
            return self.complain(&format!("an answer to the unknown message {id:?}"));
        };
        // Feishu takes no late answers: the event was delivered again.
        if delivery.is_over {
            return;
        }
        let number = delivery.event;
        let answer: Value = serde_json::from_slice(frame.content()).unwrap_or_default();
        let code = answer.get("code").and_then(Value::as_i64);
        if code == Some(200) {
            delivery.is_over = true;
        }
        if let Some(event) = self.events.get_mut(number) {
            match code {
                Some(200) => {
                    event.is_acknowledged = true;
                    event.is_waiting = false;
                    event.answer = content(&answer);
                }
                // The event is delivered again when the time for an answer is over.
                _ => event.refusals += 1,
            }
        }
        if code.is_none() {
            self.complain("an answer without a code");
        }
        if frame
            .header("biz_rt")
            .is_none_or(|time| time.parse::<u64>().is_err())
            && code == Some(200)
        {
            self.complain("an answer without the header biz_rt");
        }
        if code == Some(200) {
            self.apply_callback(number);
        }
    }

    fn complain(&mut self, what: &str) {
        self.complaints.push(format!("long connection: {what}"));
    }

    /// Returns the time at which the oldest delivery of a connection times out.
    pub(crate) fn deadline(&self, connection: usize) -> Option<Instant> {
        let waiting = self
            .in_flight
            .values()
            .filter(|delivery| delivery.connection == connection && !delivery.is_over);
        waiting
            .map(|delivery| delivery.at + self.acknowledge_timeout)
            .min()
    }

    /// Delivers events again that were not acknowledged in time.
    pub(crate) fn expire_deliveries(&mut self) {
        let (now, limit) = (Instant::now(), self.acknowledge_timeout);
        self.end_deliveries(true, |delivery| delivery.at + limit <= now);
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        self.connections.remove(&connection);
        self.end_deliveries(false, |delivery| delivery.connection == connection);
    }

    /// Ends deliveries, and delivers their events again. Only answers that were due count as
    /// retries.
    fn end_deliveries(&mut self, counts: bool, is_over: impl Fn(&Delivery) -> bool) {
        let open = self.in_flight.values_mut().filter(|known| !known.is_over);
        for delivery in open {
            if !is_over(delivery) {
                continue;
            }
            delivery.is_over = true;
            let Some(event) = self.events.get_mut(delivery.event) else {
                continue;
            };
            event.retries += u32::from(counts);
            if counts && event.is_callback && event.kind == "event" && event.refusals == 0 {
                let complaint = "long connection: a callback without an answer";
                self.complaints.push(complaint.to_owned());
            }
            if !event.is_acknowledged && !event.is_callback && event.retries <= RETRIES {
                event.is_waiting = true;
            }
        }
        self.dispatch();
    }
}

/// Returns the frames of a delivery, in as many parts as the payload allows.
fn frames(event: &AppEvent, id: &str, parts: usize) -> Vec<Vec<u8>> {
    let size = event.payload.len().div_ceil(parts.max(1)).max(1);
    let mut chunks: Vec<&[u8]> = event.payload.chunks(size).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let sum = chunks.len().to_string();
    let frame = |(index, chunk): (usize, &&[u8])| {
        let sequence = index.to_string();
        let trace = format!("trace-{id}");
        let headers = [
            ("type", event.kind),
            ("message_id", id),
            ("trace_id", &trace),
            ("sum", &sum),
            ("seq", &sequence),
        ];
        Frame::new(DATA, &headers, chunk).encode_to_vec()
    };
    chunks.iter().enumerate().map(frame).collect()
}

/// Returns the content of an acknowledgement, which is JSON in Base64.
fn content(answer: &Value) -> Value {
    let data = answer
        .get("data")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let bytes = STANDARD.decode(data).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::incoming::{Incoming, Person};
    use crate::probe::Probe;

    fn hello() -> Incoming {
        Incoming::direct(&Person::new("ou_ann", "Ann"), "hello")
    }

    /// A probe with open connections, whose events time out at once.
    fn probe(connections: usize) -> Probe {
        let mut probe = Probe::new();
        probe.state.acknowledge_timeout = Duration::ZERO;
        (0..connections).for_each(|number| probe.connect(number));
        probe
    }

    fn event(probe: &Probe, pushed: &Pushed) -> (usize, bool, usize) {
        let event = &probe.state.events[pushed.events[0]];
        (event.deliveries, event.is_acknowledged, event.refusals)
    }

    #[test]
    fn event_goes_to_one_connection() {
        let mut probe = probe(2);
        let pushed: Vec<Pushed> = (0..4).map(|_| probe.state.push(hello(), true)).collect();
        assert_eq!((probe.frames(0).len(), probe.frames(1).len()), (2, 2));
        let all: Vec<_> = pushed.iter().map(|pushed| event(&probe, pushed)).collect();
        assert_eq!(all, [(1, false, 0); 4]);
    }

    #[test]
    fn event_without_an_answer_is_delivered_five_times() {
        let mut probe = probe(1);
        let pushed = probe.state.push(hello(), true);
        for _ in 0..10 {
            probe.state.expire_deliveries();
        }
        let frames = probe.frames(0);
        let ids: BTreeSet<_> = frames
            .iter()
            .map(|frame| frame.header("message_id"))
            .collect();
        assert_eq!((frames.len(), ids.len()), (5, 5));
        assert!(
            frames
                .iter()
                .all(|frame| frame.content() == frames[0].content())
        );
        assert_eq!(event(&probe, &pushed), (5, false, 0));
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn ended_connection_costs_no_retry() {
        let mut probe = probe(0);
        let pushed = probe.state.push(hello(), true);
        assert_eq!(event(&probe, &pushed), (0, false, 0));
        for number in 0..20 {
            probe.connect(number);
            assert_eq!(probe.frames(number).len(), 1);
            probe.state.remove_connection(number);
        }
        probe.connect(20);
        let frame = probe.frames(20).remove(0);
        probe.answer(20, frame, 200);
        assert_eq!(event(&probe, &pushed), (21, true, 0));
    }

    #[test]
    fn refused_event_is_delivered_again_in_time() {
        let mut probe = probe(1);
        let pushed = probe.state.push(hello(), true);
        let first = probe.frames(0).remove(0);
        probe.answer(0, first.clone(), 500);
        assert_eq!(
            (event(&probe, &pushed), probe.frames(0).len()),
            ((1, false, 1), 0)
        );
        probe.state.expire_deliveries();
        let second = probe.frames(0).remove(0);
        // A late answer does not count.
        probe.answer(0, first, 200);
        assert_eq!(event(&probe, &pushed), (2, false, 1));
        probe.answer(0, second, 200);
        probe.state.expire_deliveries();
        assert_eq!(
            (event(&probe, &pushed), probe.frames(0).len()),
            ((2, true, 1), 0)
        );
        probe.state.repeat(&pushed);
        assert_eq!(
            (event(&probe, &pushed), probe.frames(0).len()),
            ((3, false, 1), 1)
        );
    }

    #[test]
    fn parts_are_numbered() {
        let mut probe = probe(1);
        probe.state.parts = 3;
        probe.state.reverses_parts = true;
        probe.state.push(hello(), true);
        let mut parts = probe.frames(0);
        let numbers = |parts: &[Frame]| -> Vec<String> {
            let seq = parts.iter().filter_map(|part| part.header("seq"));
            seq.map(str::to_owned).collect()
        };
        assert_eq!(numbers(&parts), ["2", "1", "0"]);
        assert!(parts.iter().all(|part| part.header("sum") == Some("3")));
        parts.reverse();
        let payload: Vec<u8> = parts
            .iter()
            .flat_map(|part| part.content().to_vec())
            .collect();
        let payload: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(payload["header"]["event_type"], "im.message.receive_v1");
        probe.state.lost_parts = 1;
        probe.state.push(hello(), true);
        assert_eq!(numbers(&probe.frames(0)), ["1", "0"]);
    }

    #[test]
    fn odd_frames_are_complaints() {
        let mut probe = probe(1);
        let connect = |probe: &mut Probe, frame: &Frame| {
            probe.state.handle_frame(0, &frame.encode_to_vec());
        };
        probe.state.handle_frame(0, b"no frame");
        let mut ping = Frame::new(CONTROL, &[("type", "ping")], b"");
        connect(&mut probe, &ping);
        ping.service = 1;
        connect(&mut probe, &ping);
        connect(
            &mut probe,
            &Frame::new(DATA, &[("type", "event"), ("message_id", "?")], b""),
        );
        connect(&mut probe, &Frame::new(7, &[], b""));
        probe.frames(0);
        probe.state.push(hello(), true);
        let mut answer = probe.frames(0).remove(0);
        answer.payload = Some(br#"{"code": 200}"#.to_vec());
        connect(&mut probe, &answer);
        let problems: Vec<&str> = probe
            .state
            .complaints
            .iter()
            .filter_map(|complaint| complaint.strip_prefix("long connection: "))
            .map(|problem| problem.split(':').next().unwrap_or_default())
            .collect();
        let expected = [
            "no frame",
            "a ping for the service 1",
            "an answer to the unknown message \"?\"",
            "a frame of method 7, type None",
            "an answer without the header biz_rt",
        ];
        assert_eq!(
            (problems.as_slice(), probe.state.pings),
            (expected.as_slice(), 2)
        );
    }

    #[test]
    fn stall_leaves_the_time_for_answers() {
        let mut probe = probe(1);
        probe.state.acknowledge_timeout = Duration::from_secs(3);
        probe.state.push(hello(), true);
        let past = Instant::now() - Duration::from_secs(9);
        probe
            .state
            .in_flight
            .values_mut()
            .for_each(|open| open.at = past);
        probe.state.recover();
        probe.state.expire_deliveries();
        assert_eq!(probe.frames(0).len(), 1);
    }

    #[test]
    fn callback_is_delivered_once() {
        let mut probe = probe(1);
        probe.state.queue_event("card.action.trigger", &json!({}));
        probe.state.expire_deliveries();
        assert_eq!(probe.frames(0).len(), 1);
        let complaint = "long connection: a callback without an answer";
        assert_eq!(probe.state.complaints, [complaint]);
    }
}
