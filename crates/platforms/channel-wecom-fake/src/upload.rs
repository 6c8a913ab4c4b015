//! Uploads in chunks.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::api::{
    ApiError, ApiResult, INVALID_FILE_TYPE, INVALID_MEDIA_ID, INVALID_MEDIA_TYPE, INVALID_SIZE,
};
use crate::crypto::md5_hex;
use crate::model::{Media, SentFile, Upload};
use crate::params::Params;
use crate::state::WeComState;

/// Largest chunk in bytes, before its encoding.
const CHUNK: usize = 512 << 10;
/// Largest number of chunks.
const CHUNKS: usize = 100;
/// Smallest file, in bytes.
const SMALLEST: usize = 5;
/// Longest name of a file, in bytes.
const NAME_LIMIT: usize = 256;
/// Time for all chunks of an upload, in milliseconds.
const UPLOAD_WINDOW: i64 = 1_800_000;
/// Validity of a media id, in milliseconds.
const MEDIA_VALIDITY: i64 = 259_200_000;

impl WeComState {
    /// Begins an upload, and returns its id.
    pub(crate) fn begin_upload(&mut self, params: Params<'_>) -> ApiResult {
        let kind = params.text("type");
        let Some(limit) = size_limit(kind) else {
            return Err(ApiError::because(INVALID_MEDIA_TYPE, kind));
        };
        let (name, md5) = (params.text("filename"), params.text("md5"));
        if name.is_empty() || name.len() > NAME_LIMIT {
            return Err(ApiError::parameter("filename"));
        }
        let (size, chunks) = (params.number("total_size"), params.number("total_chunks"));
        let (size, chunks) = (size.unwrap_or_default(), chunks.unwrap_or_default());
        if !(SMALLEST..=limit).contains(&size) {
            return Err(ApiError::because(INVALID_SIZE, kind));
        }
        if !(1..=CHUNKS).contains(&chunks) || size > chunks * CHUNK {
            return Err(ApiError::parameter("total_chunks"));
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !md5.is_empty() && (md5.len() != 32 || !md5.bytes().all(is_digit)) {
            return Err(ApiError::parameter("md5"));
        }
        let id = self.next_id("TESTupload_");
        let upload = Upload {
            kind: kind.to_owned(),
            name: name.to_owned(),
            size,
            chunks,
            md5: Some(md5.to_owned()).filter(|md5| !md5.is_empty()),
            parts: BTreeMap::new(),
            expires: self.now() + UPLOAD_WINDOW,
        };
        self.uploads.insert(id.clone(), upload);
        Ok(json!({"upload_id": id}))
    }

    fn upload(&mut self, params: Params<'_>) -> Result<&mut Upload, ApiError> {
        let now = self.now();
        let upload = self.uploads.get_mut(params.text("upload_id"));
        let Some(upload) = upload else {
            return Err(ApiError::parameter("upload_id"));
        };
        if upload.expires <= now {
            return Err(ApiError::because(INVALID_MEDIA_ID, "the upload is expired"));
        }
        Ok(upload)
    }

    /// Adds a chunk, in any order. A repeated chunk is ignored.
    pub(crate) fn add_chunk(&mut self, params: Params<'_>) -> ApiResult {
        let Ok(bytes) = STANDARD.decode(params.text("base64_data")) else {
            return Err(ApiError::parameter("base64_data"));
        };
        if bytes.is_empty() || bytes.len() > CHUNK {
            return Err(ApiError::parameter("size of base64_data"));
        }
        let index = params.number("chunk_index").unwrap_or(usize::MAX);
        let upload = self.upload(params)?;
        if index >= upload.chunks {
            return Err(ApiError::parameter("chunk_index"));
        }
        let bytes = Bytes::from(bytes);
        upload.parts.entry(index).or_insert(bytes);
        Ok(Value::Null)
    }

    /// Ends an upload, and returns its media id.
    pub(crate) fn finish_upload(&mut self, params: Params<'_>) -> ApiResult {
        let upload = self.upload(params)?.clone();
        if upload.parts.len() != upload.chunks {
            return Err(ApiError::parameter("a chunk is missing"));
        }
        let parts: Vec<Bytes> = upload.parts.into_values().collect();
        let bytes = parts.concat();
        if bytes.len() != upload.size {
            return Err(ApiError::because(INVALID_SIZE, "not as announced"));
        }
        if upload.md5.is_some_and(|md5| md5 != md5_hex(&bytes)) {
            return Err(ApiError::parameter("md5"));
        }
        if !is_accepted(&upload.kind, &upload.name, &bytes) {
            return Err(ApiError::because(INVALID_FILE_TYPE, &upload.name));
        }
        self.uploads.remove(params.text("upload_id"));
        let id = self.next_id("TESTmedia_");
        let now = self.now();
        let file = SentFile {
            name: upload.name,
            kind: upload.kind.clone(),
            bytes: Bytes::from(bytes),
        };
        let expires = now + MEDIA_VALIDITY;
        self.media_files.insert(id.clone(), Media { file, expires });
        Ok(json!({"type": upload.kind, "media_id": id, "created_at": now / 1000}))
    }
}

/// Returns the maximum size of an upload, in bytes, by its type.
fn size_limit(kind: &str) -> Option<usize> {
    match kind {
        "image" | "video" => Some(10 << 20),
        "voice" => Some(2 << 20),
        "file" => Some(20 << 20),
        _ => None,
    }
}

fn is_accepted(kind: &str, name: &str, bytes: &[u8]) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let ending = ending.to_ascii_lowercase();
    let begins = |magic: &[&[u8]]| magic.iter().any(|magic| bytes.starts_with(magic));
    match kind {
        "image" => begins(&[b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8"]),
        "voice" => ending == "amr",
        "video" => ending == "mp4",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::INVALID_PARAMETER;
    use crate::probe::Probe;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn send(probe: &mut Probe, kind: &str, media: &Value) -> i64 {
        let body = json!({"chatid": "ann", "msgtype": kind, kind: {"media_id": media}});
        probe.code("aibot_send_msg", "a", &body)
    }

    #[test]
    fn uploads_are_checked() {
        let mut probe = Probe::new();
        let large = vec![b'x'; (2 << 20) + 1];
        let table: [(&str, &str, &[u8], i64, usize); 9] = [
            ("image", "a.png", PNG, 0, 0),
            ("image", "a.png", b"text.", INVALID_FILE_TYPE, 0),
            ("file", "a.txt", b"words", 0, 0),
            ("file", "a.txt", b"few", INVALID_SIZE, 1),
            ("voice", "a.amr", &large, INVALID_SIZE, 1),
            ("voice", "a.mp3", b"sound", INVALID_FILE_TYPE, 0),
            ("video", "a.mp4", b"moves", 0, 0),
            ("letter", "a.txt", b"words", INVALID_MEDIA_TYPE, 1),
            ("file", "", b"words", INVALID_PARAMETER, 1),
        ];
        for (kind, name, bytes, code, complaints) in table {
            let answer = probe.upload(kind, name, bytes, CHUNK);
            assert_eq!(answer["errcode"], code, "{kind} {name}");
            assert_eq!(probe.complaints().len(), complaints, "{kind} {name}");
        }
        assert_eq!(
            probe.upload("file", "a", &large, CHUNK + 1)["errcode"],
            INVALID_PARAMETER
        );
        assert_eq!(
            probe.upload("file", "a", &large, 1000)["errcode"],
            INVALID_PARAMETER
        );
    }

    #[test]
    fn chunks_come_in_any_order_and_complete() {
        let mut probe = Probe::new();
        probe.hear("hello");
        let bytes: Vec<u8> = (0..=255).cycle().take(CHUNK * 2 + 7).collect();
        let answer = probe.upload("file", "a.bin", &bytes, CHUNK);
        assert_eq!(send(&mut probe, "file", &answer["body"]["media_id"]), 0);
        let file = &probe.state.sent[0].files[0];
        assert_eq!(
            (file.name.as_str(), file.bytes.as_ref()),
            ("a.bin", bytes.as_slice())
        );

        let init = json!({"type": "file", "filename": "a", "total_size": 6, "total_chunks": 2,
                          "md5": md5_hex(b"abcdef")});
        let answer = probe.call("aibot_upload_media_init", "a", &init);
        let id = &answer["body"]["upload_id"];
        let chunk = |index: usize, data: &str| {
            let data = STANDARD.encode(data);
            json!({"upload_id": id, "chunk_index": index, "base64_data": data})
        };
        let finish = json!({"upload_id": id});
        let (add, end) = ("aibot_upload_media_chunk", "aibot_upload_media_finish");
        assert_eq!(probe.code(add, "a", &chunk(0, "abc")), 0);
        assert_eq!(probe.code(add, "a", &chunk(0, "xyz")), 0);
        assert_eq!(probe.code(add, "a", &chunk(2, "def")), INVALID_PARAMETER);
        assert_eq!(probe.code(end, "a", &finish), INVALID_PARAMETER);
        assert_eq!(probe.code(add, "a", &chunk(1, "deg")), 0);
        assert_eq!(probe.code(end, "a", &finish), INVALID_PARAMETER);
        probe.state.advanced = Duration::from_secs(1800);
        assert_eq!(probe.code(end, "a", &finish), INVALID_MEDIA_ID);
        assert_eq!(probe.complaints().len(), 3);
    }

    #[test]
    fn media_ids_expire_and_have_a_type() {
        let mut probe = Probe::new();
        probe.hear("hello");
        let media = probe.upload("image", "a.png", PNG, CHUNK)["body"]["media_id"].clone();
        assert_eq!(send(&mut probe, "image", &media), 0);
        assert_eq!(
            send(&mut probe, "image", &json!("unknown")),
            INVALID_MEDIA_ID
        );
        assert_eq!(probe.complaints().len(), 0);
        assert_eq!(send(&mut probe, "file", &media), INVALID_MEDIA_ID);
        assert_eq!(probe.complaints().len(), 1);
        probe.state.advanced = Duration::from_secs(259_200);
        assert_eq!(send(&mut probe, "image", &media), INVALID_MEDIA_ID);
    }
}
