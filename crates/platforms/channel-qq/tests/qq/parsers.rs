//! Parsers with input that no platform sends.

use nanobot_channel_qq::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The events that are messages.
const EVENTS: &[&str] = &[
    "C2C_MESSAGE_CREATE",
    "GROUP_AT_MESSAGE_CREATE",
    "GROUP_MESSAGE_CREATE",
    "DIRECT_MESSAGE_CREATE",
];

/// Keys of frames and messages.
const KEYS: &[&str] = &[
    "op",
    "s",
    "t",
    "d",
    "id",
    "content",
    "author",
    "user_openid",
    "member_openid",
    "username",
    "bot",
    "group_openid",
    "guild_id",
    "mentions",
    "is_you",
    "attachments",
    "url",
    "filename",
    "content_type",
    "size",
    "voice_wav_url",
    "asr_refer_text",
    "msg_elements",
    "ark_data",
    "prompt",
];

/// Returns a strategy for JSON that has the keys of messages in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~語🙂<>@&;=\"]{0,16}".prop_map(Value::from),
        prop::sample::select(vec![
            "voice",
            "image/png",
            "<faceType=4,ext=\"e30=\">",
            "<@!B>"
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
    fn any_json_is_read(value in odd_json(), event in prop::sample::select(EVENTS)) {
        let text = value.to_string();
        fuzz::message(event, &text);
        fuzz::frame(&text);
        fuzz::frame(&json!({"op": 0, "s": 1, "t": event, "d": value}).to_string());
        prop_assert!(fuzz::content(&text) <= 1024);
    }

    #[test]
    fn any_text_is_read(text in "[<>@!&;=\",a-z語🙂]{0,300}") {
        prop_assert!(!fuzz::frame(&text));
        prop_assert!(fuzz::text(&text).len() <= text.len());
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 20),
        "{\"msg_elements\":".repeat(1 << 16),
        "[0,".repeat(1 << 20),
    ] {
        assert!(!fuzz::frame(&text) && !fuzz::message("C2C_MESSAGE_CREATE", &text));
        assert_eq!(fuzz::content(&text), 0);
    }
    let file = json!({"url": "u", "content_type": "image/png"});
    let quote = json!({"content": "x", "attachments": vec![&file; 5000]});
    let wide =
        json!({"id": "m", "attachments": vec![file; 5000], "msg_elements": vec![quote; 200]});
    assert!(fuzz::content(&wide.to_string()) <= 64 + 1 + 4 * 65);
}

#[test]
fn text_of_tags_is_read_in_linear_time() {
    for tag in ["<", "<@", "<faceType=", "<faceType=>", "<@B>"] {
        let text = tag.repeat((4 << 20) / tag.len());
        assert!(fuzz::text(&text).len() <= text.len(), "{tag}");
    }
}
