//! Calls and connections without sockets, for the tests of this crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nanobot_testkit::http::{Request, ResponseStep};
use serde_json::{Value, json};

use crate::account::{APP_ID, CLIENT_SECRET, DIRECT_MESSAGE, GROUP_AND_C2C, PUBLIC_GUILD_MESSAGES};
use crate::connection::{Out, SocketConnection};
use crate::incoming::Person;
use crate::params::Params;
use crate::state::QqState;

/// A group that tests may add.
pub(crate) const GROUP: &str = "6062000000000000000000000000C0DE";
/// The beginning of a picture.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(crate) fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// Returns a valid token of a state.
pub(crate) fn token_of(state: &mut QqState) -> String {
    let mut params = Params::default();
    let credentials = [("appId", APP_ID), ("clientSecret", CLIENT_SECRET)];
    let credentials = credentials.map(|(name, value)| (name.to_owned(), json!(value)));
    params.body.extend(credentials);
    let answer = state.issue_token(&params).unwrap();
    answer["access_token"].as_str().unwrap().to_owned()
}

/// A state, and a token for it.
pub(crate) struct Probe {
    pub(crate) state: QqState,
    pub(crate) token: String,
    /// The header `X-Union-Appid`.
    pub(crate) app: String,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut probe = Self {
            state: QqState::default(),
            token: String::new(),
            app: APP_ID.to_owned(),
        };
        "http://fake".clone_into(&mut probe.state.base);
        probe.renew_token();
        probe
    }

    pub(crate) fn renew_token(&mut self) {
        self.token = token_of(&mut self.state);
    }

    fn serve(&mut self, verb: &str, target: &str, body: Bytes) -> (u16, String) {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![header("content-type", "application/json")];
        if !target.starts_with("/app/") && !target.starts_with("/download") {
            headers.push(header("authorization", &format!("QQBot {}", self.token)));
            headers.push(header("x-union-appid", &self.app));
        }
        let request = Request {
            method: verb.to_owned(),
            target: target.to_owned(),
            headers,
            body,
        };
        let response = self.state.serve(&request);
        let text = match response.steps.as_slice() {
            [ResponseStep::Bytes(bytes)] => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        (response.status, text)
    }

    /// Returns the answer of a call; `Null` if it is no JSON.
    pub(crate) fn call(&mut self, verb: &str, target: &str, body: &Value) -> Value {
        let (_, text) = self.serve(verb, target, Bytes::from(body.to_string()));
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns the code of a refusal; 0 if the call succeeded.
    pub(crate) fn code(&mut self, verb: &str, target: &str, body: &Value) -> i64 {
        self.call(verb, target, body)["code"]
            .as_i64()
            .unwrap_or_default()
    }

    /// Sends a message to one of the `users` or `groups`, and returns the code of the refusal.
    pub(crate) fn send(&mut self, place: &str, chat: &str, body: &Value) -> i64 {
        self.code("POST", &format!("/v2/{place}/{chat}/messages"), body)
    }

    /// Returns the answer to an upload.
    pub(crate) fn upload(&mut self, place: &str, chat: &str, kind: i64, bytes: &[u8]) -> Value {
        let body = json!({"file_type": kind, "file_data": STANDARD.encode(bytes)});
        self.call("POST", &format!("/v2/{place}/{chat}/files"), &body)
    }

    /// Returns status and body of the file at an address.
    pub(crate) fn get(&mut self, target: &str) -> (u16, String) {
        self.serve("GET", target, Bytes::new())
    }

    /// Opens a connection.
    pub(crate) fn open(&mut self, number: usize) {
        self.state
            .connections
            .insert(number, SocketConnection::new());
    }

    /// Opens a connection, identifies it for messages and returns its session.
    pub(crate) fn connect(&mut self, number: usize) -> String {
        self.open(number);
        self.identify(number);
        let ready = self.events(number).remove(0);
        assert_eq!((&ready["t"], &ready["s"]), (&json!("READY"), &json!(1)));
        ready["d"]["session_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn identify(&mut self, number: usize) {
        let token = format!("QQBot {}", self.token);
        let intents = GROUP_AND_C2C | DIRECT_MESSAGE | PUBLIC_GUILD_MESSAGES;
        let data = json!({"token": token, "intents": intents, "shard": [0, 1]});
        self.frame(number, &json!({"op": 2, "d": data}));
    }

    pub(crate) fn resume(&mut self, number: usize, session: &str, seq: u64) {
        let token = format!("QQBot {}", self.token);
        let data = json!({"token": token, "session_id": session, "seq": seq});
        self.frame(number, &json!({"op": 6, "d": data}));
    }

    pub(crate) fn frame(&mut self, number: usize, frame: &Value) {
        self.state.handle_frame(number, &frame.to_string());
    }

    /// Takes the frames for a connection.
    pub(crate) fn events(&mut self, number: usize) -> Vec<Value> {
        let outbox = &mut self.state.connections.get_mut(&number).unwrap().outbox;
        let frames = outbox.drain(..).filter_map(|out| match out {
            Out::Text(text) => serde_json::from_str(&text).ok(),
            _ => None,
        });
        frames.collect()
    }

    /// Takes the frames for a connection, and returns the first with the close code.
    pub(crate) fn end(&mut self, number: usize) -> (Option<Value>, u16) {
        let outbox = self.state.connections[&number].outbox.clone();
        let code = outbox.iter().find_map(|out| match out {
            Out::Close(code) => Some(*code),
            _ => None,
        });
        let first = self.events(number).into_iter().next();
        (first, code.unwrap_or_default())
    }
}
