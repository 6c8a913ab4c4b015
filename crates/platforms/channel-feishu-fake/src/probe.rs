//! Calls and connections without sockets, for the tests of this crate.

use bytes::Bytes;
use nanobot_testkit::http::{Request, ResponseStep};
use prost::Message as _;
use serde_json::{Value, json};

use crate::account::{APP_ID, APP_SECRET};
use crate::connection::{Out, SocketConnection};
use crate::frame::{DATA, Frame, decode};
use crate::state::FeishuState;

/// A state, and a token for it.
pub(crate) struct Probe {
    pub(crate) state: FeishuState,
    token: String,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut probe = Self {
            state: FeishuState::default(),
            token: String::new(),
        };
        probe.renew_token();
        probe
    }

    /// Fetches the current token.
    pub(crate) fn renew_token(&mut self) {
        let path = "/open-apis/auth/v3/tenant_access_token/internal";
        let credentials = json!({"app_id": APP_ID, "app_secret": APP_SECRET});
        let answer = self.call("POST", path, &credentials);
        let token = answer["tenant_access_token"].as_str().unwrap();
        self.token = format!("Bearer {token}");
    }

    /// Returns the answer of a call; `Null` if it is no JSON.
    pub(crate) fn call(&mut self, verb: &str, target: &str, body: &Value) -> Value {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = Request {
            method: verb.to_owned(),
            target: target.to_owned(),
            headers: vec![
                header("authorization", &self.token),
                header("content-type", "application/json; charset=utf-8"),
            ],
            body: Bytes::from(body.to_string()),
        };
        match self.state.serve(&request).steps.as_slice() {
            [ResponseStep::Bytes(bytes)] => serde_json::from_slice(bytes).unwrap_or_default(),
            _ => Value::Null,
        }
    }

    /// Returns the code of a call's answer.
    pub(crate) fn code(&mut self, verb: &str, target: &str, body: &Value) -> u64 {
        let answer = self.call(verb, target, body);
        answer["code"].as_u64().unwrap_or(u64::MAX)
    }

    /// Sends a message of the bot to a chat.
    pub(crate) fn send(&mut self, chat: &str, kind: &str, content: &Value) -> Value {
        let body = json!({"receive_id": chat, "msg_type": kind, "content": content.to_string()});
        let target = "/open-apis/im/v1/messages?receive_id_type=chat_id";
        self.call("POST", target, &body)
    }

    /// Opens a connection.
    pub(crate) fn connect(&mut self, number: usize) {
        let open = SocketConnection::default();
        self.state.connections.insert(number, open);
        self.state.dispatch();
    }

    /// Takes the frames for a connection.
    pub(crate) fn frames(&mut self, number: usize) -> Vec<Frame> {
        let outbox = &mut self.state.connections.get_mut(&number).unwrap().outbox;
        let frames = outbox.drain(..).filter_map(|out| match out {
            Out::Binary(bytes) => decode(&bytes).ok(),
            _ => None,
        });
        frames.collect()
    }

    /// Answers a frame with this code, as a client does.
    pub(crate) fn answer(&mut self, number: usize, mut frame: Frame, code: u16) {
        let headers = [("biz_rt", "1")];
        frame
            .headers
            .extend(Frame::new(DATA, &headers, b"").headers);
        frame.payload = Some(json!({"code": code}).to_string().into_bytes());
        self.state.handle_frame(number, &frame.encode_to_vec());
    }
}
