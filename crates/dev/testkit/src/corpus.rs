//! The fault corpora: rows of JSON with an id, the data to serve or store, and the expected
//! outcome.
//!
//! They are compiled in, so that the tests of any crate can run them as a table. A row keeps its
//! JSON; the accessors here cover the fields that the corpora share. `corpus/README.md` defines the
//! fields.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use crate::TestkitError;
use crate::http::{Response, ResponseStep};

/// Every corpus by name. A new file needs one more entry here.
const FILES: &[(&str, &str)] = &[
    (
        "llm_responses",
        include_str!("../corpus/llm_responses.jsonl"),
    ),
    (
        "prompt_injection",
        include_str!("../corpus/prompt_injection.jsonl"),
    ),
    ("secrets", include_str!("../corpus/secrets.jsonl")),
    ("skills_mcp", include_str!("../corpus/skills_mcp.jsonl")),
    ("ssrf", include_str!("../corpus/ssrf.jsonl")),
    ("stored_data", include_str!("../corpus/stored_data.jsonl")),
    ("tool_files", include_str!("../corpus/tool_files.jsonl")),
];

/// One line of a corpus.
#[derive(Clone, Debug)]
pub struct CorpusRow {
    /// Unique name of the row, which a failing test has to print.
    pub id: String,
    /// The whole row.
    pub json: Value,
}

/// Returns all rows of a corpus in order.
///
/// # Errors
/// Returns [`TestkitError::UnknownCorpus`] if there is no such corpus, or [`TestkitError::Corpus`]
/// if a line is not an object with an id.
pub fn rows(name: &str) -> Result<Vec<CorpusRow>, TestkitError> {
    let (_, text) = FILES
        .iter()
        .find(|(file, _)| *file == name)
        .ok_or_else(|| TestkitError::UnknownCorpus {
            name: name.to_owned(),
        })?;
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let broken = |problem: String| TestkitError::Corpus {
                id: format!("{name}:{}", index + 1),
                problem,
            };
            let json: Value =
                serde_json::from_str(line).map_err(|error| broken(error.to_string()))?;
            let id = json
                .get("id")
                .and_then(Value::as_str)
                .ok_or_else(|| broken("no id".to_owned()))?
                .to_owned();
            Ok(CorpusRow { id, json })
        })
        .collect()
}

impl CorpusRow {
    /// Returns a text field of the row; empty if absent.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.json
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns `expect.outcome`; empty if absent.
    #[must_use]
    pub fn outcome(&self) -> &str {
        self.json
            .pointer("/expect/outcome")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the words of `expect.must`.
    #[must_use]
    pub fn must(&self) -> Vec<&str> {
        let words = self.json.pointer("/expect/must").and_then(Value::as_array);
        words
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Returns the bytes of the file that the row's `segments` describe.
    ///
    /// # Errors
    /// Returns [`TestkitError::Corpus`] if the kind of a segment is unknown.
    pub fn bytes(&self) -> Result<Vec<u8>, TestkitError> {
        let mut file = Vec::new();
        for step in self.steps(self.json.get("segments"))? {
            if let ResponseStep::Bytes(bytes) = step {
                file.extend_from_slice(&bytes);
            }
        }
        Ok(file)
    }

    /// Returns the response that the row's `http` object describes, byte for byte. It ends by
    /// closing the connection.
    ///
    /// # Errors
    /// Returns [`TestkitError::Corpus`] if there is no status or the kind of a segment is unknown.
    pub fn response(&self) -> Result<Response, TestkitError> {
        let http = self.json.get("http").unwrap_or(&Value::Null);
        let status = http
            .get("status")
            .and_then(Value::as_u64)
            .and_then(|status| u16::try_from(status).ok());
        let status = status.ok_or_else(|| self.broken("no http.status"))?;
        let headers = http
            .get("headers")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let headers = headers
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        Ok(Response::until_close(
            status,
            headers,
            self.steps(http.get("segments"))?,
        ))
    }

    fn steps(&self, segments: Option<&Value>) -> Result<Vec<ResponseStep>, TestkitError> {
        let segments = segments
            .and_then(Value::as_array)
            .ok_or_else(|| self.broken("no segments"))?;
        let mut steps = Vec::new();
        for segment in segments {
            self.segment(segment, &mut steps)?;
        }
        Ok(steps)
    }

    fn segment(&self, segment: &Value, steps: &mut Vec<ResponseStep>) -> Result<(), TestkitError> {
        if let Some(milliseconds) = segment.get("wait_ms").and_then(Value::as_u64) {
            steps.push(ResponseStep::Wait(Duration::from_millis(milliseconds)));
            return Ok(());
        }
        match segment.get("close").and_then(Value::as_str) {
            Some("fin") => steps.push(ResponseStep::Fin),
            Some("rst") => steps.push(ResponseStep::Reset),
            Some(other) => return Err(self.broken(&format!("unknown close {other:?}"))),
            None => {
                let bytes = self.segment_bytes(segment)?;
                let number = |key| segment.get(key).and_then(Value::as_u64);
                let pause = number("drip").map(Duration::from_millis);
                let piece = number("split_every")
                    .or(pause.map(|_| 1))
                    .and_then(|size| usize::try_from(size).ok());
                let Some(piece) = piece.filter(|size| *size > 0) else {
                    steps.push(ResponseStep::Bytes(bytes));
                    return Ok(());
                };
                for part in bytes.chunks(piece) {
                    steps.push(ResponseStep::Bytes(Bytes::copy_from_slice(part)));
                    steps.extend(pause.map(ResponseStep::Wait));
                }
            }
        }
        Ok(())
    }

    fn segment_bytes(&self, segment: &Value) -> Result<Bytes, TestkitError> {
        if let Some(text) = segment.get("t").and_then(Value::as_str) {
            return Ok(Bytes::from(text.to_owned()));
        }
        if let Some(text) = segment.get("b64").and_then(Value::as_str) {
            return STANDARD
                .decode(text)
                .map(Bytes::from)
                .map_err(|error| self.broken(&error.to_string()));
        }
        if let Some([Value::String(text), times]) = segment
            .get("rep")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            let times = times.as_u64().and_then(|times| usize::try_from(times).ok());
            let times = times.ok_or_else(|| self.broken("rep without a count"))?;
            return Ok(Bytes::from(text.repeat(times)));
        }
        if let Some(inner) = segment.get("gzip_of") {
            let plain = match inner {
                Value::String(text) => Bytes::from(text.clone()),
                other => self.segment_bytes(other)?,
            };
            return Ok(gzip(&plain));
        }
        Err(self.broken(&format!("unknown segment {segment}")))
    }

    fn broken(&self, problem: &str) -> TestkitError {
        TestkitError::Corpus {
            id: self.id.clone(),
            problem: problem.to_owned(),
        }
    }
}

/// Returns a gzip member (RFC 1952) of stored blocks, which every decoder accepts and which needs
/// no compressor.
fn gzip(plain: &[u8]) -> Bytes {
    const STORED_LIMIT: usize = 0xffff;
    let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let blocks: Vec<&[u8]> = if plain.is_empty() {
        vec![plain]
    } else {
        plain.chunks(STORED_LIMIT).collect()
    };
    for (index, block) in blocks.iter().enumerate() {
        member.push(u8::from(index + 1 == blocks.len()));
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        member.extend_from_slice(&length.to_le_bytes());
        member.extend_from_slice(&(!length).to_le_bytes());
        member.extend_from_slice(block);
    }
    member.extend_from_slice(&crc32(plain).to_le_bytes());
    let length = u32::try_from(plain.len() & 0xffff_ffff).unwrap_or_default();
    member.extend_from_slice(&length.to_le_bytes());
    Bytes::from(member)
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |mut crc: u32, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(segment: &Value) -> CorpusRow {
        CorpusRow {
            id: "x".to_owned(),
            json: json!({"http": {"status": 200, "segments": [segment]}}),
        }
    }

    #[test]
    fn crc32_matches_the_reference_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn segments_become_pieces_and_pauses() {
        let text = |text: &str| ResponseStep::text(text);
        let pause = ResponseStep::Wait(Duration::from_millis(5));
        let table = [
            (
                json!({"t": "abc", "split_every": 2}),
                vec![text("ab"), text("c")],
            ),
            (
                json!({"t": "ab", "drip": 5}),
                vec![text("a"), pause.clone(), text("b"), pause],
            ),
            (json!({"rep": ["xy", 2]}), vec![text("xyxy")]),
            (json!({"close": "rst"}), vec![ResponseStep::Reset]),
        ];
        for (segment, steps) in table {
            assert_eq!(row(&segment).response().unwrap().steps, steps, "{segment}");
        }
    }

    #[test]
    fn unknown_segments_are_refused() {
        for segment in [
            json!({"u": 1}),
            json!({"close": "door"}),
            json!({"b64": "?"}),
        ] {
            assert!(row(&segment).response().is_err(), "{segment}");
        }
    }
}
