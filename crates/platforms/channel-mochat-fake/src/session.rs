//! Socket.IO: logins, calls of clients and their acknowledgements.

use serde_json::{Value, json};

use crate::account::CLAW_TOKEN;
use crate::api::{ApiError, ApiResult};
use crate::connection::Out;
use crate::fault::Fault;
use crate::packet::{ACK, CONNECT, CONNECT_ERROR, DISCONNECT, EVENT, Packet};
use crate::params::Params;
use crate::route::{self, Route};
use crate::state::MochatState;

impl MochatState {
    pub(crate) fn handle_packet(&mut self, connection: usize, packet: &Packet) {
        let open = self.connections.get(&connection);
        let is_connected = open.is_some_and(|open| open.is_connected);
        match packet.kind {
            CONNECT if is_connected => self.end_connection(connection, "a second login"),
            CONNECT => self.handle_login(connection, packet),
            _ if !is_connected => self.end_connection(connection, "a packet before the login"),
            _ if packet.namespace != "/" => {
                self.end_connection(connection, "a packet of another namespace");
            }
            DISCONNECT => {
                if let Some(open) = self.connections.get_mut(&connection) {
                    open.is_leaving = true;
                }
            }
            EVENT => self.handle_event(connection, packet),
            kind => self.end_connection(connection, &format!("a packet of type {kind}")),
        }
    }

    fn handle_login(&mut self, connection: usize, packet: &Packet) {
        let fault = self.note("connect", packet.data.clone());
        match fault {
            Some(Fault::Drop) => return self.put(connection, Out::Drop),
            Some(Fault::Hang) => return,
            Some(Fault::Answer(_, data)) => return self.refuse_login(connection, packet, data),
            _ => {}
        }
        if let Some(error) = fault.as_ref().and_then(Fault::refusal) {
            return self.refuse_login(connection, packet, login_error(&error));
        }
        if packet.namespace != "/" {
            self.complain("socket: a login to another namespace");
            let data = json!({"message": "Invalid namespace"});
            return self.refuse_login(connection, packet, data);
        }
        let members = packet.data.as_object();
        let names = members.into_iter().flat_map(|data| data.keys());
        if names.clone().any(|name| name != "token") || packet.id.is_some() {
            self.complain("socket: a login with more than a token");
        }
        let token = packet.data.get("token").and_then(Value::as_str);
        if token != Some(CLAW_TOKEN) || self.is_revoked {
            let data = login_error(&ApiError::new(401));
            return self.refuse_login(connection, packet, data);
        }
        self.connected += 1;
        if let Some(open) = self.connections.get_mut(&connection) {
            open.is_connected = true;
        }
        let data = json!({"sid": format!("socket{connection:014}")});
        self.send(connection, &Packet::new(CONNECT, data));
    }

    fn refuse_login(&mut self, connection: usize, login: &Packet, data: Value) {
        self.refused += 1;
        let packet = Packet {
            namespace: login.namespace.clone(),
            ..Packet::new(CONNECT_ERROR, data)
        };
        self.send(connection, &packet);
    }

    fn handle_event(&mut self, connection: usize, packet: &Packet) {
        let [Value::String(name), Value::Object(body)] = packet_items(&packet.data) else {
            return self.end_connection(connection, "an event without a name and an object");
        };
        let Some(route) = route::find(name).filter(|_| !name.starts_with('/')) else {
            return self.complain(&format!("socket: the unknown event {name}"));
        };
        let params = Params(body.clone());
        let fault = self.note(route.name, Value::Object(params.0.clone()));
        let Some(id) = packet.id else {
            return self.complain(&format!("{}: no acknowledgement is wanted", route.name));
        };
        match fault {
            Some(Fault::Drop) => return self.put(connection, Out::Drop),
            Some(Fault::Hang) => return,
            Some(Fault::Answer(_, data)) => return self.acknowledge(connection, id, &data),
            _ => {}
        }
        let outcome = match fault.as_ref().and_then(Fault::refusal) {
            Some(error) => Err(error),
            None => self.checked_subscription(connection, route, &params),
        };
        match fault {
            Some(Fault::DropAfterEffect) => return self.put(connection, Out::Drop),
            Some(Fault::HangAfterEffect) => return,
            _ => {}
        }
        let is_done = outcome.is_ok();
        let answer = match outcome {
            Ok(data) => json!({"result": true, "data": data}),
            Err(error) => {
                self.complaints.extend(error.complaint(route.name));
                json!({"result": false, "message": error.message})
            }
        };
        self.acknowledge(connection, id, &answer);
        if is_done && !self.keeps_backlog {
            self.send_backlog(connection, &params);
        }
    }

    fn checked_subscription(
        &mut self,
        connection: usize,
        route: &Route,
        params: &Params,
    ) -> ApiResult {
        for name in params.check(route)? {
            self.complain(&format!("{}: unknown parameter {name}", route.name));
        }
        match route.name {
            "subscribe.sessions" => self.subscribe_sessions(connection, params),
            _ => self.subscribe_panels(connection, params),
        }
    }

    fn acknowledge(&mut self, connection: usize, id: u64, answer: &Value) {
        let packet = Packet {
            id: Some(id),
            ..Packet::new(ACK, json!([answer]))
        };
        let out = packet.encode(self.serializer);
        let is_held = self.holds_acks;
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if is_held {
            open.held.push(out);
        } else {
            open.outbox.push_back(out);
        }
    }

    /// Sends the acknowledgements that were held back.
    pub(crate) fn release_acks(&mut self) {
        self.holds_acks = false;
        for open in self.connections.values_mut() {
            open.outbox.extend(open.held.drain(..));
        }
    }
}

fn packet_items(data: &Value) -> &[Value] {
    data.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the data of a refused login, in the form of an error of Socket.IO.
fn login_error(error: &ApiError) -> Value {
    json!({"message": error.message, "data": {"code": error.code}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{SUBSCRIBE_PANELS, SUBSCRIBE_SESSIONS};
    use crate::packet::Serializer;
    use crate::probe::{PANEL, Probe};

    fn login(token: &str) -> Packet {
        Packet::new(CONNECT, json!({"token": token}))
    }

    #[test]
    fn login_needs_the_token() {
        let mut probe = Probe::new();
        let number = probe.open();
        probe.packet(number, &login("wrong"));
        let refused = probe.packets(number).remove(0);
        let data = json!({"message": "Unauthorized", "data": {"code": 401}});
        assert_eq!((refused.kind, refused.data), (CONNECT_ERROR, data));
        let elsewhere = Packet {
            namespace: "/admin".to_owned(),
            ..login(CLAW_TOKEN)
        };
        probe.packet(number, &elsewhere);
        let refused = probe.packets(number).remove(0);
        assert_eq!(
            (refused.kind, &*refused.namespace),
            (CONNECT_ERROR, "/admin")
        );
        probe.state.calls.fail_next("connect", Fault::Error(503));
        probe.packet(number, &login(CLAW_TOKEN));
        assert_eq!(probe.packets(number).remove(0).data["data"]["code"], 503);
        probe.packet(number, &login(CLAW_TOKEN));
        assert_eq!(probe.packets(number).remove(0).kind, CONNECT);
        assert_eq!((probe.state.connected, probe.state.refused), (1, 3));
        let complaints = ["socket: a login to another namespace"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn packets_that_no_client_sends_end_the_connection() {
        let elsewhere = Packet {
            namespace: "/admin".to_owned(),
            ..Packet::event("x", &json!({}))
        };
        let table = [
            (login(CLAW_TOKEN), "a second login"),
            (elsewhere, "a packet of another namespace"),
            (Packet::new(5, json!(["x"])), "a packet of type 5"),
            (
                Packet::new(EVENT, json!(["x"])),
                "an event without a name and an object",
            ),
            (
                Packet::new(EVENT, json!({})),
                "an event without a name and an object",
            ),
        ];
        for serializer in [Serializer::Msgpack, Serializer::Json] {
            let mut probe = Probe::new();
            probe.state.serializer = serializer;
            let early = probe.open();
            probe.packet(early, &Packet::event("x", &json!({})));
            for (packet, why) in &table {
                let number = probe.connect();
                probe.packet(number, packet);
                let end = [Out::Text("1".to_owned()), Out::Close];
                assert_eq!(probe.out(number), end, "{why}");
                let complaint = probe.state.complaints.last().unwrap();
                assert_eq!(*complaint, format!("socket: {why}"));
            }
            assert_eq!(probe.state.complaints.len(), table.len() + 1);
        }
    }

    #[test]
    fn odd_calls_are_complaints() {
        let mut probe = Probe::new();
        let number = probe.connect();
        probe.emit(number, "com.claw.im.tomorrow", &json!({}));
        probe.emit(number, "/api/claw/sessions/list", &json!({}));
        let body = json!({"panelIds": [PANEL], "limit": 1});
        probe.packet(number, &Packet::event(SUBSCRIBE_PANELS, &body));
        assert_eq!(probe.out(number), []);
        probe.emit(number, SUBSCRIBE_PANELS, &body);
        assert_eq!(probe.ack(number)["result"], json!(true));
        let complaints = [
            "socket: the unknown event com.claw.im.tomorrow",
            "socket: the unknown event /api/claw/sessions/list",
            "subscribe.panels: no acknowledgement is wanted",
            "subscribe.panels: unknown parameter limit",
        ];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn faults_of_subscriptions_apply_to_one_call() {
        let refusal = json!({"result": false, "message": "Too many requests"});
        let table = [
            (Fault::RateLimited, Some(refusal), false),
            (Fault::Answer(0, json!("odd")), Some(json!("odd")), false),
            (Fault::Hang, None, false),
            (Fault::HangAfterEffect, None, true),
        ];
        for (fault, expected, is_subscribed) in table {
            let mut probe = Probe::new();
            let number = probe.connect();
            probe
                .state
                .calls
                .fail_next("subscribe.panels", fault.clone());
            probe.emit(number, SUBSCRIBE_PANELS, &json!({"panelIds": [PANEL]}));
            let answers = probe.packets(number).into_iter();
            let answer = answers.map(|packet| packet.data[0].clone()).next();
            assert_eq!(answer, expected, "{fault:?}");
            let subscribers = probe.state.subscribers(PANEL).len();
            assert_eq!(subscribers == 1, is_subscribed, "{fault:?}");
        }
        let mut probe = Probe::new();
        let number = probe.connect();
        probe
            .state
            .calls
            .fail_next("subscribe.panels", Fault::DropAfterEffect);
        probe.emit(number, SUBSCRIBE_PANELS, &json!({"panelIds": [PANEL]}));
        assert_eq!(probe.out(number), [Out::Drop]);
    }

    #[test]
    fn held_acknowledgements_are_released_in_order() {
        let mut probe = Probe::new();
        let number = probe.connect();
        probe.state.holds_acks = true;
        let sessions = json!({"sessionIds": [], "cursors": {}, "limit": 1});
        probe.emit(number, SUBSCRIBE_SESSIONS, &sessions);
        probe.emit(number, SUBSCRIBE_PANELS, &json!({"panelIds": [PANEL]}));
        assert_eq!(probe.out(number), []);
        assert_eq!(probe.state.subscribers(PANEL), [number]);
        probe.state.release_acks();
        let ids = probe.packets(number).into_iter().map(|packet| packet.id);
        assert_eq!(ids.collect::<Vec<_>>(), [Some(1), Some(2)]);
    }
}
