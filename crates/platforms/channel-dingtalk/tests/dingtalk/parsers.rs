//! Parsers with input that no platform sends.

use nanobot_channel_dingtalk::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys of frames and messages.
const KEYS: &[&str] = &[
    "specVersion",
    "type",
    "headers",
    "topic",
    "messageId",
    "data",
    "msgId",
    "conversationId",
    "conversationType",
    "senderId",
    "senderStaffId",
    "isInAtList",
    "msgtype",
    "msgType",
    "text",
    "content",
    "richText",
    "downloadCode",
    "fileName",
    "recognition",
    "videoType",
    "isReplyMsg",
    "repliedMsg",
    "cardContent",
    "elementType",
    "value",
    "children",
];

/// Returns a strategy for JSON that has the keys of messages in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[@_a-z{}\\[\\]\"]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["CALLBACK", "SYSTEM", "TEXT", "picture", "1", "2"])
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
        "text", "richText", "chatRecord", "picture", "audio", "video", "file", "interactiveCard", "", "x",
    ])) {
        let text = value.to_string();
        fuzz::message(&text);
        fuzz::frame(&text);
        fuzz::frame(&json!({"type": "CALLBACK", "data": text}).to_string());
        prop_assert!(fuzz::content(kind, &text, &text) <= 1024);
    }

    #[test]
    fn any_text_is_read(text in ".{0,300}") {
        prop_assert!(!fuzz::frame(&text));
        prop_assert!(!fuzz::message(&text));
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 20),
        "{\"repliedMsg\":".repeat(1 << 16),
        "[0,".repeat(1 << 20),
    ] {
        assert!(!fuzz::frame(&text) && !fuzz::message(&text));
        assert!(fuzz::content("richText", &text, &text) < 2);
    }
    let picture = json!({"type": "picture", "downloadCode": "d"});
    let wide = json!({"richText": vec![picture; 5000]}).to_string();
    assert_eq!(fuzz::content("richText", "", &wide), 256);
}
