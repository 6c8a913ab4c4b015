//! Calls without sockets, for the tests of this crate.

use bytes::Bytes;
use nanobot_testkit::http::{Request, ResponseStep};
use serde_json::{Value, json};

use crate::account::{BOT_TOKEN, Person};
use crate::handler::Served;
use crate::state::MatrixState;
use crate::sync::SyncCall;

/// A room of the bot and Ann.
pub(crate) const ROOM: &str = "!room:fake.test";
/// The token of Ann's device, which is `ANNDEV`.
pub(crate) const ANN_TOKEN: &str = "syt_ann";

pub(crate) fn ann() -> Person {
    Person::new("ann")
}

/// A state with a person, who is logged in, and a room.
pub(crate) struct Probe {
    pub(crate) state: MatrixState,
    /// The token of the next calls.
    pub(crate) token: String,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut state = MatrixState::new();
        state.add_person(&ann());
        state.add_room(ROOM, &[ann()]);
        state.set_membership(ROOM, crate::BOT_ID, crate::BOT_ID, "join");
        state.add_device(&ann().user_id, "ANNDEV", ANN_TOKEN);
        Self {
            state,
            token: BOT_TOKEN.to_owned(),
        }
    }

    /// Makes the next calls as Ann.
    pub(crate) fn by_ann(mut self) -> Self {
        ANN_TOKEN.clone_into(&mut self.token);
        self
    }

    pub(crate) fn serve(&mut self, method: &str, path: &str, body: &Value) -> Served {
        let bytes = match body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        self.serve_bytes(method, path, "application/json", bytes)
    }

    fn serve_bytes(&mut self, method: &str, path: &str, mime: &str, body: Bytes) -> Served {
        let header = |name: &str, value: String| (name.to_owned(), value);
        let target = if path.starts_with("/_matrix") {
            path.to_owned()
        } else {
            format!("/_matrix/client/v3/{path}")
        };
        self.state.serve(&Request {
            method: method.to_owned(),
            target,
            headers: vec![
                header("content-type", mime.to_owned()),
                header("authorization", format!("Bearer {}", self.token)),
            ],
            body,
        })
    }

    /// Returns status and JSON of the answer to a call; `Null` if there is no JSON. A sync does
    /// not wait.
    pub(crate) fn request(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        match self.serve(method, path, body) {
            Served::Waits(call, _) => (200, self.state.sync(&call)),
            Served::Done(response) => {
                let body = match response.steps.as_slice() {
                    [ResponseStep::Bytes(bytes)] => {
                        serde_json::from_slice(bytes).unwrap_or_default()
                    }
                    _ => Value::Null,
                };
                (response.status, body)
            }
        }
    }

    /// Returns the body of a call that succeeds.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.request(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, &Value::Null)
    }

    /// Returns the error code of a call; empty if it succeeds.
    pub(crate) fn code(&mut self, method: &str, path: &str, body: &Value) -> String {
        let (_, answer) = self.request(method, path, body);
        answer["errcode"].as_str().unwrap_or_default().to_owned()
    }

    /// Sends an event to the room, and returns its id.
    pub(crate) fn send(&mut self, kind: &str, transaction: &str, content: &Value) -> String {
        let path = format!("rooms/{ROOM}/send/{kind}/{transaction}");
        let sent = self.call("PUT", &path, content);
        sent["event_id"].as_str().unwrap().to_owned()
    }

    /// Uploads a file, and returns status and answer.
    pub(crate) fn upload(&mut self, mime: &str, bytes: &'static [u8]) -> (u16, Value) {
        let path = "/_matrix/media/v3/upload?filename=a.txt";
        let Served::Done(response) = self.serve_bytes("POST", path, mime, bytes.into()) else {
            panic!("no response");
        };
        let [ResponseStep::Bytes(body)] = response.steps.as_slice() else {
            panic!("no body");
        };
        (response.status, serde_json::from_slice(body).unwrap())
    }

    /// Syncs without waiting. `since` is empty for the first sync.
    pub(crate) fn sync(&mut self, since: &str, more: &str) -> Value {
        let since = if since.is_empty() {
            String::new()
        } else {
            format!("since={since}&")
        };
        self.get(&format!("sync?{since}{more}"))
    }

    /// Returns the sync after a position, as the fake sees it.
    pub(crate) fn begin_sync(&mut self, since: &str) -> SyncCall {
        let path = format!("sync?since={since}&timeout=600000");
        match self.serve("GET", &path, &Value::Null) {
            Served::Waits(call, _) => *call,
            Served::Done(response) => panic!("{response:?}"),
        }
    }

    /// Takes the complaints.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.state.complaints)
    }
}

/// Returns the content of a text message.
pub(crate) fn text(body: &str) -> Value {
    json!({"msgtype": "m.text", "body": body})
}

/// Returns the bodies of the messages of a room in a sync.
pub(crate) fn bodies(sync: &Value, room: &str) -> Vec<String> {
    let events = sync["rooms"]["join"][room]["timeline"]["events"].as_array();
    let bodies = events
        .into_iter()
        .flatten()
        .filter_map(|event| event["content"]["body"].as_str());
    bodies.map(str::to_owned).collect()
}
