//! Packets of Socket.IO, in the two serializers.

use serde_json::{Map, Value, json};

use crate::connection::Out;

pub(crate) const CONNECT: u64 = 0;
pub(crate) const DISCONNECT: u64 = 1;
pub(crate) const EVENT: u64 = 2;
pub(crate) const ACK: u64 = 3;
pub(crate) const CONNECT_ERROR: u64 = 4;

/// The form of packets on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serializer {
    /// One MessagePack map a packet, in a binary frame; Mochat's own.
    #[default]
    Msgpack,
    /// Text with JSON, the usual form of Socket.IO.
    Json,
}

/// A packet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    pub(crate) kind: u64,
    pub(crate) namespace: String,
    pub(crate) data: Value,
    pub(crate) id: Option<u64>,
}

impl Packet {
    pub(crate) fn new(kind: u64, data: Value) -> Self {
        Self {
            kind,
            namespace: "/".to_owned(),
            data,
            id: None,
        }
    }

    pub(crate) fn event(name: &str, payload: &Value) -> Self {
        Self::new(EVENT, json!([name, payload]))
    }

    /// Writes the packet as a frame.
    pub(crate) fn encode(&self, serializer: Serializer) -> Out {
        match serializer {
            Serializer::Json => {
                let mut text = format!("4{}", self.kind);
                if self.namespace != "/" {
                    text = format!("{text}{},", self.namespace);
                }
                if let Some(id) = self.id {
                    text = format!("{text}{id}");
                }
                if !self.data.is_null() {
                    text = format!("{text}{}", self.data);
                }
                Out::Text(text)
            }
            Serializer::Msgpack => {
                let mut map = json!({"type": self.kind, "nsp": self.namespace});
                if !self.data.is_null() {
                    nanobot_testkit::json::set(&mut map, "data", self.data.clone());
                }
                if let Some(id) = self.id {
                    nanobot_testkit::json::set(&mut map, "id", id);
                }
                // A JSON value always has a form in MessagePack.
                Out::Binary(rmp_serde::to_vec(&map).unwrap_or_default())
            }
        }
    }

    /// Reads the packet of a binary frame.
    pub(crate) fn from_msgpack(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let read: Result<Map<String, Value>, _> = rmp_serde::from_read(&mut rest);
        let map = read.map_err(|error| format!("no map in MessagePack: {error}"))?;
        if !rest.is_empty() {
            return Err("bytes after the packet".to_owned());
        }
        let known = ["type", "nsp", "data", "id", "options"];
        if let Some(name) = map.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("a packet with the unknown member {name}"));
        }
        let id = match map.get("id") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_u64().ok_or("a packet with a wrong id")?),
        };
        let namespace = map.get("nsp").and_then(Value::as_str);
        Ok(Self {
            kind: map
                .get("type")
                .and_then(Value::as_u64)
                .ok_or("a packet with a wrong type")?,
            namespace: namespace.ok_or("a packet without a namespace")?.to_owned(),
            data: map.get("data").cloned().unwrap_or_default(),
            id,
        })
    }

    /// Reads the packet of a text frame, after the digit of its Engine.IO packet.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let (kind, mut rest) = digits(text, 1);
        let kind = kind.ok_or("a packet with a wrong type")?;
        let mut namespace = "/".to_owned();
        if rest.starts_with('/') {
            let (name, after) = rest.split_once(',').unwrap_or((rest, ""));
            (namespace, rest) = (name.to_owned(), after);
        }
        let (id, rest) = digits(rest, 19);
        let data = if rest.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(rest).map_err(|error| format!("no JSON: {error}"))?
        };
        Ok(Self {
            kind,
            namespace,
            data,
            id,
        })
    }
}

/// Splits the number off the start of a text, if there is one.
fn digits(text: &str, most: usize) -> (Option<u64>, &str) {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit);
    let Some((number, rest)) = text.split_at_checked(count.count()) else {
        return (None, text);
    };
    (number.parse().ok(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets() -> Vec<(Packet, &'static str)> {
        let numbered = |kind, id, data| Packet {
            id: Some(id),
            ..Packet::new(kind, data)
        };
        let elsewhere = Packet {
            namespace: "/admin".to_owned(),
            ..numbered(EVENT, 7, json!(["x"]))
        };
        vec![
            (
                Packet::new(CONNECT, json!({"token": "t"})),
                r#"40{"token":"t"}"#,
            ),
            (Packet::new(CONNECT, Value::Null), "40"),
            (Packet::new(DISCONNECT, Value::Null), "41"),
            (numbered(EVENT, 0, json!(["x", {}])), r#"420["x",{}]"#),
            (numbered(ACK, 12, json!([{"a": 1}])), r#"4312[{"a":1}]"#),
            (
                Packet::new(CONNECT_ERROR, json!({"message": "no"})),
                r#"44{"message":"no"}"#,
            ),
            (elsewhere, r#"42/admin,7["x"]"#),
        ]
    }

    #[test]
    fn packets_are_written_and_read_in_both_forms() {
        for (packet, text) in packets() {
            let written = packet.encode(Serializer::Json);
            assert_eq!(written, Out::Text(text.to_owned()));
            let read = text.strip_prefix('4').unwrap();
            assert_eq!(Packet::from_json(read), Ok(packet.clone()));
            let Out::Binary(bytes) = packet.encode(Serializer::Msgpack) else {
                panic!("{packet:?}");
            };
            assert_eq!(Packet::from_msgpack(&bytes), Ok(packet));
        }
    }

    #[test]
    fn packet_of_another_program_is_read() {
        // {"type": 2, "data": ["a", null], "options": {"compress": true}, "id": 3, "nsp": "/"}
        let bytes = b"\x85\xa4type\x02\xa4data\x92\xa1a\xc0\xa7options\x81\xa8compress\xc3\
                      \xa2id\x03\xa3nsp\xa1/";
        let packet = Packet::from_msgpack(bytes).unwrap();
        let expected = (EVENT, json!(["a", null]), Some(3));
        assert_eq!((packet.kind, packet.data, packet.id), expected);
    }

    #[test]
    fn malformed_packets_are_errors() {
        let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
        let broken: [&[u8]; 9] = [
            b"",
            b"\xc1",
            b"\x93\x01\x02\x03",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\x82\xa4type\xa1x\xa3nsp\xa1/",
            b"\x81\xa4type\x02",
            b"\x82\xa4type\x02\xa3nsp\xa1/\x00",
            &deep,
        ];
        for bytes in broken {
            assert!(Packet::from_msgpack(bytes).is_err(), "{:?}", bytes.first());
        }
        let nested = format!("2{}", "[".repeat(100_000));
        for text in ["", "x", "2{", "2[1] ]", "é", &nested] {
            assert!(Packet::from_json(text).is_err(), "{text:.20}");
        }
    }
}
