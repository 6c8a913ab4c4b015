//! Frames and connections without sockets, for the tests of this crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::TOKEN;
use crate::connection::{Out, Role};
use crate::incoming::{Incoming, Person};
use crate::model::Pushed;
use crate::state::WhatsAppState;

/// A group that tests may add.
pub(crate) const GROUP: &str = "120363000000000001@g.us";
/// Number of the connection of the client.
pub(crate) const FIRST: usize = 1;
/// Requests that have an answer.
const REQUESTS: [&str; 4] = ["send", "react", "fetch", "upload"];

/// A state with a client.
pub(crate) struct Probe {
    pub(crate) state: WhatsAppState,
}

impl Probe {
    /// Returns a bridge of version 2 with a client that has read its greeting.
    pub(crate) fn new() -> Self {
        let mut probe = Self::without_client(Role::Version2);
        let number = probe.state.add_connection();
        assert_eq!(probe.auth(number, TOKEN, Some(2))[0]["type"], "ready");
        probe
    }

    pub(crate) fn without_client(serves: Role) -> Self {
        Self {
            state: WhatsAppState::new(serves, TOKEN),
        }
    }

    /// Opens a connection with this protocol, and returns its number and the first frames.
    pub(crate) fn connect(&mut self, protocol: Option<u64>) -> (usize, Vec<Value>) {
        let number = self.state.add_connection();
        let frames = self.auth(number, TOKEN, protocol);
        (number, frames)
    }

    /// Sends a token, and returns the frames that follow.
    pub(crate) fn auth(&mut self, number: usize, token: &str, protocol: Option<u64>) -> Vec<Value> {
        let mut frame = json!({"type": "auth", "token": token});
        if let Some(protocol) = protocol {
            set(&mut frame, "protocol", protocol);
        }
        self.state.handle_frame(number, &frame.to_string());
        self.outs(number)
    }

    /// Takes the frames for a connection.
    pub(crate) fn outs(&mut self, number: usize) -> Vec<Value> {
        let open = self.state.connections.get_mut(&number).unwrap();
        let outs: Vec<Out> = open.outbox.drain(..).collect();
        let frame = |out| match out {
            Out::Text(text) => serde_json::from_str(&text).unwrap(),
            Out::Message(seq) => serde_json::from_str(&self.state.deliver(seq).unwrap()).unwrap(),
            other => json!(format!("{other:?}")),
        };
        outs.into_iter().map(frame).collect()
    }

    /// Takes the only frame for the client.
    pub(crate) fn frame(&mut self) -> Value {
        let [frame] = self.outs(FIRST).try_into().unwrap();
        frame
    }

    /// Sends a frame of these members, and returns the answer; `Null` if there is none.
    pub(crate) fn call(&mut self, method: &str, members: &Value) -> Value {
        let mut frame = members.clone();
        set(&mut frame, "type", method);
        if REQUESTS.contains(&method) {
            set(&mut frame, "requestId", "r1");
        }
        assert_eq!(self.outs(FIRST), Vec::<Value>::new(), "unread frames");
        self.state.handle_frame(FIRST, &frame.to_string());
        let mut answers = self.outs(FIRST).into_iter();
        let answer = answers.next().unwrap_or_default();
        assert_eq!(answers.next(), None, "a second frame");
        answer
    }

    /// Returns the code of the answer, or its type if it is no error.
    pub(crate) fn code(&mut self, method: &str, members: &Value) -> String {
        let answer = self.call(method, members);
        let code = answer.get("code").unwrap_or(&answer["type"]);
        code.as_str().unwrap_or_default().to_owned()
    }

    /// Pushes a message, and takes its frame.
    pub(crate) fn push(&mut self, incoming: Incoming) -> (Pushed, Value) {
        let pushed = self.state.push(incoming, true);
        (pushed, self.frame())
    }

    /// Pushes a text, and takes its frame.
    pub(crate) fn hear(&mut self, text: &str) -> Value {
        self.push(Incoming::direct(&ann(), text)).1
    }

    /// Returns the code of the answer to a message.
    pub(crate) fn send(&mut self, id: &str, to: &str, text: &str) -> String {
        self.code("send", &json!({"id": id, "to": to, "text": text}))
    }

    /// Uploads bytes as one piece, and returns the code.
    pub(crate) fn upload(&mut self, reference: &str, offset: usize, bytes: &[u8]) -> String {
        let data = STANDARD.encode(bytes);
        self.code(
            "upload",
            &json!({"ref": reference, "offset": offset, "data": data}),
        )
    }

    /// Returns the texts that people see.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let sent = self.state.sent.iter();
        sent.map(|sent| sent.text.as_str()).collect()
    }

    /// Takes the complaints.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.state.complaints)
    }
}

pub(crate) fn ann() -> Person {
    Person::new("4915111111111", "Ann")
}

/// Returns the id of a message of the client.
pub(crate) fn id(number: u32) -> String {
    format!("3EB0{number:018X}")
}
