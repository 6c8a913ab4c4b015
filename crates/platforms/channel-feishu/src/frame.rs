//! The frame of the long connection: one protobuf message (proto2), in the client of Feishu's own
//! SDKs named `pbbp2.Frame`.
//!
//! Decision: the structure of a frame is measured before it is decoded. Two bytes of the wire make
//! a header of fifty bytes in memory, so the headers are counted first.

use prost::Message as _;

/// Most headers of a frame, and most bytes of all of them.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Most fields of a frame, unknown ones included.
const MAX_FIELDS: usize = 256;

/// The field number of a header.
const HEADER_FIELD: u64 = 5;

/// A frame about the connection.
const CONTROL: i32 = 0;
/// A frame with a payload.
const DATA: i32 = 1;

/// A frame, decoded.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Frame {
    #[prost(uint64, required, tag = "1")]
    seq_id: u64,
    #[prost(uint64, required, tag = "2")]
    log_id: u64,
    #[prost(int32, required, tag = "3")]
    service: i32,
    #[prost(int32, required, tag = "4")]
    method: i32,
    #[prost(message, repeated, tag = "5")]
    headers: Vec<FrameHeader>,
    #[prost(string, optional, tag = "6")]
    payload_encoding: Option<String>,
    #[prost(string, optional, tag = "7")]
    payload_type: Option<String>,
    #[prost(bytes = "vec", optional, tag = "8")]
    payload: Option<Vec<u8>>,
    #[prost(string, optional, tag = "9")]
    log_id_new: Option<String>,
}

/// A key and a value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FrameHeader {
    #[prost(string, required, tag = "1")]
    key: String,
    #[prost(string, required, tag = "2")]
    value: String,
}

impl Frame {
    /// Decodes a frame.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if !has_bounded_structure(bytes) {
            return Err("its structure is malformed or too large".to_owned());
        }
        Self::decode(bytes).map_err(|error| error.to_string())
    }

    /// Creates a ping for the service of a connection.
    pub(crate) fn ping(service: i32) -> Self {
        Self {
            service,
            method: CONTROL,
            headers: vec![header("type", "ping")],
            ..Self::default()
        }
    }

    /// Returns the acknowledgement of a frame that was handled within `millis`.
    pub(crate) fn acknowledgement(mut self, millis: u128) -> Self {
        self.headers.push(header("biz_rt", &millis.to_string()));
        self.payload = Some(br#"{"code":200}"#.to_vec());
        self
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// `true` if it is about the connection.
    pub(crate) fn is_control(&self) -> bool {
        self.method == CONTROL
    }

    /// `true` if it has a payload for the app.
    pub(crate) fn is_data(&self) -> bool {
        self.method == DATA
    }

    /// Returns the first value of a header; an empty text without one.
    pub(crate) fn header(&self, key: &str) -> &str {
        let header = self.headers.iter().find(|header| header.key == key);
        header.map_or("", |header| header.value.as_str())
    }

    /// Returns the number in a header; `None` without one.
    pub(crate) fn number(&self, key: &str) -> Option<u32> {
        self.header(key).trim().parse().ok()
    }

    /// Takes the payload out of the frame.
    pub(crate) fn take_payload(&mut self) -> Vec<u8> {
        self.payload.take().unwrap_or_default()
    }
}

fn header(key: &str, value: &str) -> FrameHeader {
    FrameHeader {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

/// Returns `true` if the fields of a frame can be found and are few enough.
fn has_bounded_structure(bytes: &[u8]) -> bool {
    let (mut rest, mut fields, mut headers, mut header_bytes) = (bytes, 0, 0, 0);
    while !rest.is_empty() {
        let Some((number, length, after)) = next_field(rest) else {
            return false;
        };
        fields += 1;
        if number == HEADER_FIELD {
            headers += 1;
            header_bytes += length;
        }
        if fields > MAX_FIELDS || headers > MAX_HEADERS || header_bytes > MAX_HEADER_BYTES {
            return false;
        }
        rest = after;
    }
    true
}

/// Returns the number of the next field, the length of its content, and the rest. `None` for a
/// truncated field, and for groups, which the protocol does not have.
fn next_field(bytes: &[u8]) -> Option<(u64, usize, &[u8])> {
    let (key, rest) = varint(bytes)?;
    let length = match key & 7 {
        0 => {
            let (_, after) = varint(rest)?;
            return Some((key >> 3, rest.len() - after.len(), after));
        }
        1 => 8,
        2 => {
            let (length, after) = varint(rest)?;
            let length = usize::try_from(length).ok()?;
            return Some((key >> 3, length, after.get(length..)?));
        }
        5 => 4,
        _ => return None,
    };
    Some((key >> 3, length, rest.get(length..)?))
}

/// Returns a number of at most ten bytes, and the rest.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index).min(63);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event() -> Frame {
        Frame {
            seq_id: 7,
            log_id: u64::MAX,
            service: 33_554_678,
            method: DATA,
            headers: vec![
                header("type", "event"),
                header("sum", "2"),
                header("seq", "x"),
            ],
            payload: Some(vec![0, 255]),
            log_id_new: Some("2026".to_owned()),
            ..Frame::default()
        }
    }

    #[test]
    fn frame_survives_encoding() {
        let mut frame = Frame::parse(&event().encode()).unwrap();
        assert_eq!(frame, event());
        assert_eq!((frame.header("type"), frame.header("none")), ("event", ""));
        assert_eq!((frame.number("sum"), frame.number("seq")), (Some(2), None));
        assert!(frame.is_data() && !frame.is_control() && Frame::ping(1).is_control());
        assert_eq!(frame.take_payload(), [0, 255]);
        let acknowledged = frame.acknowledgement(12);
        assert_eq!(acknowledged.header("biz_rt"), "12");
        assert_eq!(acknowledged.payload.unwrap(), br#"{"code":200}"#);
    }

    #[test]
    fn bombs_are_refused_before_they_are_decoded() {
        let ping = Frame::ping(1).encode();
        let with = |more: &[u8]| [ping.as_slice(), more].concat();
        let empty_headers = |count: usize| [0x2a, 0x00].repeat(count);
        let large = header("key", &"x".repeat(MAX_HEADER_BYTES)).encode_to_vec();
        let mut large_header = vec![0x2a];
        prost::encoding::encode_varint(large.len() as u64, &mut large_header);
        large_header.extend(large);
        let table = [
            ("as it is", ping.clone(), true),
            ("some headers", with(&empty_headers(60)), true),
            ("an unknown field", with(&[0x78, 0x01]), true),
            ("a million headers", with(&empty_headers(1 << 20)), false),
            ("a huge header", with(&large_header), false),
            (
                "many unknown fields",
                with(&[0x78, 0x01].repeat(1000)),
                false,
            ),
            ("nested groups", with(&[0x7b].repeat(10_000)), false),
            (
                "a lying length",
                with(&[0x42, 0xff, 0xff, 0xff, 0xff, 0x0f]),
                false,
            ),
            (
                "the greatest length",
                with(&[
                    0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                ]),
                false,
            ),
            (
                "an endless number",
                with(&[0x08].into_iter().chain([0xff; 40]).collect::<Vec<_>>()),
                false,
            ),
            ("a truncated field", with(&[0x0d, 1, 2]), false),
            ("text in place of a number", with(&[0x0a, 1, 65]), false),
        ];
        for (name, bytes, is_read) in table {
            assert_eq!(Frame::parse(&bytes).is_ok(), is_read, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(Frame::parse(&bytes));
        }
    }
}
