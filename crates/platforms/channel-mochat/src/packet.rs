//! Packets of Socket.IO 5 (the protocol of Socket.IO 4), in either of two forms.
//!
//! Decision: the default form of Mochat is MessagePack: each packet is one map in one binary frame
//! ([`msgpack`]). The other one is text: a digit, a namespace, an id and JSON. Attachments of the
//! text form are refused: no packet of Mochat has any. Only the default namespace is used.

use nanobot_channel::{Value, json};
use serde_json::json;

use crate::engine::EngineMessage;
use crate::msgpack;

/// The only namespace.
const NAMESPACE: &str = "/";
/// Digits of the largest id that is read.
const ID_DIGITS: usize = 15;

const CONNECT: u64 = 0;
const DISCONNECT: u64 = 1;
const EVENT: u64 = 2;
const ACK: u64 = 3;
const CONNECT_ERROR: u64 = 4;

/// The form of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serializer {
    /// MessagePack.
    MsgPack,
    /// Text and JSON.
    Json,
}

/// A packet from the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Packet {
    /// The connection is accepted.
    Connect,
    /// The server ends the connection.
    Disconnect,
    /// An event.
    Event {
        /// Its name.
        name: String,
        /// Its arguments.
        args: Vec<Value>,
    },
    /// The answer to an event.
    Ack {
        /// The id of the event.
        id: u64,
        /// The arguments of the answer.
        args: Vec<Value>,
    },
    /// The connection is refused, for this reason.
    ConnectError(Value),
}

/// A packet to the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClientPacket {
    /// Asks for a connection, with these credentials.
    Connect(Value),
    /// An event that is answered by an [`Packet::Ack`] with its id.
    Event {
        /// Its id.
        id: u64,
        /// Its name.
        name: &'static str,
        /// Its argument.
        argument: Value,
    },
}

impl Serializer {
    /// Writes a packet.
    ///
    /// # Errors
    /// The reason why it cannot be written.
    pub(crate) fn write(self, packet: &ClientPacket) -> Result<EngineMessage, String> {
        let (kind, id, data) = match packet {
            ClientPacket::Connect(auth) => (CONNECT, None, auth.clone()),
            ClientPacket::Event { id, name, argument } => {
                (EVENT, Some(*id), json!([name, argument]))
            }
        };
        match self {
            Self::Json => {
                let id = id.map(|id| id.to_string()).unwrap_or_default();
                Ok(EngineMessage::Text(format!("{kind}{id}{data}")))
            }
            Self::MsgPack => {
                let mut packet = json!({"type": kind, "data": data, "nsp": NAMESPACE});
                if let (Some(id), Some(members)) = (id, packet.as_object_mut()) {
                    members.insert("id".to_owned(), id.into());
                }
                msgpack::write(&packet).map(EngineMessage::Binary)
            }
        }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(crate) fn read(self, message: &EngineMessage) -> Result<Packet, String> {
        match (self, message) {
            (Self::Json, EngineMessage::Text(text)) => read_text(text),
            (Self::MsgPack, EngineMessage::Binary(bytes)) => read_map(msgpack::read(bytes)?),
            (Self::Json, EngineMessage::Binary(_)) => Err("attachments are not read".to_owned()),
            (Self::MsgPack, EngineMessage::Text(_)) => {
                Err("a packet is text where MessagePack is spoken".to_owned())
            }
        }
    }
}

/// Reads a packet in the text form.
fn read_text(text: &str) -> Result<Packet, String> {
    let mut letters = text.chars();
    let kind = letters.next().and_then(|digit| digit.to_digit(10));
    let kind = kind.ok_or_else(|| "a packet has no type".to_owned())?;
    let rest = letters.as_str();
    let rest = match rest.strip_prefix(NAMESPACE) {
        // The default namespace can be written out.
        Some(named) => named
            .strip_prefix(',')
            .ok_or_else(|| "a packet is of another namespace".to_owned())?,
        None => rest,
    };
    let content = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let id = rest.strip_suffix(content).unwrap_or_default();
    let id = match id.len() {
        0 => None,
        1..=ID_DIGITS => id.parse().ok(),
        _ => return Err("the id of a packet is too long".to_owned()),
    };
    let data = if content.is_empty() {
        Value::Null
    } else {
        json::from_str(content).map_err(|error| error.to_string())?
    };
    packet(kind.into(), id, data)
}

/// Reads a packet in the form of a map.
fn read_map(mut map: Value) -> Result<Packet, String> {
    let namespace = map.get("nsp").and_then(Value::as_str);
    if !matches!(namespace, None | Some(NAMESPACE | "")) {
        return Err("a packet is of another namespace".to_owned());
    }
    let kind = map.get("type").and_then(Value::as_u64);
    let kind = kind.ok_or_else(|| "a packet has no type".to_owned())?;
    let id = map.get("id").and_then(Value::as_u64);
    let data = map.get_mut("data").map(Value::take).unwrap_or_default();
    packet(kind, id, data)
}

fn packet(kind: u64, id: Option<u64>, data: Value) -> Result<Packet, String> {
    match kind {
        CONNECT => Ok(Packet::Connect),
        DISCONNECT => Ok(Packet::Disconnect),
        CONNECT_ERROR => Ok(Packet::ConnectError(data)),
        EVENT => {
            let Value::Array(items) = data else {
                return Err("an event has no arguments".to_owned());
            };
            let mut args = items.into_iter();
            let Some(Value::String(name)) = args.next() else {
                return Err("an event has no name".to_owned());
            };
            let args = args.collect();
            Ok(Packet::Event { name, args })
        }
        ACK => match (id, data) {
            (Some(id), Value::Array(args)) => Ok(Packet::Ack { id, args }),
            _ => Err("an answer names no event".to_owned()),
        },
        _ => Err(format!("packets of the type {kind} are not read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, args: &[Value]) -> Packet {
        Packet::Event {
            name: name.to_owned(),
            args: args.to_vec(),
        }
    }

    #[test]
    fn text_packets_are_read() {
        let read = |text: &str| Serializer::Json.read(&EngineMessage::Text(text.to_owned()));
        let ack = |id, args: &[Value]| Packet::Ack {
            id,
            args: args.to_vec(),
        };
        let table = [
            (r#"0{"sid":"x"}"#, Packet::Connect),
            ("0", Packet::Connect),
            ("1", Packet::Disconnect),
            (r#"2["n",{"a":1}]"#, event("n", &[json!({"a": 1})])),
            (r#"2/,12["n"]"#, event("n", &[])),
            (r#"30[{"result":true}]"#, ack(0, &[json!({"result": true})])),
            (r#"3999999999999999[]"#, ack(999_999_999_999_999, &[])),
            (
                r#"4{"message":"no"}"#,
                Packet::ConnectError(json!({"message": "no"})),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text).as_ref(), Ok(&expected), "{text}");
        }
        for text in [
            "",
            "x",
            "語",
            "2",
            "2{}",
            "2[]",
            "2[5]",
            "2[",
            "3[]",
            "30{}",
            "39999999999999999[]",
            r#"2/admin,["n"]"#,
            r#"51-["n",{"_placeholder":true,"num":0}]"#,
            r#"61-0[{"_placeholder":true,"num":0}]"#,
            "9",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let bytes = EngineMessage::Binary(vec![1]);
        assert!(Serializer::Json.read(&bytes).is_err());
    }

    #[test]
    fn map_packets_are_read() {
        let read = |packet: &Value| {
            let bytes = msgpack::write(packet).unwrap();
            Serializer::MsgPack.read(&EngineMessage::Binary(bytes))
        };
        let table = [
            (
                json!({"type": 0, "data": {"sid": "x"}, "nsp": "/"}),
                Packet::Connect,
            ),
            (json!({"type": 1, "nsp": "/"}), Packet::Disconnect),
            (
                json!({"type": 2, "data": ["n", "語"], "nsp": "/"}),
                event("n", &[json!("語")]),
            ),
            (
                json!({"type": 3, "data": [null], "nsp": "/", "id": 7}),
                Packet::Ack {
                    id: 7,
                    args: vec![Value::Null],
                },
            ),
            (
                json!({"type": 4, "data": "no"}),
                Packet::ConnectError(json!("no")),
            ),
        ];
        for (packet, expected) in table {
            assert_eq!(read(&packet).as_ref(), Ok(&expected), "{packet}");
        }
        for packet in [
            json!({}),
            json!([]),
            json!(5),
            json!({"type": "2", "data": ["n"]}),
            json!({"type": 2, "data": {"0": "n"}}),
            json!({"type": 2, "data": ["n"], "nsp": "/admin"}),
            json!({"type": 3, "data": []}),
            json!({"type": 5, "data": ["n"]}),
            json!({"type": -1}),
        ] {
            assert!(read(&packet).is_err(), "{packet}");
        }
        let text = EngineMessage::Text("2[\"n\"]".to_owned());
        assert!(Serializer::MsgPack.read(&text).is_err());
    }

    #[test]
    fn packets_are_written_in_both_forms() {
        let connect = ClientPacket::Connect(json!({"token": "t"}));
        let subscribe = ClientPacket::Event {
            id: 3,
            name: "n",
            argument: json!({"a": ["b"]}),
        };
        let text = |packet| Serializer::Json.write(packet).unwrap();
        assert_eq!(
            [text(&connect), text(&subscribe)],
            [r#"0{"token":"t"}"#, r#"23["n",{"a":["b"]}]"#]
                .map(|text| EngineMessage::Text(text.to_owned()))
        );
        let map = |packet| match Serializer::MsgPack.write(packet).unwrap() {
            EngineMessage::Binary(bytes) => msgpack::read(&bytes).unwrap(),
            EngineMessage::Text(text) => panic!("{text}"),
        };
        assert_eq!(
            [map(&connect), map(&subscribe)],
            [
                json!({"type": 0, "data": {"token": "t"}, "nsp": "/"}),
                json!({"type": 2, "data": ["n", {"a": ["b"]}], "nsp": "/", "id": 3}),
            ]
        );
    }
}
