//! Calls and connections without sockets, for the tests of this crate.

use bytes::Bytes;
use nanobot_testkit::http::{Request, ResponseStep};
use serde_json::{Value, json};

use crate::account::CLAW_TOKEN;
use crate::connection::Out;
use crate::handler::Served;
use crate::incoming::{Incoming, Person};
use crate::packet::{CONNECT, EVENT, Packet, Serializer};
use crate::state::MochatState;

/// A panel that tests may add.
pub(crate) const PANEL: &str = "panel1";

/// A person who writes to the bot.
pub(crate) fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// Returns a text in the person's session.
pub(crate) fn text(text: &str) -> Incoming {
    Incoming::direct(&ann(), text)
}

/// Returns the packets in the frames for a connection, and the frames of Engine.IO as texts.
pub(crate) fn read(out: Out) -> Result<Packet, String> {
    match out {
        Out::Binary(bytes) => Ok(Packet::from_msgpack(&bytes).unwrap()),
        Out::Text(text) => match text.strip_prefix('4') {
            Some(packet) => Ok(Packet::from_json(packet).unwrap()),
            None => Err(text),
        },
        other => Err(format!("{other:?}")),
    }
}

/// A state with a person and a panel.
pub(crate) struct Probe {
    pub(crate) state: MochatState,
    /// Number of the most recent call on a socket.
    last: u64,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut state = MochatState::new(Serializer::Msgpack);
        state.add_person(&ann());
        state.add_panel(PANEL, 0);
        Self { state, last: 0 }
    }

    /// Returns status and JSON of the answer to a request; `Null` if there is no JSON.
    pub(crate) fn request(&mut self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = Request {
            method: "POST".to_owned(),
            target: path.to_owned(),
            headers: vec![
                header("content-type", "application/json"),
                header("x-claw-token", token),
            ],
            body: Bytes::from(body.to_string()),
        };
        let Served::Done(response) = self.state.serve(&request) else {
            panic!("a long poll");
        };
        let body = match response.steps.as_slice() {
            [ResponseStep::Bytes(bytes)] => serde_json::from_slice(bytes).unwrap_or_default(),
            _ => Value::Null,
        };
        (response.status, body)
    }

    /// Returns the data of a call that succeeds.
    pub(crate) fn call(&mut self, path: &str, body: &Value) -> Value {
        let (status, mut answer) = self.request(path, CLAW_TOKEN, body);
        assert_eq!((status, &answer["code"]), (200, &json!(200)), "{answer}");
        answer["data"].take()
    }

    /// Returns the code of a refusal.
    pub(crate) fn code(&mut self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.request(path, CLAW_TOKEN, body);
        assert_eq!(answer["code"], json!(status), "{answer}");
        answer["code"].clone()
    }

    pub(crate) fn send_to_session(&mut self, text: &str) -> (u16, Value) {
        let body = json!({"sessionId": ann().direct(), "content": text});
        self.request("/api/claw/sessions/send", CLAW_TOKEN, &body)
    }

    /// Opens a connection without a login.
    pub(crate) fn open(&mut self) -> usize {
        let number = self.state.open_connection();
        self.out(number);
        number
    }

    /// Opens a connection that is logged in.
    pub(crate) fn connect(&mut self) -> usize {
        let number = self.open();
        self.packet(number, &Packet::new(CONNECT, json!({"token": CLAW_TOKEN})));
        assert_eq!(self.packets(number).remove(0).kind, CONNECT);
        number
    }

    /// Handles a packet of a client, in the form that the state reads.
    pub(crate) fn packet(&mut self, connection: usize, packet: &Packet) {
        match packet.encode(self.state.serializer) {
            Out::Binary(bytes) => self.state.handle_binary(connection, &bytes),
            Out::Text(text) => self.state.handle_text(connection, &text),
            other => panic!("{other:?}"),
        }
    }

    /// Calls an event, whose acknowledgement is among the packets for the connection.
    pub(crate) fn emit(&mut self, connection: usize, name: &str, body: &Value) {
        self.last += 1;
        let packet = Packet {
            id: Some(self.last),
            ..Packet::new(EVENT, json!([name, body]))
        };
        self.packet(connection, &packet);
    }

    /// Subscribes to Ann's session, and returns the acknowledgement.
    pub(crate) fn subscribe(&mut self, connection: usize, cursor: u64, limit: usize) -> Value {
        let session = ann().direct();
        let body = json!({"sessionIds": [session], "cursors": {session: cursor}, "limit": limit});
        self.emit(connection, crate::account::SUBSCRIBE_SESSIONS, &body);
        self.ack(connection)
    }

    /// Subscribes to the panel.
    pub(crate) fn subscribe_panel(&mut self, connection: usize) {
        let body = json!({"panelIds": [PANEL]});
        self.emit(connection, crate::account::SUBSCRIBE_PANELS, &body);
        assert_eq!(self.ack(connection)["result"], json!(true));
    }

    /// Takes the first packet for a connection, which is an acknowledgement.
    pub(crate) fn ack(&mut self, connection: usize) -> Value {
        let out = self.state.connections.get_mut(&connection).unwrap();
        let packet = read(out.outbox.pop_front().unwrap()).unwrap();
        assert_eq!((packet.kind, packet.id), (3, Some(self.last)));
        packet.data[0].clone()
    }

    /// Takes the frames for a connection.
    pub(crate) fn out(&mut self, connection: usize) -> Vec<Out> {
        let open = self.state.connections.get_mut(&connection).unwrap();
        open.outbox.drain(..).collect()
    }

    /// Takes the packets for a connection.
    pub(crate) fn packets(&mut self, connection: usize) -> Vec<Packet> {
        let packets = self.out(connection).into_iter().map(read);
        packets.map(Result::unwrap).collect()
    }

    /// Takes the events for a connection: name and payload of each.
    pub(crate) fn events(&mut self, connection: usize) -> Vec<(String, Value)> {
        let packets = self.packets(connection).into_iter();
        let events = packets.map(|packet| {
            let name = packet.data[0].as_str().unwrap().to_owned();
            (name, packet.data[1].clone())
        });
        events.collect()
    }

    /// Takes the contents of the messages for a connection, without notifications.
    pub(crate) fn contents(&mut self, connection: usize) -> Vec<Value> {
        let events = self.events(connection).into_iter();
        let events = events.filter(|(name, _)| name.starts_with("claw."));
        events.flat_map(|(_, payload)| contents(&payload)).collect()
    }
}

/// Returns the contents of the messages in the answer of a subscription or a long poll.
pub(crate) fn contents(batch: &Value) -> Vec<Value> {
    let events = batch["events"].as_array().unwrap().iter();
    let contents = events.map(|event| event["payload"]["content"].clone());
    contents.collect()
}
