//! Files of people: encrypted, at temporary addresses.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use nanobot_testkit::json::set;
use serde_json::Value;
use tokio::time::Instant;
use url::form_urlencoded;

use crate::crypto;
use crate::incoming::IncomingFile;
use crate::model::{Address, EncryptedFile};
use crate::state::{Call, WeComState};

/// Validity of the address of a file, in milliseconds.
const ADDRESS_VALIDITY: i64 = 300_000;
/// Beginning of the path of every file.
const PATH: &str = "/BHoPdA3/";

pub(crate) async fn handle(state: Watched<WeComState>, request: Request) -> Response {
    state.change(|state| state.serve(&request))
}

impl WeComState {
    /// Encrypts a file, and adds its number and its key to the content of a message.
    pub(crate) fn add_file(&mut self, content: &mut Value, file: IncomingFile) {
        let number = self.next();
        let key = crypto::key(number);
        let id = format!("75716652969{number:08}");
        if let Some(place) = content.pointer_mut(&file.place) {
            set(place, "url", id.as_str());
            set(place, "aeskey", crypto::encoded(&key));
        }
        let encrypted = EncryptedFile {
            name: file.name,
            bytes: crypto::encrypt(&key, &file.bytes),
        };
        self.files.insert(id, encrypted);
    }

    /// Replaces the number of each file in a content by a new address.
    pub(crate) fn with_addresses(&mut self, content: &Value) -> Value {
        match content {
            Value::Object(members) => {
                let members = members.iter();
                let located = members.map(|(name, value)| match value.as_str() {
                    Some(id) if name == "url" && self.files.contains_key(id) => {
                        (name.clone(), Value::String(self.locate(id)))
                    }
                    _ => (name.clone(), self.with_addresses(value)),
                });
                Value::Object(located.collect())
            }
            Value::Array(items) => {
                let located = items.iter().map(|item| self.with_addresses(item));
                Value::Array(located.collect())
            }
            other => other.clone(),
        }
    }

    fn locate(&mut self, file: &str) -> String {
        let signature = self.next_id("q-sign-algorithm=sha1&q-signature=");
        let address = Address {
            file: file.to_owned(),
            expires: self.now() + ADDRESS_VALIDITY,
        };
        self.addresses.insert(signature.clone(), address);
        let sign: String = form_urlencoded::byte_serialize(signature.as_bytes()).collect();
        format!("{}{PATH}{file}?sign={sign}", self.media)
    }

    /// Answers a request for a file.
    pub(crate) fn serve(&mut self, request: &Request) -> Response {
        let path = request.decoded_path();
        let file = path.strip_prefix(PATH).filter(|_| request.method == "GET");
        let Some(file) = file else {
            self.complain(format!("{} {path}: unknown request", request.method));
            return Response::bytes(404, "text/plain", "not found");
        };
        let fault = self.calls.note(Call {
            method: "file.get".to_owned(),
            req_id: request.target.clone(),
            body: Value::Null,
            connection: 0,
            at: Instant::now(),
        });
        let response = self.download(file, request);
        match fault {
            Some(fault) => fault.of_download(response),
            None => response,
        }
    }

    fn download(&self, file: &str, request: &Request) -> Response {
        let (query, now) = (request.query(), self.now());
        let sign = query.iter().find(|(name, _)| name == "sign");
        let address = sign.and_then(|(_, sign)| self.addresses.get(sign));
        let address = address.filter(|address| address.file == file && address.expires > now);
        let Some(file) = address.and_then(|address| self.files.get(&address.file)) else {
            let page =
                "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
            return Response::bytes(403, "application/xml", page);
        };
        Response::bytes(200, "application/octet-stream", file.bytes.clone())
            .with_header("content-disposition", disposition(&file.name))
    }
}

/// Returns the header that names a file (RFC 6266 with RFC 5987).
fn disposition(name: &str) -> String {
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("attachment; filename=\"{encoded}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::fault::Fault;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ann};

    fn address(probe: &mut Probe, incoming: Incoming, place: &str) -> String {
        let (_, frame) = probe.push(incoming);
        let file = frame["body"].pointer(place).unwrap();
        assert_eq!(file["aeskey"].as_str().unwrap().len(), 43);
        file["url"].as_str().unwrap().to_owned()
    }

    #[test]
    fn every_kind_of_file_has_an_address_and_a_key() {
        let mut probe = Probe::new();
        let hello = || Incoming::direct(&ann(), "hello");
        let table = [
            (hello().with_file("a b.txt", "words"), "/file"),
            (hello().with_image("b.png", "words"), "/image"),
            (hello().with_video("c.mp4", "words"), "/video"),
            (
                hello().with_mixed_image("d.png", "words"),
                "/mixed/msg_item/1/image",
            ),
        ];
        for (incoming, place) in table {
            let address = address(&mut probe, incoming, place);
            let (status, headers, body) = probe.get(&address);
            assert_eq!((status, body.len()), (200, 32), "{address}");
            let name = headers
                .iter()
                .find(|(name, _)| name == "content-disposition");
            assert!(name.unwrap().1.contains("filename*=UTF-8''"), "{headers:?}");
        }
    }

    #[test]
    fn addresses_expire() {
        let mut probe = Probe::new();
        let file = Incoming::direct(&ann(), "").with_file("a.txt", "words");
        let address = address(&mut probe, file, "/file");
        let (bare, _) = address.split_once("?sign=").unwrap();
        assert_eq!(probe.get(&format!("{bare}?sign=x")).0, 403);
        probe.state.advanced = Duration::from_secs(299);
        assert_eq!(probe.get(&address).0, 200);
        probe.state.advanced = Duration::from_secs(300);
        assert_eq!(probe.get(&address).0, 403);
        assert_eq!(probe.get("/elsewhere").0, 404);
        assert_eq!(probe.complaints(), ["GET /elsewhere: unknown request"]);
    }

    #[test]
    fn faults_apply_to_one_download() {
        let mut probe = Probe::new();
        let file = Incoming::direct(&ann(), "").with_file("a.txt", "words");
        let address = address(&mut probe, file, "/file");
        let body = Bytes::from_static(b"other");
        let table = [
            (Fault::Status(500), 500, b"<html>A page</html>".as_slice()),
            (Fault::Body(body), 200, b"other"),
            (Fault::Redirect("http://x/".to_owned()), 302, b""),
            (Fault::Truncated, 200, b""),
            (Fault::Drop, 0, b""),
        ];
        for (fault, status, body) in table {
            probe.state.calls.fail_next("file.get", fault);
            let answer = probe.get(&address);
            assert_eq!((answer.0, answer.2.as_slice()), (status, body));
        }
        assert_eq!(probe.get(&address).2.len(), 32);
    }

    #[test]
    fn names_are_encoded() {
        let expected =
            "attachment; filename=\"%E6%96%87%20%22.txt\"; filename*=UTF-8''%E6%96%87%20%22.txt";
        assert_eq!(disposition("文 \".txt"), expected);
    }
}
