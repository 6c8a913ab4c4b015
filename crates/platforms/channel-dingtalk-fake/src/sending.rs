//! Messages of the robot.

use serde_json::{Value, json};

use crate::account::CLIENT_ID;
use crate::api::{ApiError, ApiResult};
use crate::model::StoredSend;
use crate::params::Params;
use crate::route::Host;
use crate::state::DingTalkState;
use crate::template;

/// Maximum number of recipients of a private message.
const RECIPIENT_LIMIT: usize = 20;

impl DingTalkState {
    /// Sends a message to people, each in their private chat.
    pub(crate) fn send_private(&mut self, params: &Params) -> ApiResult {
        let content = self.read_message("robot.private", params)?;
        let users: Option<Vec<&str>> = params.list("userIds").iter().map(Value::as_str).collect();
        let users = users.filter(|users| (1..=RECIPIENT_LIMIT).contains(&users.len()));
        let Some(users) = users else {
            return Err(ApiError::malformed(Host::Open, "userIds"));
        };
        let key = self.next_id("pqk+");
        let (mut invalid, mut controlled) = (Vec::new(), Vec::new());
        for user in users {
            if self.controlled.contains(user) {
                controlled.push(user);
            } else if let Some(person) = self.people.get(user) {
                let chat = person.direct();
                self.keep(&key, &chat, params.text("msgKey"), &content);
            } else {
                invalid.push(user);
            }
        }
        Ok(json!({
            "processQueryKey": key, "invalidStaffIdList": invalid,
            "flowControlledStaffIdList": controlled,
        }))
    }

    /// Sends a message to a group.
    pub(crate) fn send_group(&mut self, params: &Params) -> ApiResult {
        let content = self.read_message("robot.group", params)?;
        let group = params.text("openConversationId");
        if group.is_empty() {
            return Err(ApiError::missing(Host::Open, "openConversationId"));
        }
        self.check_group(group)?;
        let key = self.next_id("pqk+");
        self.keep(&key, group, params.text("msgKey"), &content);
        Ok(json!({"processQueryKey": key}))
    }

    /// Sends a reply to the address that came with a message.
    pub(crate) fn send_by_session(&mut self, params: &Params) -> ApiResult {
        let now = self.now();
        let session = self.sessions.get(params.asked("session"));
        let Some(session) = session.filter(|session| session.expires > now) else {
            return Err(ApiError::new("300001"));
        };
        let chat = session.target.clone();
        let kind = params.text("msgtype");
        let content = match kind {
            "text" | "markdown" => params.object(kind).clone(),
            other => return Err(ApiError::because("40035", other)),
        };
        if template::visible(&content).trim().is_empty() {
            return Err(ApiError::because("40035", kind));
        }
        let key = self.next_id("session-");
        self.keep(&key, &chat, &format!("session.{kind}"), &content);
        Ok(json!({"errcode": 0, "errmsg": "ok"}))
    }

    /// Checks that a group exists and that the robot is a member.
    pub(crate) fn check_group(&self, id: &str) -> Result<(), ApiError> {
        match self.chats.get(id).filter(|chat| chat.is_group) {
            None => Err(ApiError::new("openConversationId.notExist")),
            Some(chat) if !chat.has_robot => Err(ApiError::new("robot.notInConversation")),
            Some(_) => Ok(()),
        }
    }

    fn read_message(&mut self, method: &str, params: &Params) -> ApiResult {
        if params.text("robotCode") != CLIENT_ID {
            return Err(ApiError::new("robotCode.notExist"));
        }
        let (content, unknown) = template::read(params.text("msgKey"), params.text("msgParam"))?;
        for name in unknown {
            let complaint = format!("{method}: unknown value {name} of msgParam");
            self.complaints.push(complaint);
        }
        if template::visible(&content).len() > self.text_limit {
            return Err(ApiError::new("msgParam.tooLong"));
        }
        self.check_files(&content)?;
        Ok(content)
    }

    /// Checks that files were uploaded as the type that the template needs.
    fn check_files(&self, content: &Value) -> Result<(), ApiError> {
        let text = |key| content.get(key).and_then(Value::as_str);
        let wrong = |id: &str| Err(ApiError::because("invalidParameter.mediaId", id));
        let kind_of = |id: &str| self.uploads.get(id).map(|upload| upload.kind.as_str());
        if let Some(id) = text("photoURL") {
            let is_link = id.starts_with("http://") || id.starts_with("https://");
            if !is_link && kind_of(id) != Some("image") {
                return wrong(id);
            }
        }
        if let Some(id) = text("mediaId")
            && !matches!(kind_of(id), Some("file" | "voice"))
        {
            return wrong(id);
        }
        match text("videoMediaId") {
            Some(id) if kind_of(id) != Some("video") => wrong(id),
            _ => Ok(()),
        }
    }

    fn keep(&mut self, key: &str, chat: &str, kind: &str, content: &Value) {
        let created = self.now();
        self.sent.push(StoredSend {
            key: key.to_owned(),
            chat: chat.to_owned(),
            kind: kind.to_owned(),
            content: content.clone(),
            card: None,
            created,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Person;
    use crate::probe::{GROUP, Probe};

    #[test]
    fn private_messages_reach_the_valid_recipients() {
        let mut probe = Probe::new();
        let (ann, bob) = (Person::new("ann", "Ann"), Person::new("bob", "Bob"));
        probe.state.add_person(&ann);
        probe.state.add_person(&bob);
        probe.state.add_person(&Person::external("eve", "Eve"));
        probe.state.controlled.insert("bob".to_owned());
        let answer = probe.send_private(&["ann", "bob", "eve"], "hello");
        assert_eq!(answer["invalidStaffIdList"], json!(["eve"]));
        assert_eq!(answer["flowControlledStaffIdList"], json!(["bob"]));
        let [sent] = probe.state.sent_messages().try_into().unwrap();
        assert_eq!((sent.chat_id, sent.text.as_str()), (ann.direct(), "hello"));
        assert_eq!(answer["processQueryKey"], sent.key);
        let many = ["ann"; 21];
        assert_eq!(probe.send_private(&many, "x")["code"], "invalidParameter");
        assert_eq!(probe.send_private(&[], "x")["code"], "invalidParameter");
    }

    #[test]
    fn group_messages_need_a_member_and_a_short_text() {
        let mut probe = Probe::new();
        let code = |probe: &mut Probe, text: &str| probe.send_group(text)["code"].clone();
        assert_eq!(code(&mut probe, "x"), "openConversationId.notExist");
        probe.state.add_group(GROUP, false);
        assert_eq!(code(&mut probe, "x"), "robot.notInConversation");
        probe.state.add_group(GROUP, true);
        assert_eq!(code(&mut probe, &"x".repeat(20_000)), Value::Null);
        assert_eq!(code(&mut probe, &"x".repeat(20_001)), "msgParam.tooLong");
        probe
            .state
            .denied_scopes
            .insert("qyapi_robot_sendmsg".to_owned());
        let denied = probe.send_group("x");
        let scopes = json!(["qyapi_robot_sendmsg"]);
        assert_eq!(denied["accessdenieddetail"]["requiredScopes"], scopes);
        assert_eq!(probe.state.sent.len(), 1);
    }

    #[test]
    fn files_of_messages_must_be_uploaded_as_their_type() {
        let mut probe = Probe::new();
        probe.state.add_group(GROUP, true);
        let id = |answer: Value| answer["media_id"].as_str().unwrap().to_owned();
        let picture = id(probe.upload("image", "a.png", b"\x89PNG\r\n\x1a\n"));
        let file = id(probe.upload("file", "a.txt", b"words"));
        let photo = |location: &str| ("sampleImageMsg", json!({"photoURL": location}));
        let named = |id: &str| {
            let values = json!({"mediaId": id, "fileName": "b.txt", "fileType": "txt"});
            ("sampleFile", values)
        };
        let table = [
            (photo(&picture), true),
            (photo("https://a.example/b.png"), true),
            (photo(&file), false),
            (photo("@unknown"), false),
            (named(&file), true),
            (named(&picture), false),
        ];
        for ((template, values), is_sent) in table {
            let answer = probe.send_group_as(template, &values);
            assert_eq!(answer.get("code").is_none(), is_sent, "{values}");
        }
        let files = probe.state.sent_messages().into_iter();
        let files: Vec<_> = files.flat_map(|sent| sent.files).collect();
        let shown: Vec<_> = files
            .iter()
            .map(|file| (file.name.as_str(), file.bytes.len()))
            .collect();
        let expected = [("a.png", 8), ("https://a.example/b.png", 0), ("b.txt", 5)];
        assert_eq!(shown, expected);
    }
}
