//! Files in pieces: received ones are fetched, sent ones are uploaded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, NOT_FOUND, TOO_LARGE};
use crate::params::Params;
use crate::state::{PIECE_LIMIT, WhatsAppState};

/// Time for which a file is kept after the confirmation of its message, in milliseconds.
const FILE_VALIDITY: i64 = 600_000;
/// Longest `ref` of an upload.
const REF_LIMIT: usize = 64;

impl WhatsAppState {
    /// Returns a piece of a received file.
    pub(crate) fn fetch(&mut self, params: Params<'_>) -> ApiResult {
        let reference = params.text("ref");
        let now = self.now();
        let not_found = |reason| ApiError::because(NOT_FOUND, reason).clumsy();
        let file = self.files.get_mut(reference);
        let file = file.ok_or_else(|| not_found("no such ref"))?;
        let entry = self.journal.entries.get(&file.seq);
        let confirmed = entry.and_then(|entry| entry.confirmed);
        if confirmed.is_some_and(|at| now - at >= FILE_VALIDITY) {
            return Err(not_found("the message was confirmed long ago"));
        }
        let offset = params
            .number("offset")
            .and_then(|at| usize::try_from(at).ok());
        let offset = offset.unwrap_or(usize::MAX);
        let size = file.bytes.len();
        if offset == 0 && file.fetched.is_none() {
            self.link.check()?;
            if size > self.file_limit {
                return Err(ApiError::new(TOO_LARGE));
            }
        }
        let fetched = file.fetched.unwrap_or_default();
        if offset > fetched || (offset >= size && offset > 0) {
            return Err(ApiError::invalid("the offset is not the end of a piece"));
        }
        let end = size.min(offset + self.piece_limit);
        file.fetched = Some(fetched.max(end));
        let piece = file.bytes.slice(offset..end);
        Ok(json!({
            "type": "chunk", "offset": offset, "data": STANDARD.encode(piece), "size": size,
            "last": end == size,
        }))
    }

    /// Adds a piece to an upload.
    pub(crate) fn upload(&mut self, connection: usize, params: Params<'_>) -> ApiResult {
        let reference = params.text("ref");
        if !is_reference(reference) {
            return Err(ApiError::invalid("the ref"));
        }
        let Ok(piece) = STANDARD.decode(params.text("data")) else {
            return Err(ApiError::invalid("data is no base64"));
        };
        if piece.len() > PIECE_LIMIT {
            return Err(ApiError::because(TOO_LARGE, "a piece").clumsy());
        }
        let open = self.connections.get_mut(&connection);
        let open = open.ok_or_else(|| ApiError::new(NOT_FOUND))?;
        let offset = params
            .number("offset")
            .and_then(|at| usize::try_from(at).ok());
        let before = open.uploads.get(reference).map_or(0, Vec::len);
        if offset != Some(0) && offset != Some(before) {
            return Err(ApiError::invalid("the offset is not the end of the upload"));
        }
        let upload = open.uploads.entry(reference.to_owned()).or_default();
        upload.truncate(offset.unwrap_or_default());
        upload.extend(piece);
        let size = upload.len();
        if size > self.file_limit {
            open.uploads.remove(reference);
            return Err(ApiError::new(TOO_LARGE));
        }
        Ok(json!({"type": "uploaded", "ref": reference, "size": size}))
    }

    /// Returns the content of an upload.
    pub(crate) fn uploaded(&self, connection: usize, reference: &str) -> Result<Bytes, ApiError> {
        let open = self.connections.get(&connection);
        let bytes = open.and_then(|open| open.uploads.get(reference)).cloned();
        let bytes = bytes.map(Bytes::from);
        bytes.ok_or_else(|| ApiError::because(NOT_FOUND, "no such upload").clumsy())
    }
}

/// Returns `true` if the text can be the `ref` of an upload.
fn is_reference(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=REF_LIMIT).contains(&text.len()) && text.bytes().all(is_valid)
}

/// Returns the first half of a piece as the last one, for [`Fault::Truncated`](crate::Fault).
pub(crate) fn truncated(mut chunk: Value) -> Value {
    let data = chunk
        .get("data")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let whole = STANDARD.decode(data).unwrap_or_default();
    let half = whole.get(..whole.len() / 2).unwrap_or_default();
    nanobot_testkit::json::set(&mut chunk, "data", STANDARD.encode(half));
    nanobot_testkit::json::set(&mut chunk, "last", true);
    chunk
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fault::Fault;
    use crate::incoming::Incoming;
    use crate::link::Status;
    use crate::probe::{FIRST, Probe, ann};

    /// Pushes a file of ten bytes, and returns its `ref`.
    fn push_file(probe: &mut Probe) -> String {
        let incoming =
            Incoming::direct(&ann(), "look").with_file("a.txt", "text/plain", "0123456789");
        let (_, frame) = probe.push(incoming);
        frame["media"][0]["ref"].as_str().unwrap().to_owned()
    }

    fn fetch(probe: &mut Probe, reference: &str, offset: u64) -> Value {
        probe.call("fetch", &json!({"ref": reference, "offset": offset}))
    }

    #[test]
    fn message_describes_its_files() {
        let mut probe = Probe::new();
        let incoming = Incoming::direct(&ann(), "")
            .with_image("image/png", "picture")
            .with_voice("sound")
            .announced_as(7_000);
        let (_, frame) = probe.push(incoming);
        let expected = json!([
            {"ref": "m1-0", "kind": "image", "mime": "image/png", "name": "", "size": 7},
            {"ref": "m1-1", "kind": "voice", "mime": "audio/ogg; codecs=opus", "name": "",
             "size": 7_000},
        ]);
        assert_eq!(frame["media"], expected);
    }

    #[test]
    fn file_comes_in_pieces() {
        let mut probe = Probe::new();
        probe.state.piece_limit = 4;
        let file = push_file(&mut probe);
        for (offset, piece, is_last) in [(0, "0123", false), (4, "4567", false), (8, "89", true)] {
            let expected = json!({
                "type": "chunk", "requestId": "r1", "offset": offset,
                "data": STANDARD.encode(piece), "size": 10, "last": is_last,
            });
            assert_eq!(fetch(&mut probe, &file, offset), expected);
        }
        assert_eq!(fetch(&mut probe, &file, 4)["type"], "chunk");
        assert_eq!(probe.complaints(), Vec::<String>::new());
        assert_eq!(fetch(&mut probe, &file, 10)["code"], "invalid");
        let file = push_file(&mut probe);
        assert_eq!(fetch(&mut probe, &file, 4)["code"], "invalid");
        assert_eq!(fetch(&mut probe, "m9-0", 0)["code"], "not_found");
        assert_eq!(probe.complaints().len(), 3);
    }

    #[test]
    fn file_of_no_bytes_is_one_piece() {
        let mut probe = Probe::new();
        let (_, frame) = probe.push(Incoming::direct(&ann(), "").with_image("image/png", ""));
        let file = frame["media"][0]["ref"].as_str().unwrap();
        let chunk = fetch(&mut probe, file, 0);
        assert_eq!(
            (&chunk["size"], &chunk["last"], &chunk["data"]),
            (&json!(0), &json!(true), &json!(""))
        );
    }

    #[test]
    fn file_is_kept_for_ten_minutes_after_the_confirmation() {
        let mut probe = Probe::new();
        let file = push_file(&mut probe);
        probe.state.advanced = Duration::from_secs(7_200);
        assert_eq!(fetch(&mut probe, &file, 0)["type"], "chunk");
        probe.call("ack", &json!({"seq": [1]}));
        probe.state.advanced += Duration::from_secs(590);
        assert_eq!(fetch(&mut probe, &file, 0)["type"], "chunk");
        assert_eq!(probe.complaints(), Vec::<String>::new());
        probe.state.advanced += Duration::from_secs(10);
        assert_eq!(fetch(&mut probe, &file, 0)["code"], "not_found");
        assert_eq!(probe.complaints().len(), 1);
    }

    #[test]
    fn download_needs_whatsapp_once() {
        let mut probe = Probe::new();
        let file = push_file(&mut probe);
        probe.state.set_status(Status::Connecting, None, None);
        probe.outs(FIRST);
        assert_eq!(fetch(&mut probe, &file, 0)["code"], "not_connected");
        probe.state.set_status(Status::Connected, None, None);
        probe.outs(FIRST);
        probe.state.file_limit = 9;
        assert_eq!(fetch(&mut probe, &file, 0)["code"], "too_large");
        probe.state.file_limit = 10;
        assert_eq!(fetch(&mut probe, &file, 0)["type"], "chunk");
        probe.state.set_status(Status::Unlinked, None, None);
        probe.outs(FIRST);
        assert_eq!(fetch(&mut probe, &file, 0)["type"], "chunk");
        probe.state.calls.fail_next("fetch", Fault::Truncated);
        let chunk = fetch(&mut probe, &file, 0);
        assert_eq!(
            (&chunk["data"], &chunk["last"]),
            (&json!(STANDARD.encode("01234")), &json!(true))
        );
    }

    #[test]
    fn upload_has_no_gaps() {
        let mut probe = Probe::new();
        assert_eq!(probe.upload("u1", 0, b"01"), "uploaded");
        assert_eq!(probe.upload("u1", 2, b"23"), "uploaded");
        assert_eq!(probe.state.uploaded(FIRST, "u1").unwrap(), "0123");
        assert_eq!(probe.upload("u1", 0, b"again"), "uploaded");
        assert_eq!(probe.complaints(), Vec::<String>::new());
        for (reference, offset) in [("u1", 4), ("u1", 6), ("u2", 1), ("", 0), ("u/2", 0)] {
            assert_eq!(probe.upload(reference, offset, b"x"), "invalid");
        }
        let body = json!({"ref": "u1", "offset": 0, "data": "no base64"});
        assert_eq!(probe.code("upload", &body), "invalid");
        assert_eq!(
            probe.upload("u1", 5, &vec![0; PIECE_LIMIT + 1]),
            "too_large"
        );
        assert_eq!(probe.complaints().len(), 7);
        assert_eq!(probe.state.uploaded(FIRST, "u1").unwrap(), "again");
        probe.state.file_limit = 5;
        assert_eq!(probe.upload("u1", 5, b"!"), "too_large");
        assert_eq!(probe.complaints(), Vec::<String>::new());
        assert!(probe.state.uploaded(FIRST, "u1").is_err());
    }
}
