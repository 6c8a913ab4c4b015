//! Files in both directions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nanobot_testkit::http::Response;
use serde_json::{Value, json};

use crate::account::APP_ID;
use crate::api::ApiError;
use crate::content::is_picture;
use crate::handler::Outcome;
use crate::model::{ChatKind, SentFile, SentMessage, Upload};
use crate::params::Params;
use crate::state::QqState;

/// Validity of an upload, in seconds.
const UPLOAD_VALIDITY: i64 = 3600;

impl QqState {
    /// Stores an upload, and returns its `file_info`.
    pub(crate) fn upload(&mut self, kind: ChatKind, params: &Params) -> Result<Outcome, ApiError> {
        self.check_chat(kind, &params.target)?;
        let Some(file_kind) = kind_of(params.number("file_type").unwrap_or_default()) else {
            return Err(ApiError::malformed("file_type"));
        };
        if file_kind == "file" && kind == ChatKind::Group && self.rules.refuses_group_files {
            return Err(ApiError::because(40_034_004, "file_type"));
        }
        let (url, data) = (params.text("url"), params.text("file_data"));
        if url.is_empty() == data.is_empty() {
            return Err(ApiError::malformed("either url or file_data"));
        }
        let Ok(bytes) = STANDARD.decode(data) else {
            return Err(ApiError::malformed("file_data is no Base64"));
        };
        if bytes.len() > self.rules.upload_limit {
            let page = "<html><h1>413 Request Entity Too Large</h1></html>";
            return Ok(Outcome::Whole(Response::bytes(413, "text/html", page)));
        }
        if url.is_empty() && !is_of_kind(file_kind, &bytes) {
            return Err(ApiError::because(40_034_004, file_kind));
        }
        let name = Some(params.text("file_name")).filter(|name| !name.is_empty());
        let file = SentFile {
            name: name.unwrap_or(file_kind).to_owned(),
            kind: file_kind.to_owned(),
            url: url.to_owned(),
            bytes: Bytes::from(bytes),
        };
        if params.flag("srv_send_msg") {
            self.use_quota(kind, &params.target)?;
            self.send_file(kind, params, file.clone());
        }
        let (info, uuid) = (self.next_id("TESTinfo"), self.next_id("TESTuuid"));
        let upload = Upload {
            kind,
            file,
            expires: self.now() + UPLOAD_VALIDITY * 1000,
        };
        self.uploads.insert(info.clone(), upload);
        let answer = json!({"file_uuid": uuid, "file_info": info, "ttl": UPLOAD_VALIDITY});
        Ok(Outcome::Json(answer))
    }

    /// Sends an upload at once (`srv_send_msg`).
    fn send_file(&mut self, kind: ChatKind, params: &Params, file: SentFile) {
        let sent = SentMessage {
            id: self.message_id(kind),
            chat_id: params.target.clone(),
            chat_kind: kind,
            msg_type: 7,
            text: String::new(),
            msg_id: None,
            msg_seq: 1,
            content: Value::Object(params.body.clone()),
            files: vec![file],
        };
        self.sent.push(sent);
    }

    /// Returns the file of a message. Uploads for users are of no use for groups, and the other
    /// way round.
    pub(crate) fn uploaded(&self, kind: ChatKind, params: &Params) -> Result<SentFile, ApiError> {
        let media = params.object("media");
        let info = media.and_then(|media| media.get("file_info")?.as_str());
        let upload = info.and_then(|info| self.uploads.get(info));
        let now = self.now();
        let upload = upload.filter(|upload| upload.kind == kind && upload.expires > now);
        let file = upload.map(|upload| upload.file.clone());
        file.ok_or_else(|| ApiError::new(304_080))
    }

    /// Returns the attachment of a person by its temporary address.
    pub(crate) fn download(&self, params: &Params) -> Response {
        let now = self.now();
        let file = self.files.get(params.asked("fileid"));
        let file = file.filter(|file| file.expires > now && params.asked("appid") == APP_ID);
        let file = file.filter(|_| params.asked("rkey") == params.asked("fileid"));
        match file {
            Some(file) => {
                let mime = file.mime.replace(char::is_control, "");
                Response::bytes(200, &mime, file.bytes.clone())
            }
            None => {
                let body = json!({"retcode": -5_503_007, "retmsg": "download url has expired"});
                Response::json(400, &body)
            }
        }
    }
}

/// Returns the kind of a file by its `file_type`.
fn kind_of(file_type: i64) -> Option<&'static str> {
    match file_type {
        1 => Some("image"),
        2 => Some("video"),
        3 => Some("voice"),
        4 => Some("file"),
        _ => None,
    }
}

/// Returns `true` if a content has one of the formats that QQ takes for a kind.
fn is_of_kind(kind: &str, bytes: &[u8]) -> bool {
    let begins = |formats: &[&[u8]]| formats.iter().any(|magic| bytes.starts_with(magic));
    match kind {
        "image" => is_picture(bytes),
        "video" => bytes.get(4..8) == Some(b"ftyp"),
        // Tencent's SILK files begin with a byte of their own.
        "voice" => begins(&[b"\x02#!SILK_V3", b"#!SILK_V3", b"RIFF", b"ID3", b"\xff\xfb"]),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{GROUP, PNG, Probe, ann};

    #[test]
    fn uploads_are_checked() {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_chat(ChatKind::Group, GROUP);
        probe.state.rules.upload_limit = 100;
        let table: [(i64, &[u8], i64); 8] = [
            (1, PNG, 0),
            (1, b"GIF89a", 40_034_004),
            (2, b"\0\0\0\x18ftypmp42", 0),
            (2, b"text", 40_034_004),
            (3, b"\x02#!SILK_V3", 0),
            (4, b"text", 0),
            (5, b"text", 11_255),
            (4, b"", 11_255),
        ];
        for (file_type, bytes, code) in table {
            let answer = probe.upload("users", &ann().openid, file_type, bytes);
            assert_eq!(answer["code"].as_i64().unwrap_or(0), code, "{file_type}");
        }
        assert_eq!(probe.upload("groups", GROUP, 4, b"text")["ttl"], 3600);
        probe.state.rules.refuses_group_files = true;
        assert_eq!(
            probe.upload("groups", GROUP, 4, b"text")["code"],
            40_034_004
        );
        assert_eq!(
            probe.upload("groups", "NOWHERE", 4, b"text")["code"],
            40_034_101
        );
        assert_eq!(
            probe.upload("users", &ann().openid, 4, &[0; 101]),
            Value::Null
        );
        assert_eq!(probe.state.complaints.len(), 2);
    }

    #[test]
    fn uploads_expire_and_belong_to_a_kind_of_chat() {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_chat(ChatKind::Group, GROUP);
        let info = probe.upload("users", &ann().openid, 4, b"text")["file_info"].clone();
        let body = json!({"msg_type": 7, "content": " ", "media": {"file_info": info}});
        assert_eq!(probe.send("groups", GROUP, &body), 304_080);
        assert_eq!(probe.send("users", &ann().openid, &body), 0);
        probe.state.advanced = Duration::from_secs(3600);
        assert_eq!(probe.send("users", &ann().openid, &body), 304_080);
    }

    #[test]
    fn upload_can_be_sent_at_once() {
        let mut probe = Probe::new();
        probe.state.add_chat(ChatKind::Group, GROUP);
        let path = format!("/v2/groups/{GROUP}/files");
        let body = json!({"file_type": 1, "url": "https://a.example/b.png", "srv_send_msg": true});
        assert_eq!(probe.code("POST", &path, &body), 0);
        let [sent] = probe.state.sent.as_slice() else {
            panic!("not sent");
        };
        assert_eq!(sent.files[0].url, "https://a.example/b.png");
        assert_eq!((sent.msg_type, sent.msg_id.is_none()), (7, true));
    }

    #[test]
    fn addresses_of_attachments_expire() {
        let mut probe = Probe::new();
        probe.connect(0);
        let incoming = Incoming::direct(&ann(), "").with_file("a.txt", "file", "words");
        probe.state.push(incoming, true);
        let event = probe.events(0).remove(0);
        let url = event["d"]["attachments"][0]["url"]
            .as_str()
            .unwrap()
            .to_owned();
        let target = url.strip_prefix(&probe.state.base).unwrap();
        assert_eq!(probe.get(target), (200, "words".to_owned()));
        assert_eq!(probe.get(&target.replace("rkey=", "rkey=x")).0, 400);
        probe.state.advanced = Duration::from_secs(86_401);
        assert_eq!(probe.get(target).0, 400);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }
}
