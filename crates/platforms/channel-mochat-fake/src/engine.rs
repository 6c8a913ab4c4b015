//! Engine.IO: the frame that opens a connection, pings, and the packets in frames of clients.

use serde_json::json;
use tokio::time::Instant;

use crate::connection::{Out, SocketConnection};
use crate::packet::{Packet, Serializer};
use crate::state::MochatState;

/// Longest frame of a client, in bytes.
const MAX_PAYLOAD: usize = 1_000_000;

impl MochatState {
    /// Adds a connection, and announces its settings to the client.
    pub(crate) fn open_connection(&mut self) -> usize {
        self.opened += 1;
        let number = self.opened;
        let open = json!({
            "sid": format!("engine{number:014}"), "upgrades": [], "maxPayload": MAX_PAYLOAD,
            "pingInterval": milliseconds(self.ping_interval),
            "pingTimeout": milliseconds(self.ping_timeout),
        });
        self.connections.insert(number, SocketConnection::new());
        self.put(number, Out::Text(format!("0{open}")));
        number
    }

    /// Adds a task to a connection.
    pub(crate) fn put(&mut self, connection: usize, out: Out) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.outbox.push_back(out);
        }
    }

    pub(crate) fn send(&mut self, connection: usize, packet: &Packet) {
        self.put(connection, packet.encode(self.serializer));
    }

    /// Pings the client of a connection.
    pub(crate) fn send_ping_to(&mut self, connection: usize) {
        if let Some(open) = self.connections.get_mut(&connection) {
            if open.unanswered == 0 {
                open.pinged = Instant::now();
            }
            open.unanswered += 1;
            open.outbox.push_back(Out::Text("2".to_owned()));
        }
    }

    /// Returns the time at which a connection has something to do.
    pub(crate) fn deadline(&self, connection: usize) -> Option<Instant> {
        let open = self.connections.get(&connection)?;
        let ping = if open.unanswered > 0 {
            open.pinged + self.ping_timeout
        } else {
            open.pinged + self.ping_interval
        };
        if open.is_leaving {
            None
        } else if open.is_connected {
            Some(ping)
        } else {
            Some(ping.min(open.opened + self.login_timeout))
        }
    }

    /// Pings a client, or closes the connection of one that did not answer or log in in time.
    pub(crate) fn tick(&mut self, connection: usize) {
        let now = Instant::now();
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        if !open.is_connected && open.opened + self.login_timeout <= now {
            self.end_connection(connection, "no login in time");
        } else if open.unanswered > 0 && open.pinged + self.ping_timeout <= now {
            self.end_connection(connection, "no answer to a ping in time");
        } else if open.unanswered == 0 && open.pinged + self.ping_interval <= now {
            self.send_ping_to(connection);
        }
    }

    /// Complains about a client, and closes its connection.
    pub(crate) fn end_connection(&mut self, connection: usize, why: &str) {
        self.complain(&format!("socket: {why}"));
        if let Some(open) = self.connections.get_mut(&connection) {
            open.is_leaving = true;
            open.outbox.push_back(Out::Text("1".to_owned()));
            open.outbox.push_back(Out::Close);
        }
    }

    /// Handles a text frame from the client.
    pub(crate) fn handle_text(&mut self, connection: usize, text: &str) {
        if self.is_refused_frame(connection, text.len()) {
            return;
        }
        match text.split_at_checked(1) {
            Some(("4", packet)) if self.serializer == Serializer::Json => {
                self.handle_read(connection, Packet::from_json(packet));
            }
            Some(("4", _)) => self.end_connection(connection, "a packet in JSON"),
            Some(("3", "")) => self.handle_pong(connection),
            Some(("1", "")) => {
                if let Some(open) = self.connections.get_mut(&connection) {
                    open.is_leaving = true;
                    open.outbox.push_back(Out::Close);
                }
            }
            _ => {
                let start: String = text.chars().take(40).collect();
                self.end_connection(connection, &format!("the frame {start:?}"));
            }
        }
    }

    /// Handles a binary frame from the client.
    pub(crate) fn handle_binary(&mut self, connection: usize, bytes: &[u8]) {
        if self.is_refused_frame(connection, bytes.len()) {
            return;
        }
        match self.serializer {
            Serializer::Msgpack => self.handle_read(connection, Packet::from_msgpack(bytes)),
            Serializer::Json => self.end_connection(connection, "a binary frame"),
        }
    }

    fn is_refused_frame(&mut self, connection: usize, length: usize) -> bool {
        let open = self.connections.get(&connection);
        if open.is_none_or(|open| open.is_leaving) {
            return true;
        }
        let is_long = length > MAX_PAYLOAD;
        if is_long {
            self.end_connection(connection, "a frame above maxPayload");
        }
        is_long
    }

    fn handle_read(&mut self, connection: usize, packet: Result<Packet, String>) {
        match packet {
            Ok(packet) => self.handle_packet(connection, &packet),
            Err(why) => self.end_connection(connection, &why),
        }
    }

    fn handle_pong(&mut self, connection: usize) {
        let open = self.connections.get_mut(&connection);
        match open.filter(|open| open.unanswered > 0) {
            Some(open) => {
                open.unanswered -= 1;
                open.pinged = Instant::now();
                self.answered_pings += 1;
            }
            None => self.complain("socket: an answer without a ping"),
        }
    }
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::Probe;

    fn end() -> [Out; 2] {
        [Out::Text("1".to_owned()), Out::Close]
    }

    #[test]
    fn connection_begins_with_its_settings() {
        let mut state = MochatState::new(Serializer::Json);
        state.ping_interval = Duration::from_millis(1500);
        let number = state.open_connection();
        let open = &state.connections[&number].outbox[0];
        let Out::Text(text) = open else {
            panic!("{open:?}");
        };
        let settings = text.strip_prefix('0').unwrap();
        let settings: serde_json::Value = serde_json::from_str(settings).unwrap();
        assert_eq!(settings["pingInterval"], 1500);
        assert_eq!(
            (&settings["pingTimeout"], &settings["upgrades"]),
            (&json!(20_000), &json!([]))
        );
    }

    #[test]
    fn unanswered_ping_ends_the_connection() {
        let mut probe = Probe::new();
        let number = probe.connect();
        probe.state.tick(number);
        assert_eq!(probe.out(number), []);
        probe.state.ping_interval = Duration::ZERO;
        probe.state.tick(number);
        assert_eq!(probe.out(number), [Out::Text("2".to_owned())]);
        probe.state.tick(number);
        assert_eq!(probe.out(number), []);
        probe.state.handle_text(number, "3");
        assert_eq!(probe.state.answered_pings, 1);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
        probe.state.ping_timeout = Duration::ZERO;
        probe.state.tick(number);
        probe.state.tick(number);
        assert_eq!(probe.out(number)[1..], end());
        assert_eq!(probe.state.deadline(number), None);
        let complaints = ["socket: no answer to a ping in time"];
        assert_eq!(probe.state.complaints, complaints);
    }

    #[test]
    fn connection_without_a_login_ends_in_time() {
        let mut probe = Probe::new();
        let (early, late) = (probe.connect(), probe.open());
        probe.state.login_timeout = Duration::ZERO;
        for number in [early, late] {
            probe.state.tick(number);
        }
        assert_eq!(probe.out(early), []);
        assert_eq!(probe.out(late), end());
        assert_eq!(probe.state.complaints, ["socket: no login in time"]);
    }

    #[test]
    fn odd_frames_end_the_connection() {
        let long = "4".repeat(MAX_PAYLOAD + 1);
        for text in [
            "", "2", "2probe", "3probe", "5", "6", "x", "é", "0{}", &long,
        ] {
            let mut probe = Probe::new();
            let number = probe.connect();
            probe.state.handle_text(number, text);
            assert_eq!(probe.out(number), end(), "{text:.10}");
            assert_eq!(probe.state.complaints.len(), 1, "{text:.10}");
            // Nothing more is read.
            probe.state.handle_text(number, text);
            probe.state.handle_binary(number, b"\xc1");
            assert_eq!(probe.state.complaints.len(), 1, "{text:.10}");
        }
        let mut probe = Probe::new();
        let number = probe.connect();
        probe.state.handle_text(number, "3");
        assert_eq!(probe.state.complaints, ["socket: an answer without a ping"]);
        probe.state.handle_text(number, "1");
        assert_eq!(probe.out(number), [Out::Close]);
    }

    #[test]
    fn packet_in_the_other_form_ends_the_connection() {
        let login = Packet::new(crate::packet::CONNECT, json!({"token": "x"}));
        let mut probe = Probe::new();
        let number = probe.open();
        probe.state.handle_text(number, r#"40{"token":"x"}"#);
        assert_eq!(probe.out(number), end());
        probe.state.serializer = Serializer::Json;
        let number = probe.open();
        let Out::Binary(bytes) = login.encode(Serializer::Msgpack) else {
            panic!("{login:?}");
        };
        probe.state.handle_binary(number, &bytes);
        assert_eq!(probe.out(number), end());
        let complaints = ["socket: a packet in JSON", "socket: a binary frame"];
        assert_eq!(probe.state.complaints, complaints);
    }
}
