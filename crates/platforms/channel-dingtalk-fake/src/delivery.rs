//! Deliveries of pushes in frames, until each is acknowledged.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::{CLIENT_ID, CORP_ID};
use crate::connection::{Delivery, Out, Push, SystemFrame};
use crate::model::Pushed;
use crate::state::DingTalkState;

/// Maximum number of retries of a push that was refused or not answered in time.
const RETRIES: u32 = 4;

impl DingTalkState {
    /// Delivers waiting pushes, each to one of the connections that take it.
    pub(crate) fn dispatch(&mut self) {
        for number in 0..self.pushes.len() {
            let Some(push) = self.pushes.get(number).filter(|push| push.is_waiting) else {
                continue;
            };
            let takers = self.connections.iter().filter(|(_, open)| open.takes(push));
            let takers: Vec<usize> = takers.map(|(connection, _)| *connection).collect();
            let Some(connection) = takers.get(number % takers.len().max(1)).copied() else {
                continue;
            };
            let id = format!("push_{}", self.in_flight.len());
            let frame = self.frame_of(push, &id, connection);
            let delivery = Delivery {
                push: number,
                connection,
                at: Instant::now(),
                is_over: false,
            };
            self.in_flight.insert(id, delivery);
            if let Some(push) = self.pushes.get_mut(number) {
                push.is_waiting = false;
                push.deliveries += 1;
            }
            self.send_out(connection, Out::Text(frame.to_string()));
        }
    }

    fn send_out(&mut self, connection: usize, out: Out) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(out);
        }
    }

    fn frame_of(&self, push: &Push, id: &str, connection: usize) -> Value {
        let mut headers = self.headers(&push.topic, id, connection);
        if push.kind == "EVENT" {
            let event = [
                ("eventType", push.event_type.as_str()),
                ("eventId", id),
                ("eventCorpId", CORP_ID),
                ("eventUnifiedAppId", "7e57"),
            ];
            for (name, value) in event {
                nanobot_testkit::json::set(&mut headers, name, value);
            }
            nanobot_testkit::json::set(&mut headers, "eventBornTime", self.now().to_string());
        }
        json!({"specVersion": "1.0", "type": push.kind, "headers": headers, "data": push.data})
    }

    fn headers(&self, topic: &str, id: &str, connection: usize) -> Value {
        json!({
            "appId": CLIENT_ID, "connectionId": format!("connection-{connection}"),
            "contentType": "application/json", "messageId": id, "time": self.now().to_string(),
            "topic": topic,
        })
    }

    /// Sends a frame about the connection.
    pub(crate) fn send_system_to(&mut self, connection: usize, topic: &str, data: &Value) {
        let id = self.next_id("system_");
        let frame = json!({
            "specVersion": "1.0", "type": "SYSTEM", "headers": self.headers(topic, &id, connection),
            "data": data.to_string(),
        });
        let sent = SystemFrame {
            connection,
            topic: topic.to_owned(),
            data: data.clone(),
        };
        self.system_frames.insert(id, sent);
        self.send_out(connection, Out::Text(frame.to_string()));
    }

    pub(crate) fn repeat(&mut self, pushed: &Pushed) {
        for number in &pushed.pushes {
            if let Some(push) = self.pushes.get_mut(*number) {
                push.is_waiting = true;
                push.is_acknowledged = false;
                push.retries = 0;
            }
        }
        self.dispatch();
    }

    /// Returns the time at which the oldest delivery of a connection times out.
    pub(crate) fn deadline(&self, connection: usize) -> Option<Instant> {
        let deliveries = self.in_flight.values();
        let waiting = deliveries.filter(|known| known.connection == connection && !known.is_over);
        waiting
            .map(|delivery| delivery.at + self.acknowledge_timeout)
            .min()
    }

    /// Delivers pushes again that were not acknowledged in time.
    pub(crate) fn expire_deliveries(&mut self) {
        let (now, limit) = (Instant::now(), self.acknowledge_timeout);
        self.end_deliveries(true, |delivery| delivery.at + limit <= now);
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        self.connections.remove(&connection);
        self.system_frames
            .retain(|_, frame| frame.connection != connection);
        self.end_deliveries(false, |delivery| delivery.connection == connection);
    }

    /// Ends deliveries, and delivers their pushes again. Only answers that were due count as
    /// retries.
    fn end_deliveries(&mut self, counts: bool, is_over: impl Fn(&Delivery) -> bool) {
        let open = self.in_flight.values_mut().filter(|known| !known.is_over);
        for delivery in open {
            if !is_over(delivery) {
                continue;
            }
            delivery.is_over = true;
            let Some(push) = self.pushes.get_mut(delivery.push) else {
                continue;
            };
            push.retries += u32::from(counts);
            if !push.is_acknowledged && push.retries <= RETRIES {
                push.is_waiting = true;
            }
        }
        self.dispatch();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::incoming::{Incoming, Person};
    use crate::probe::Probe;

    fn hello() -> Incoming {
        Incoming::direct(&Person::new("ann", "Ann"), "hello")
    }

    /// A probe with open connections, whose pushes time out at once.
    fn probe(connections: usize) -> Probe {
        let mut probe = Probe::new();
        probe.state.acknowledge_timeout = Duration::ZERO;
        (0..connections).for_each(|number| probe.connect(number));
        probe
    }

    fn push(probe: &Probe, pushed: &Pushed) -> (usize, bool, usize) {
        let push = &probe.state.pushes[pushed.pushes[0]];
        (push.deliveries, push.is_acknowledged, push.refusals)
    }

    #[test]
    fn push_goes_to_one_connection_that_subscribed() {
        let mut probe = probe(2);
        probe.connect(2);
        if let Some(open) = probe.state.connections.get_mut(&2) {
            open.subscriptions.clear();
        }
        for _ in 0..4 {
            probe.state.push(hello(), true);
        }
        let counts: Vec<usize> = (0..3).map(|number| probe.frames(number).len()).collect();
        assert_eq!(counts, [2, 2, 0]);
    }

    #[test]
    fn push_without_an_answer_is_delivered_five_times() {
        let mut probe = probe(1);
        let pushed = probe.state.push(hello(), true);
        for _ in 0..10 {
            probe.state.expire_deliveries();
        }
        let frames = probe.frames(0);
        let ids: BTreeSet<_> = frames.iter().map(Probe::id).collect();
        assert_eq!((frames.len(), ids.len()), (5, 5));
        assert!(
            frames
                .iter()
                .all(|frame| frame["data"] == frames[0]["data"])
        );
        assert_eq!(push(&probe, &pushed), (5, false, 0));
    }

    #[test]
    fn ended_connection_costs_no_retry() {
        let mut probe = probe(0);
        let pushed = probe.state.push(hello(), true);
        for number in 0..20 {
            probe.connect(number);
            assert_eq!(probe.frames(number).len(), 1);
            probe.state.remove_connection(number);
        }
        probe.connect(20);
        let frame = probe.frames(20).remove(0);
        probe.acknowledge(20, &frame);
        assert_eq!(push(&probe, &pushed), (21, true, 0));
        probe.state.repeat(&pushed);
        assert_eq!(push(&probe, &pushed), (22, false, 0));
    }

    #[test]
    fn stall_leaves_the_time_for_answers() {
        let mut probe = probe(1);
        probe.state.acknowledge_timeout = Duration::from_secs(3);
        probe.state.push(hello(), true);
        let past = Instant::now() - Duration::from_secs(9);
        let open = probe.state.in_flight.values_mut();
        open.for_each(|open| open.at = past);
        probe.state.recover();
        probe.state.expire_deliveries();
        assert_eq!(probe.frames(0).len(), 1);
    }
}
