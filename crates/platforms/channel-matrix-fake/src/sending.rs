//! Messages and redactions of clients.

use serde_json::{Value, json};

use crate::account::BOT_ID;
use crate::api::{ApiError, ApiResult, success};
use crate::json::{member, text};
use crate::model::{SentFile, SentMessage, Transaction};
use crate::params::Params;
use crate::state::{EVENT_LIMIT, MatrixState, NewEvent};

impl MatrixState {
    pub(crate) fn send(&mut self, params: &Params) -> ApiResult {
        let (room, kind) = (params.segment(0), params.segment(1));
        if let Some(event_id) = self.earlier(params) {
            return success(json!({"event_id": event_id}));
        }
        let is_encrypted = self.joined_room(room, &params.user)?.is_encrypted();
        self.check_content(params)?;
        // Reactions are sent in clear: their relation has to be visible to homeservers.
        if is_encrypted && !matches!(kind, "m.room.encrypted" | "m.reaction") {
            self.complain(format!("send: a clear {kind} in an encrypted room"));
        }
        let new = NewEvent {
            kind,
            sender: &params.user,
            content: params.body.clone(),
            origin: params.origin(2),
            ..NewEvent::default()
        };
        let (event_id, _) = self.add_event(room, new);
        self.remember(params, &event_id);
        if params.user == BOT_ID {
            self.record(params, &event_id);
        }
        if let Some(room) = self.rooms.get_mut(room) {
            // A message ends the typing of its sender.
            if room.typing.remove(&params.user).is_some() {
                room.typing_changed = self.position;
            }
        }
        success(json!({"event_id": event_id}))
    }

    pub(crate) fn redact(&mut self, params: &Params) -> ApiResult {
        let (id, event_id) = (params.segment(0), params.segment(1));
        if let Some(event_id) = self.earlier(params) {
            return success(json!({"event_id": event_id}));
        }
        let room = self.joined_room(id, &params.user)?;
        let entry = room
            .entry(event_id)
            .ok_or_else(|| ApiError::not_found("Event"))?;
        if entry.text("sender") != params.user && room.power(&params.user) < 50 {
            return Err(ApiError::forbidden(
                "You cannot redact the events of others",
            ));
        }
        let reason = params.text("reason");
        let origin = params.origin(2);
        let (redaction, _) = self.add_redaction(id, &params.user, event_id, reason, origin);
        self.remember(params, &redaction);
        success(json!({"event_id": redaction}))
    }

    /// Returns the event of a transaction that was carried out before.
    fn earlier(&mut self, params: &Params) -> Option<String> {
        let device = self.device(&params.user, &params.device)?;
        let earlier = device.transactions.get(&params.place)?.clone();
        let is_encrypted = params.segment(1) == "m.room.encrypted";
        if earlier.body != Value::Object(params.body.clone()) && !is_encrypted {
            self.complain(format!(
                "the transaction {} has another content",
                params.segment(2)
            ));
        }
        Some(earlier.event_id)
    }

    fn remember(&mut self, params: &Params, event_id: &str) {
        let transaction = Transaction {
            body: Value::Object(params.body.clone()),
            event_id: event_id.to_owned(),
        };
        if let Some(device) = self.device_mut(&params.user, &params.device) {
            device
                .transactions
                .insert(params.place.clone(), transaction);
        }
    }

    fn check_content(&mut self, params: &Params) -> Result<(), ApiError> {
        let content = Value::Object(params.body.clone());
        let size = content.to_string().len() + params.place.len() + params.user.len();
        if size > EVENT_LIMIT {
            return Err(ApiError::of_code("M_TOO_LARGE").clumsy());
        }
        if has_fraction(&content) {
            let message = "numbers must be integers of at most 53 bits";
            return Err(ApiError::new(400, "M_BAD_JSON", message).clumsy());
        }
        let problem = match params.segment(1) {
            "m.room.message" => message_problem(&content),
            "m.room.encrypted" => encrypted_problem(&content),
            "m.reaction" => reaction_problem(&content),
            _ => None,
        };
        if let Some(problem) = problem {
            self.complain(format!("send: {problem}"));
        }
        Ok(())
    }

    /// Records a message of the bot, or applies its edit.
    fn record(&mut self, params: &Params, event_id: &str) {
        let content = Value::Object(params.body.clone());
        let relation = member(&content, "m.relates_to");
        let is_edit = text(&relation, "rel_type") == "m.replace";
        if is_edit {
            let target = text(&relation, "event_id");
            let mut sent = self.sent.iter_mut();
            let same =
                sent.find(|sent| sent.event_id == target && sent.room_id == params.segment(0));
            match (same, content.get("m.new_content")) {
                (Some(sent), Some(new)) => sent.edit(new),
                // The text of an encrypted edit is unknown.
                (Some(sent), None) => sent.edited = Some(content),
                (None, _) => self.complain("send: an edit of an unknown message"),
            }
            return;
        }
        let is_thread = text(&relation, "rel_type") == "m.thread";
        let is_fallback = relation.get("is_falling_back") == Some(&Value::Bool(true));
        let reply = relation
            .get("m.in_reply_to")
            .filter(|_| !(is_thread && is_fallback));
        self.sent.push(SentMessage {
            event_id: event_id.to_owned(),
            room_id: params.segment(0).to_owned(),
            kind: params.segment(1).to_owned(),
            msgtype: text(&content, "msgtype").to_owned(),
            text: text(&content, "body").to_owned(),
            history: Vec::new(),
            html: html_of(&content),
            thread: is_thread.then(|| text(&relation, "event_id").to_owned()),
            reply_to: reply.map(|reply| text(reply, "event_id").to_owned()),
            edited: None,
            transaction: params.segment(2).to_owned(),
            files: self.files_of(&content),
            content,
            is_redacted: false,
        });
    }

    fn files_of(&self, content: &Value) -> Vec<SentFile> {
        let url = text(content, "url");
        let Some(bytes) = self.media_bytes(url) else {
            return Vec::new();
        };
        let name = match text(content, "filename") {
            "" => text(content, "body"),
            name => name,
        };
        let info = member(content, "info");
        vec![SentFile {
            name: name.to_owned(),
            kind: text(content, "msgtype").to_owned(),
            mime: text(&info, "mimetype").to_owned(),
            url: url.to_owned(),
            bytes,
        }]
    }
}

impl Params {
    /// Returns the device and the transaction id in this segment.
    fn origin(&self, segment: usize) -> Option<(String, String)> {
        let device = format!("{} {}", self.user, self.device);
        Some((device, self.segment(segment).to_owned()))
    }
}

impl SentMessage {
    fn edit(&mut self, new: &Value) {
        let text = text(new, "body").to_owned();
        self.history.push(std::mem::replace(&mut self.text, text));
        self.html = html_of(new);
        self.edited = Some(new.clone());
    }
}

fn html_of(content: &Value) -> Option<String> {
    let html = content.get("formatted_body").and_then(Value::as_str);
    html.map(str::to_owned)
}

/// Returns `true` if canonical JSON cannot express the value.
fn has_fraction(value: &Value) -> bool {
    const MOST: i64 = 1 << 53;
    match value {
        Value::Number(number) => number
            .as_i64()
            .is_none_or(|number| !(-MOST < number && number < MOST)),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        _ => false,
    }
}

fn message_problem(content: &Value) -> Option<String> {
    let msgtype = text(content, "msgtype");
    let is_file = matches!(msgtype, "m.image" | "m.audio" | "m.video" | "m.file");
    let is_known = is_file || matches!(msgtype, "m.text" | "m.notice" | "m.emote" | "m.location");
    let relation = member(content, "m.relates_to");
    let has_format = content.get("format").is_some();
    if !is_known {
        return Some(format!("the msgtype {msgtype:?} is unknown"));
    }
    if !content.get("body").is_some_and(Value::is_string) {
        return Some("the body is no text".to_owned());
    }
    if is_file && !text(content, "url").starts_with("mxc://") && content.get("file").is_none() {
        return Some(format!("{msgtype} without a file"));
    }
    if has_format != content.get("formatted_body").is_some() {
        return Some("format and formatted_body belong together".to_owned());
    }
    if has_format && text(content, "format") != "org.matrix.custom.html" {
        return Some("the format is unknown".to_owned());
    }
    relation_problem(&relation).or_else(|| {
        let is_edit = text(&relation, "rel_type") == "m.replace";
        (is_edit != content.get("m.new_content").is_some_and(Value::is_object))
            .then(|| "m.replace and m.new_content belong together".to_owned())
    })
}

fn relation_problem(relation: &Value) -> Option<String> {
    let Some(relation_members) = relation.as_object() else {
        return (!relation.is_null()).then(|| "m.relates_to is no object".to_owned());
    };
    let kind = text(relation, "rel_type");
    let has_event = text(relation, "event_id").starts_with('$');
    let is_known = matches!(
        kind,
        "" | "m.thread" | "m.replace" | "m.reference" | "m.annotation"
    );
    let reply = relation.get("m.in_reply_to");
    if !is_known {
        return Some(format!("the rel_type {kind:?} is unknown"));
    }
    if kind.is_empty() && relation_members.contains_key("event_id")
        || !kind.is_empty() && !has_event
    {
        return Some("rel_type and event_id belong together".to_owned());
    }
    let is_wrong = reply.is_some_and(|reply| !text(reply, "event_id").starts_with('$'));
    is_wrong.then(|| "m.in_reply_to without an event".to_owned())
}

fn encrypted_problem(content: &Value) -> Option<String> {
    let is_megolm = text(content, "algorithm") == "m.megolm.v1.aes-sha2";
    let missing = ["ciphertext", "session_id"]
        .into_iter()
        .find(|key| text(content, key).is_empty());
    let relation = member(content, "m.relates_to");
    if !is_megolm {
        return Some("the algorithm of an encrypted message is unknown".to_owned());
    }
    missing
        .map(|key| format!("an encrypted message without {key}"))
        .or_else(|| relation_problem(&relation))
}

fn reaction_problem(content: &Value) -> Option<String> {
    let relation = member(content, "m.relates_to");
    let is_right = text(&relation, "rel_type") == "m.annotation"
        && text(&relation, "event_id").starts_with('$')
        && !text(&relation, "key").is_empty();
    (!is_right).then(|| "a reaction without its event or key".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BOT_ID;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ROOM, ann, text as message};

    #[test]
    fn transaction_is_carried_out_once() {
        let mut probe = Probe::new();
        let first = probe.send("m.room.message", "tx", &message("x"));
        assert_eq!(probe.send("m.room.message", "tx", &message("x")), first);
        assert_eq!(probe.complaints(), Vec::<String>::new());
        assert_eq!(probe.send("m.room.message", "tx", &message("y")), first);
        assert_eq!(
            probe.complaints(),
            ["the transaction tx has another content"]
        );
        assert_eq!(probe.state.sent.len(), 1);
        // Another device has its own transactions.
        let mut people = probe.by_ann();
        assert_ne!(people.send("m.room.message", "tx", &message("x")), first);
        assert_eq!(people.state.sent.len(), 1);
    }

    #[test]
    fn edits_and_redactions_change_what_is_seen() {
        let mut probe = Probe::new();
        let sent = probe.send("m.room.message", "1", &message("old"));
        let edit = |target: &str| {
            json!({
                "msgtype": "m.text", "body": "* new", "m.new_content": message("new"),
                "m.relates_to": {"rel_type": "m.replace", "event_id": target},
            })
        };
        probe.send("m.room.message", "2", &edit(&sent));
        let seen = &probe.state.sent[0];
        assert_eq!(
            (seen.text.as_str(), seen.history.as_slice()),
            ("new", &["old".to_owned()][..])
        );
        probe.send("m.room.message", "3", &edit("$unknown"));
        assert_eq!(probe.complaints(), ["send: an edit of an unknown message"]);
        probe.call("PUT", &format!("rooms/{ROOM}/redact/{sent}/4"), &json!({}));
        assert!(probe.state.sent[0].is_redacted);
        let event = probe.get(&format!("rooms/{ROOM}/event/{sent}"));
        assert_eq!(
            (&event["content"], &event["room_id"]),
            (&json!({}), &json!(ROOM))
        );
        let other = probe.state.push(Incoming::to(ROOM, &ann(), "x")).event_id;
        let path = format!("rooms/{ROOM}/redact/{other}/5");
        assert_eq!(probe.code("PUT", &path, &json!({})), "M_FORBIDDEN");
        probe.state.set_power(ROOM, 50);
        assert_eq!(probe.code("PUT", &path, &json!({})), "");
    }

    #[test]
    fn relations_of_messages_are_read() {
        let mut probe = Probe::new();
        let root = probe.state.push(Incoming::to(ROOM, &ann(), "x")).event_id;
        let reply = json!({"event_id": root});
        let table = [
            (json!({"m.in_reply_to": reply}), None, Some(&root)),
            (
                json!({"rel_type": "m.thread", "event_id": root, "is_falling_back": true,
                    "m.in_reply_to": reply}),
                Some(&root),
                None,
            ),
            (
                json!({"rel_type": "m.thread", "event_id": root, "m.in_reply_to": reply}),
                Some(&root),
                Some(&root),
            ),
        ];
        for (number, (relation, thread, reply)) in table.into_iter().enumerate() {
            let mut content = message("x");
            content["m.relates_to"] = relation;
            probe.send("m.room.message", &number.to_string(), &content);
            let sent = probe.state.sent.last().unwrap();
            assert_eq!(
                (sent.thread.as_ref(), sent.reply_to.as_ref()),
                (thread, reply)
            );
        }
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn odd_contents_are_recorded() {
        let mut probe = Probe::new();
        let with = |key: &str, value: Value| {
            let mut content = message("x");
            content[key] = value;
            content
        };
        let relation = |relation: Value| with("m.relates_to", relation);
        let table = [
            with("msgtype", json!("m.odd")),
            with("body", json!(5)),
            with("msgtype", json!("m.file")),
            with("format", json!("org.matrix.custom.html")),
            with("m.new_content", message("y")),
            relation(json!("thread")),
            relation(json!({"rel_type": "m.odd", "event_id": "$x"})),
            relation(json!({"rel_type": "m.thread"})),
            relation(json!({"event_id": "$x"})),
            relation(json!({"m.in_reply_to": {}})),
        ];
        for (number, content) in table.iter().enumerate() {
            probe.send("m.room.message", &number.to_string(), content);
            assert_eq!(probe.complaints().len(), 1, "{content}");
        }
        for kind in ["m.reaction", "m.room.encrypted"] {
            probe.send(kind, "1", &message("x"));
            assert_eq!(probe.complaints().len(), 1, "{kind}");
        }
        let path = format!("rooms/{ROOM}/send/m.room.message/large");
        let large = message(&"x".repeat(EVENT_LIMIT));
        let (status, body) = probe.request("PUT", &path, &large);
        assert_eq!((status, &body["errcode"]), (413, &json!("M_TOO_LARGE")));
        for number in [json!(1.5), json!(1_u64 << 60)] {
            assert_eq!(probe.code("PUT", &path, &with("x", number)), "M_BAD_JSON");
        }
        assert_eq!(probe.complaints().len(), 3);
    }

    #[test]
    fn clear_messages_in_encrypted_rooms_are_recorded() {
        let mut probe = Probe::new();
        let secret = json!({
            "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "y",
            "sender_key": "z", "device_id": crate::BOT_DEVICE,
        });
        probe.state.encrypt(ROOM);
        let sent = probe.send("m.room.encrypted", "1", &secret);
        let mut other = secret.clone();
        other["ciphertext"] = json!("encrypted again");
        assert_eq!(probe.send("m.room.encrypted", "1", &other), sent);
        let reaction = json!({"m.relates_to": {
            "rel_type": "m.annotation", "event_id": sent, "key": "x",
        }});
        probe.send("m.reaction", "2", &reaction);
        assert_eq!(probe.complaints(), Vec::<String>::new());
        probe.send("m.room.message", "3", &message("x"));
        assert_eq!(
            probe.complaints(),
            ["send: a clear m.room.message in an encrypted room"]
        );
    }

    #[test]
    fn only_members_send() {
        let mut probe = Probe::new();
        probe
            .state
            .set_membership(ROOM, &ann().user_id, BOT_ID, "ban");
        for room in [ROOM, "!nowhere:fake.test"] {
            let path = format!("rooms/{room}/send/m.room.message/1");
            assert_eq!(probe.code("PUT", &path, &message("x")), "M_FORBIDDEN");
        }
        assert_eq!(
            probe.code("POST", &format!("join/{ROOM}"), &json!({})),
            "M_FORBIDDEN"
        );
        let unknown = probe.code("POST", "join/!nowhere:fake.test", &json!({}));
        assert_eq!(unknown, "M_NOT_FOUND");
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }
}
