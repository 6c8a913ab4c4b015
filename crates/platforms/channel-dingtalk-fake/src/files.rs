//! Files in both directions.

use nanobot_testkit::http::Response;
use serde_json::json;

use crate::account::CLIENT_ID;
use crate::api::{ApiError, ApiResult};
use crate::handler::Outcome;
use crate::model::{Address, Resource};
use crate::params::Params;
use crate::state::DingTalkState;

/// Validity of the address of a file, in milliseconds.
const ADDRESS_VALIDITY: i64 = 600_000;
/// Documented types of files.
const LISTED: &[&str] = &[
    "doc", "docx", "xls", "xlsx", "ppt", "pptx", "zip", "pdf", "rar",
];
/// Types of files that are refused.
const REFUSED: &[&str] = &["htm", "html"];

impl DingTalkState {
    /// Exchanges the code of a file for a temporary address.
    pub(crate) fn locate_file(&mut self, params: &Params) -> ApiResult {
        if params.text("robotCode") != CLIENT_ID {
            return Err(ApiError::new("robotCode.notExist"));
        }
        let code = params.text("downloadCode");
        if !self.files.contains_key(code) {
            return Err(ApiError::new("downloadCode.invalid"));
        }
        let (id, expires) = (self.next_id("res"), self.now() + ADDRESS_VALIDITY);
        let address = Address {
            target: code.to_owned(),
            expires,
        };
        self.addresses.insert(id.clone(), address);
        let query = format!("Expires={}&Signature={id}", expires / 1000);
        Ok(json!({"downloadUrl": format!("{}/resources/{id}?{query}", self.oapi)}))
    }

    /// Returns a file by its temporary address.
    pub(crate) fn download(&self, params: &Params) -> Result<Outcome, ApiError> {
        let now = self.now();
        let address = self.addresses.get(&params.last);
        let address = address
            .filter(|address| address.expires > now && params.asked("Signature") == params.last);
        let file = address.and_then(|address| self.files.get(&address.target));
        Ok(Outcome::File(match file {
            Some(file) => {
                let mime = file.mime.replace(char::is_control, "");
                Response::bytes(200, &mime, file.bytes.clone())
            }
            None => {
                let page = "<Error><Code>AccessDenied</Code><Message>Request has expired.</Message></Error>";
                Response::bytes(403, "application/xml", page)
            }
        }))
    }

    /// Stores an upload, and returns its media id.
    pub(crate) fn upload(&mut self, params: &Params) -> ApiResult {
        // The type may be a part of the form, too.
        let asked = Some(params.asked("type")).filter(|kind| !kind.is_empty());
        let kind = asked.unwrap_or_else(|| params.text("type")).to_owned();
        let Some(limit) = size_limit(&kind) else {
            return Err(ApiError::because("40004", &kind));
        };
        let Some((name, bytes)) = params.file.clone().filter(|(_, bytes)| !bytes.is_empty()) else {
            return Err(ApiError::new("41005"));
        };
        if name.is_empty() {
            return Err(ApiError::because("40035", "the file has no name"));
        }
        if bytes.len() > limit {
            return Err(ApiError::new("40006"));
        }
        if !self.is_accepted(&kind, &name, &bytes) {
            return Err(ApiError::because("40005", &name));
        }
        let id = self.next_id("@lAL");
        let upload = Resource {
            name,
            kind: kind.clone(),
            mime: String::new(),
            bytes,
        };
        self.uploads.insert(id.clone(), upload);
        Ok(json!({
            "errcode": 0, "errmsg": "ok", "type": kind, "media_id": id, "created_at": self.now(),
        }))
    }

    fn is_accepted(&self, kind: &str, name: &str, bytes: &[u8]) -> bool {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let ending = ending.to_ascii_lowercase();
        let begins = |magic: &[&[u8]]| magic.iter().any(|magic| bytes.starts_with(magic));
        match kind {
            "image" => begins(&[b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM"]),
            "voice" => matches!(ending.as_str(), "amr" | "mp3" | "wav"),
            "video" => ending == "mp4",
            _ if self.only_listed_files => LISTED.contains(&ending.as_str()),
            _ => !REFUSED.contains(&ending.as_str()),
        }
    }
}

/// Returns the maximum size of an upload, in bytes, by its type.
fn size_limit(kind: &str) -> Option<usize> {
    match kind {
        "image" | "video" | "file" => Some(20 << 20),
        "voice" => Some(2 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::incoming::{Incoming, Person};
    use crate::probe::Probe;

    #[test]
    fn uploads_are_checked() {
        let mut probe = Probe::new();
        let png = b"\x89PNG\r\n\x1a\n".as_slice();
        let large = vec![b'x'; (20 << 20) + 1];
        let table: [(&str, &str, &[u8], i64); 9] = [
            ("image", "a.png", png, 0),
            ("image", "a.png", b"text", 40005),
            ("file", "a.txt", b"text", 0),
            ("file", "a.HTML", b"text", 40005),
            ("file", "a.zip", &large, 40006),
            ("file", "a.zip", b"", 41005),
            ("voice", "a.ogg", b"x", 40005),
            ("video", "a.mp4", b"x", 0),
            ("letter", "a.txt", b"x", 40004),
        ];
        for (kind, name, bytes, code) in table {
            assert_eq!(
                probe.upload(kind, name, bytes)["errcode"],
                code,
                "{kind} {name}"
            );
        }
        probe.state.only_listed_files = true;
        assert_eq!(probe.upload("file", "a.txt", b"x")["errcode"], 40005);
        assert_eq!(probe.upload("file", "a.pdf", b"x")["errcode"], 0);
        assert_eq!(probe.state.complaints.len(), 3);
        probe.state.tokens.clear();
        assert_eq!(probe.upload("file", "a.pdf", b"x")["errcode"], 40014);
    }

    #[test]
    fn addresses_of_files_expire() {
        let mut probe = Probe::new();
        let ann = Person::new("ann", "Ann");
        let incoming = Incoming::direct(&ann, "").with_file("a.txt", "text/plain", "words");
        let message = probe.state.push(incoming, false).message_id;
        let code = probe.state.messages[&message].content["downloadCode"].clone();
        let path = "/v1.0/robot/messageFiles/download";
        let body = |robot: &str, code: &serde_json::Value| json!({"robotCode": robot, "downloadCode": code});
        assert_eq!(
            probe.code("POST", path, &body("other", &code)),
            "robotCode.notExist"
        );
        let unknown = json!("unknown");
        assert_eq!(
            probe.code("POST", path, &body(CLIENT_ID, &unknown)),
            "downloadCode.invalid"
        );
        let answer = probe.call("POST", path, &body(CLIENT_ID, &code));
        let address = answer["downloadUrl"].as_str().unwrap();
        assert_eq!(probe.get(address), (200, "words".to_owned()));
        let (bare, _) = address.split_once("Signature=").unwrap();
        assert_eq!(probe.get(&format!("{bare}Signature=x")).0, 403);
        probe.state.advanced = Duration::from_secs(600);
        assert_eq!(probe.get(address).0, 403);
    }
}
