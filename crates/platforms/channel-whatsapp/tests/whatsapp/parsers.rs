//! Parsers with input that no bridge sends.

use nanobot_channel_whatsapp::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys of frames and messages.
const KEYS: &[&str] = &[
    "type",
    "seq",
    "id",
    "sender",
    "pn",
    "participant",
    "participantPn",
    "pushName",
    "content",
    "timestamp",
    "isGroup",
    "mentionsBot",
    "quoted",
    "fromBot",
    "media",
    "ref",
    "kind",
    "mime",
    "name",
    "size",
    "lost",
    "requestId",
    "code",
    "error",
    "retryAfter",
    "status",
    "reason",
    "retry",
    "account",
    "lid",
    "qr",
    "data",
    "offset",
    "last",
];

/// Returns a strategy for JSON that has the keys of messages in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[@_a-z0-9{}\\[\\]\"]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "message",
            "ready",
            "status",
            "error",
            "sent",
            "4915@s.whatsapp.net",
            "12@lid",
            "1203@g.us",
            "connected",
            "disconnected",
            "replaced",
            "rate_limited",
            "image",
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
    fn any_json_is_read(value in odd_json(), kind in prop::sample::select(vec![
        "message", "ready", "status", "error", "chunk", "qr",
    ])) {
        let text = value.to_string();
        fuzz::frame(&text);
        fuzz::message(&text);
        let mut frame = value;
        if let Some(members) = frame.as_object_mut() {
            members.insert("type".to_owned(), json!(kind));
        }
        fuzz::frame(&frame.to_string());
        prop_assert!(fuzz::content(&text, &text) <= 34);
    }

    #[test]
    fn any_text_is_read(text in ".{0,300}") {
        prop_assert!(!fuzz::frame(&text));
        prop_assert!(!fuzz::message(&text));
        let body = json!({
            "id": "a", "sender": "1@lid", "content": text,
            "quoted": {"content": text, "participant": text},
        });
        prop_assert!(fuzz::message(&body.to_string()));
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 19),
        "{\"quoted\":".repeat(1 << 16),
        "[0,".repeat(1 << 18),
    ] {
        assert!(!fuzz::frame(&text) && !fuzz::message(&text));
        assert_eq!(fuzz::content(&text, &text), 0);
    }
    let file = json!({"ref": "m", "kind": "image"});
    let wide = json!({"content": "x", "media": vec![file; 1000]});
    assert_eq!(fuzz::content(&wide.to_string(), "{}"), 33);
}
