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
        if offset == 0 {
            self.link.check()?;
            if file.bytes.len() > self.file_limit {
                return Err(ApiError::new(TOO_LARGE));
            }
        }
        let size = file.bytes.len();
        if offset > file.fetched || (offset >= size && offset > 0) {
            return Err(ApiError::invalid("the offset is not the end of a piece"));
        }
        let end = size.min(offset + self.piece_limit);
        file.fetched = file.fetched.max(end);
        let piece = file.bytes.slice(offset..end);
        Ok(json!({
            "type": "chunk", "offset": offset, "data": STANDARD.encode(piece), "size": size,
            "last": end == size,
        }))
    }

    /// Adds a piece to an upload.
    pub(crate) fn upload(&mut self, connection: usize, params: Params<'_>) -> ApiResult {
        let reference = params.text("ref");
        if reference.is_empty() || reference.len() > REF_LIMIT {
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
