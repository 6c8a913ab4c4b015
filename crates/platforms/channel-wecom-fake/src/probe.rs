//! Commands and connections without sockets, for the tests of this crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_testkit::http::{Request, ResponseStep};
use serde_json::{Value, json};

use crate::account::{BOT_ID, SECRET};
use crate::connection::{Out, SocketConnection};
use crate::crypto::md5_hex;
use crate::incoming::{Incoming, Person};
use crate::model::Pushed;
use crate::state::WeComState;

/// A group that tests may add.
pub(crate) const GROUP: &str = "wrTESTgroup";
/// Number of the connection that commands are sent through.
pub(crate) const FIRST: usize = 1;

/// A state with a subscribed connection.
pub(crate) struct Probe {
    pub(crate) state: WeComState,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut probe = Self {
            state: WeComState::default(),
        };
        probe.connect(FIRST);
        assert_eq!(probe.subscribe(FIRST, SECRET), 0);
        probe
    }

    /// Opens a connection without a subscription.
    pub(crate) fn connect(&mut self, number: usize) {
        let open = SocketConnection::default();
        self.state.connections.insert(number, open);
    }

    /// Returns the code of a subscription.
    pub(crate) fn subscribe(&mut self, number: usize, secret: &str) -> i64 {
        let body = json!({"bot_id": BOT_ID, "secret": secret});
        let answer = self.call_through(number, "aibot_subscribe", "subscribe_1", &body);
        answer["errcode"].as_i64().unwrap()
    }

    /// Returns the answer to a command; `Null` if there is none.
    pub(crate) fn call_through(
        &mut self,
        number: usize,
        cmd: &str,
        req_id: &str,
        body: &Value,
    ) -> Value {
        let frame = json!({"cmd": cmd, "headers": {"req_id": req_id}, "body": body});
        let before = self.outs(number);
        assert_eq!(before, Vec::<Value>::new(), "unread frames");
        self.state.handle_frame(number, &frame.to_string());
        let mut frames = self.outs(number).into_iter();
        let answer = frames.next().unwrap_or_default();
        // What comes after the answer stays in the queue.
        let rest = frames.map(|frame| Out::Text(frame.to_string()));
        let open = self.state.connections.get_mut(&number).unwrap();
        open.outbox.extend(rest);
        answer
    }

    pub(crate) fn call(&mut self, cmd: &str, req_id: &str, body: &Value) -> Value {
        self.call_through(FIRST, cmd, req_id, body)
    }

    /// Returns the code of the answer to a command.
    pub(crate) fn code(&mut self, cmd: &str, req_id: &str, body: &Value) -> i64 {
        let answer = self.call(cmd, req_id, body);
        answer["errcode"].as_i64().unwrap()
    }

    /// Takes the frames for a connection.
    pub(crate) fn outs(&mut self, number: usize) -> Vec<Value> {
        let open = self.state.connections.get_mut(&number).unwrap();
        let outs: Vec<Out> = open.outbox.drain(..).collect();
        let frame = |out| match out {
            Out::Text(text) => serde_json::from_str(&text).unwrap(),
            Out::Push(push) => serde_json::from_str(&self.state.deliver(push).unwrap()).unwrap(),
            other => json!(format!("{other:?}")),
        };
        outs.into_iter().map(frame).collect()
    }

    /// Takes the only frame for the first connection.
    pub(crate) fn frame(&mut self) -> Value {
        let [frame] = self.outs(FIRST).try_into().unwrap();
        frame
    }

    /// Pushes a message, and takes its frame.
    pub(crate) fn push(&mut self, incoming: Incoming) -> (Pushed, Value) {
        let pushed = self.state.push(incoming, true);
        (pushed, self.frame())
    }

    /// Pushes a text, and returns the `req_id` of its callback.
    pub(crate) fn hear(&mut self, text: &str) -> String {
        let (pushed, _) = self.push(Incoming::direct(&ann(), text));
        pushed.req_id
    }

    /// Returns the code of a frame of a stream.
    pub(crate) fn stream(&mut self, req_id: &str, id: &str, text: &str, finish: bool) -> i64 {
        let stream = json!({"id": id, "content": text, "finish": finish});
        let body = json!({"msgtype": "stream", "stream": stream});
        self.code("aibot_respond_msg", req_id, &body)
    }

    /// Returns the code of a message of Markdown.
    pub(crate) fn send(&mut self, chat: &str, text: &str) -> i64 {
        let body = json!({"chatid": chat, "msgtype": "markdown", "markdown": {"content": text}});
        self.code("aibot_send_msg", "send_1", &body)
    }

    /// Uploads a file in chunks of this size, and returns the answer to the last command, or to
    /// the first one that failed.
    pub(crate) fn upload(&mut self, kind: &str, name: &str, bytes: &[u8], chunk: usize) -> Value {
        let chunks: Vec<&[u8]> = bytes.chunks(chunk).collect();
        let body = json!({
            "type": kind, "filename": name, "total_size": bytes.len(),
            "total_chunks": chunks.len(), "md5": md5_hex(bytes),
        });
        let answer = self.call("aibot_upload_media_init", "upload_1", &body);
        let Some(upload) = answer["body"]["upload_id"].as_str() else {
            return answer;
        };
        // The order of the chunks is free.
        for (index, chunk) in chunks.iter().enumerate().rev() {
            let data = STANDARD.encode(chunk);
            let body = json!({"upload_id": upload, "chunk_index": index, "base64_data": data});
            let answer = self.call("aibot_upload_media_chunk", "upload_2", &body);
            if answer["errcode"] != 0 {
                return answer;
            }
        }
        let body = json!({"upload_id": upload});
        self.call("aibot_upload_media_finish", "upload_3", &body)
    }

    /// Returns status, headers and body of the file at an address.
    pub(crate) fn get(&mut self, address: &str) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let request = Request {
            method: "GET".to_owned(),
            target: address.to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        let response = self.state.serve(&request);
        let body = match response.steps.as_slice() {
            [ResponseStep::Bytes(bytes)] => bytes.to_vec(),
            _ => Vec::new(),
        };
        (response.status, response.headers, body)
    }

    /// Takes the complaints.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.state.complaints)
    }
}

pub(crate) fn ann() -> Person {
    Person::new("ann")
}
