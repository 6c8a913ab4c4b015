//! Calls and connections without sockets, for the tests of this crate.

use bytes::Bytes;
use nanobot_testkit::http::{Request, ResponseStep};
use serde_json::{Value, json};

use crate::account::{CARD_TEMPLATE, CLIENT_ID, CLIENT_SECRET, MESSAGE_TOPIC};
use crate::connection::{Out, SocketConnection, Subscription};
use crate::route::Host;
use crate::state::DingTalkState;

/// A group that tests may add.
pub(crate) const GROUP: &str = "cidGroup1==";

/// A state, and a token for it.
pub(crate) struct Probe {
    pub(crate) state: DingTalkState,
    token: String,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let mut probe = Self {
            state: DingTalkState::default(),
            token: String::new(),
        };
        let credentials = json!({"appKey": CLIENT_ID, "appSecret": CLIENT_SECRET});
        let answer = probe.call("POST", "/v1.0/oauth2/accessToken", &credentials);
        answer["accessToken"]
            .as_str()
            .unwrap()
            .clone_into(&mut probe.token);
        probe
    }

    fn serve(
        &mut self,
        host: Host,
        verb: &str,
        target: &str,
        kind: &str,
        body: Bytes,
    ) -> (u16, String) {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![header("content-type", kind)];
        let is_public = ["accessToken", "connections/open"]
            .iter()
            .any(|end| target.ends_with(end));
        if host == Host::Open && !is_public {
            headers.push(header("x-acs-dingtalk-access-token", &self.token));
        }
        let request = Request {
            method: verb.to_owned(),
            target: target.to_owned(),
            headers,
            body,
        };
        let response = self.state.serve(host, &request);
        let text = match response.steps.as_slice() {
            [ResponseStep::Bytes(bytes)] => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        (response.status, text)
    }

    /// Returns the answer of a call of the open API; `Null` if it is no JSON.
    pub(crate) fn call(&mut self, verb: &str, target: &str, body: &Value) -> Value {
        let body = Bytes::from(body.to_string());
        let (_, text) = self.serve(Host::Open, verb, target, "application/json", body);
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns the code of a refusal of the open API; empty if the call succeeded.
    pub(crate) fn code(&mut self, verb: &str, target: &str, body: &Value) -> String {
        let answer = self.call(verb, target, body);
        answer["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns status and body of the file at an address.
    pub(crate) fn get(&mut self, address: &str) -> (u16, String) {
        self.serve(Host::Oapi, "GET", address, "", Bytes::new())
    }

    /// Returns the answer to an upload.
    pub(crate) fn upload(&mut self, kind: &str, name: &str, bytes: &[u8]) -> Value {
        let head = format!(
            "--B\r\nContent-Disposition: form-data; name=\"media\"; filename=\"{name}\"\r\n\r\n"
        );
        let body = [head.as_bytes(), bytes, b"\r\n--B--\r\n"].concat();
        let target = format!("/media/upload?access_token={}&type={kind}", self.token);
        let form = "multipart/form-data; boundary=B";
        let (_, text) = self.serve(Host::Oapi, "POST", &target, form, Bytes::from(body));
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(crate) fn send_private(&mut self, users: &[&str], text: &str) -> Value {
        let values = json!({"content": text}).to_string();
        let body = json!({
            "robotCode": CLIENT_ID, "userIds": users, "msgKey": "sampleText", "msgParam": values,
        });
        self.call("POST", "/v1.0/robot/oToMessages/batchSend", &body)
    }

    pub(crate) fn send_group(&mut self, text: &str) -> Value {
        self.send_group_as("sampleText", &json!({"content": text}))
    }

    pub(crate) fn send_group_as(&mut self, template: &str, values: &Value) -> Value {
        let body = json!({
            "robotCode": CLIENT_ID, "openConversationId": GROUP, "msgKey": template,
            "msgParam": values.to_string(),
        });
        self.call("POST", "/v1.0/robot/groupMessages/send", &body)
    }

    pub(crate) fn create_card(&mut self, track: &str, group: &str, text: &str) -> Value {
        let body = json!({
            "cardTemplateId": CARD_TEMPLATE, "outTrackId": track, "callbackType": "STREAM",
            "cardData": {"cardParamMap": {"content": text}},
            "openSpaceId": format!("dtv1.card//IM_GROUP.{group}"),
            "imGroupOpenDeliverModel": {"robotCode": CLIENT_ID},
        });
        self.call("POST", "/v1.0/card/instances/createAndDeliver", &body)
    }

    /// Opens a connection for messages.
    pub(crate) fn connect(&mut self, number: usize) {
        let subscription = Subscription {
            kind: "CALLBACK".to_owned(),
            topic: MESSAGE_TOPIC.to_owned(),
        };
        let open = SocketConnection {
            subscriptions: vec![subscription],
            ..SocketConnection::default()
        };
        self.state.connections.insert(number, open);
        self.state.dispatch();
    }

    /// Takes the frames for a connection.
    pub(crate) fn frames(&mut self, number: usize) -> Vec<Value> {
        let outbox = &mut self.state.connections.get_mut(&number).unwrap().outbox;
        let frames = outbox.drain(..).filter_map(|out| match out {
            Out::Text(text) => serde_json::from_str(&text).ok(),
            _ => None,
        });
        frames.collect()
    }

    /// Takes the only frame for a connection, and returns its content.
    pub(crate) fn data(&mut self, number: usize) -> Value {
        let [frame] = self.frames(number).try_into().unwrap();
        serde_json::from_str(frame["data"].as_str().unwrap()).unwrap()
    }

    pub(crate) fn id(frame: &Value) -> String {
        frame["headers"]["messageId"].as_str().unwrap().to_owned()
    }

    /// Acknowledges a frame, as a client does.
    pub(crate) fn acknowledge(&mut self, number: usize, frame: &Value) {
        self.answer(number, frame, 200, &json!({"response": "OK"}));
    }

    pub(crate) fn answer(&mut self, number: usize, frame: &Value, code: u16, data: &Value) {
        let answer = json!({
            "code": code, "message": "", "data": data.to_string(),
            "headers": {"contentType": "application/json", "messageId": Self::id(frame)},
        });
        self.state.handle_frame(number, &answer.to_string());
    }
}
