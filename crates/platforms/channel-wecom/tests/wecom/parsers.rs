//! Parsers with input that no platform sends.

use nanobot_channel_wecom::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys of frames and messages.
const KEYS: &[&str] = &[
    "cmd",
    "headers",
    "req_id",
    "errcode",
    "errmsg",
    "body",
    "msgid",
    "aibotid",
    "chatid",
    "chattype",
    "from",
    "userid",
    "msgtype",
    "text",
    "content",
    "image",
    "url",
    "aeskey",
    "name",
    "mixed",
    "msg_item",
    "voice",
    "file",
    "video",
    "quote",
    "event",
    "eventtype",
];

/// Returns a strategy for JSON that has the keys of messages in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[@_a-z{}\\[\\]\"]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "text", "mixed", "image", "voice", "single", "group", "event"
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
    fn any_json_is_read(value in odd_json(), cmd in prop::sample::select(vec![
        "aibot_msg_callback", "aibot_event_callback", "ping", "",
    ])) {
        let text = value.to_string();
        fuzz::frame(&text);
        let frame = json!({"cmd": cmd, "headers": {"req_id": "r"}, "body": value});
        fuzz::frame(&frame.to_string());
        fuzz::message(&text);
        prop_assert!(fuzz::content(&text) <= 129);
    }

    #[test]
    fn any_text_is_read(text in ".{0,300}") {
        prop_assert!(!fuzz::frame(&text));
        prop_assert!(!fuzz::message(&text));
        prop_assert!(fuzz::file_name(&text).is_none_or(|name| !name.is_empty()));
    }

    #[test]
    fn any_file_is_decrypted_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        key in "[A-Za-z0-9+/=]{0,48}",
    ) {
        let length = fuzz::decrypt(&bytes, &key);
        prop_assert!(length.is_none_or(|length| length < bytes.len()));
        let length = fuzz::decrypt(&bytes, &"A".repeat(43));
        prop_assert!(length.is_none_or(|length| length < bytes.len()));
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 20),
        "{\"quote\":".repeat(1 << 16),
        "[0,".repeat(1 << 20),
    ] {
        assert!(!fuzz::frame(&text) && !fuzz::message(&text));
        assert_eq!(fuzz::content(&text), 1);
    }
    let picture = json!({"msgtype": "image", "image": {"url": "https://x.test/a"}});
    let mixed = json!({"msgtype": "mixed", "mixed": {"msg_item": vec![picture; 1000]}});
    assert_eq!(fuzz::content(&mixed.to_string()), 64);
    let mut quoting = mixed.clone();
    quoting["quote"] = mixed;
    assert_eq!(fuzz::content(&quoting.to_string()), 129);
}
