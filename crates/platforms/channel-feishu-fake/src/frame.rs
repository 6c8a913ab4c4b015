//! Frames of the long connection: one protobuf message (proto2) per WebSocket message.

use prost::Message as _;

/// Value of [`Frame::method`] for pings and pongs.
pub(crate) const CONTROL: i32 = 0;
/// Value of [`Frame::method`] for events and their acknowledgements.
pub(crate) const DATA: i32 = 1;

/// A named value of a frame.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Header {
    #[prost(string, required, tag = "1")]
    pub(crate) key: String,
    #[prost(string, required, tag = "2")]
    pub(crate) value: String,
}

/// A frame.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Frame {
    #[prost(uint64, required, tag = "1")]
    pub(crate) sequence: u64,
    #[prost(uint64, required, tag = "2")]
    pub(crate) log: u64,
    #[prost(int32, required, tag = "3")]
    pub(crate) service: i32,
    #[prost(int32, required, tag = "4")]
    pub(crate) method: i32,
    #[prost(message, repeated, tag = "5")]
    pub(crate) headers: Vec<Header>,
    #[prost(string, optional, tag = "6")]
    pub(crate) payload_encoding: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) payload_type: Option<String>,
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(crate) payload: Option<Vec<u8>>,
    #[prost(string, optional, tag = "9")]
    pub(crate) log_name: Option<String>,
}

impl Frame {
    /// Returns a frame with these headers and this payload.
    pub(crate) fn new(method: i32, headers: &[(&str, &str)], payload: &[u8]) -> Self {
        let header = |(key, value): &(&str, &str)| Header {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        Self {
            service: SERVICE,
            method,
            headers: headers.iter().map(header).collect(),
            payload: Some(payload.to_vec()),
            ..Self::default()
        }
    }

    /// Returns the first header of this name.
    pub(crate) fn header(&self, key: &str) -> Option<&str> {
        let header = self.headers.iter().find(|header| header.key == key)?;
        Some(&header.value)
    }

    /// Returns the payload; empty if there is none.
    pub(crate) fn content(&self) -> &[u8] {
        self.payload.as_deref().unwrap_or_default()
    }
}

/// The service id in the URL of the connection, which pings have to repeat.
pub(crate) const SERVICE: i32 = 33_554_678;

/// Numbers of the fields that a frame must have.
const REQUIRED: [u64; 4] = [1, 2, 3, 4];

/// Decodes a frame.
///
/// # Errors
/// Returns the reason if the bytes are no frame. The decoder accepts frames without required
/// fields, so these are checked here.
pub(crate) fn decode(bytes: &[u8]) -> Result<Frame, String> {
    let frame = Frame::decode(bytes).map_err(|error| error.to_string())?;
    let present = top_level_fields(bytes).ok_or("a field has no end")?;
    match REQUIRED.iter().find(|number| !present.contains(number)) {
        Some(missing) => Err(format!("the required field {missing} is missing")),
        None => Ok(frame),
    }
}

/// Returns the numbers of the fields of a message; `None` if it is malformed.
fn top_level_fields(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        numbers.push(key >> 3);
        let skipped = match key & 7 {
            0 => {
                varint(&mut rest)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        rest = rest.get(skipped..)?;
    }
    Some(numbers)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_survives_encoding() {
        let frame = Frame::new(DATA, &[("type", "event"), ("seq", "0")], b"{}");
        assert_eq!(decode(&frame.encode_to_vec()), Ok(frame.clone()));
        assert_eq!(
            (frame.header("seq"), frame.header("sum")),
            (Some("0"), None)
        );
    }

    #[test]
    fn frame_without_required_fields_is_refused() {
        // Fields 1 to 3, but no method.
        let bytes = [0x08, 0x00, 0x10, 0x00, 0x18, 0x01];
        let missing = "the required field 4 is missing".to_owned();
        assert_eq!(decode(&bytes), Err(missing));
        assert!(decode(b"no protobuf").is_err());
    }
}
