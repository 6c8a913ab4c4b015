//! Parsers with input that no platform sends.

use nanobot_channel_mochat::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys of packets, events and messages.
const KEYS: &[&str] = &[
    "type",
    "data",
    "nsp",
    "id",
    "sessionId",
    "panelId",
    "sessions",
    "panels",
    "messages",
    "cursor",
    "events",
    "seq",
    "timestamp",
    "payload",
    "messageId",
    "_id",
    "author",
    "authorInfo",
    "nickname",
    "content",
    "meta",
    "mentions",
    "groupId",
    "converseId",
    "messageAuthor",
    "messagePlainContent",
    "createdAt",
];

const EVENTS: &[&str] = &[
    "claw.session.events",
    "claw.panel.events",
    "notify:chat.inbox.append",
    "notify:chat.message.add",
    "notify:chat.message.update",
    "notify:chat.message.recall",
    "x",
];

/// Returns a strategy for JSON that has the keys of messages in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[@<>a-z{}\\[\\]\"]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "message",
            "message.add",
            "message.recall",
            "/",
            "agent"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..6).prop_map(|members| {
                let members = members.into_iter();
                members
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read(value in odd_json(), name in prop::sample::select(EVENTS)) {
        prop_assert!(fuzz::answer(&value.to_string()) <= 64 * 4);
        let text = json!([name, value]).to_string();
        for kind in ["42", "43", "430", "44", "40", "451-"] {
            let is_event = fuzz::text_frame(&format!("{kind}{text}"));
            prop_assert!(!is_event || kind == "42");
        }
        let batch = json!({"sessionId": "s", "events": [{"type": "message.add", "payload": value}]});
        prop_assert_eq!(fuzz::event("claw.session.events", batch), 1);
        fuzz::event(name, value);
    }

    #[test]
    fn any_text_and_any_bytes_are_read(
        text in ".{0,300}",
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert!(!fuzz::text_frame(&text));
        prop_assert!(!fuzz::binary_frame(&bytes));
        prop_assert_eq!(fuzz::answer(&text), 0);
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 20),
        "{\"events\":".repeat(1 << 16),
        "[0,".repeat(1 << 20),
    ] {
        assert!(!fuzz::text_frame(&format!("42{text}")) && fuzz::answer(&text) == 0);
    }
    for byte in [0x91, 0x81, 0x9f, 0x8f, 0xdd, 0xdf] {
        assert!(!fuzz::binary_frame(&vec![byte; 1 << 20]), "{byte:#x}");
    }
    let wide = json!({"sessionId": "s", "events": vec![json!({}); 5000]}).to_string();
    assert_eq!(fuzz::answer(&wide), 2000);
}
