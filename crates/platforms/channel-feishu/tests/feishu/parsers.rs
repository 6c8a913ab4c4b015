//! Parsers with input that no platform sends.

use nanobot_channel_feishu::fuzz;
use nanobot_testkit::check_bounded;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns a strategy for JSON that has the keys of events in unlikely places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[@_a-z{}\\[\\]\"]{0,12}".prop_map(Value::from),
        Just(json!("im.message.receive_v1")),
        Just(json!("{\"text\":\"@_user_1 x\"}")),
    ];
    let keys = prop::sample::select(vec![
        "header",
        "event",
        "message",
        "sender",
        "sender_id",
        "open_id",
        "message_id",
        "chat_id",
        "chat_type",
        "message_type",
        "content",
        "mentions",
        "key",
        "id",
        "name",
        "action",
        "value",
        "operator",
        "context",
        "open_chat_id",
        "tag",
        "elements",
        "text",
        "zh_cn",
        "post",
        "title",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|members| {
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
        "text", "post", "interactive", "file", "image", "todo", "merge_forward", "", "x",
    ])) {
        let text = value.to_string();
        fuzz::event(text.as_bytes());
        fuzz::event(json!({"header": {"event_id": "e"}, "event": value}).to_string().as_bytes());
        prop_assert!(fuzz::content(kind, &text) <= 100_000);
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!fuzz::frame(&bytes) || bytes.len() > 40);
        fuzz::event(&bytes);
    }
}

#[test]
fn deep_and_wide_content_is_bounded() {
    for text in [
        "[".repeat(1 << 20),
        "{\"elements\":".repeat(1 << 16),
        "[0,".repeat(1 << 20),
    ] {
        assert!(!fuzz::event(text.as_bytes()));
        assert!(fuzz::content("interactive", &text) < 100);
    }
    let wide = json!({"elements": vec![json!({"text": "x".repeat(1000)}); 5000]}).to_string();
    assert!(fuzz::content("interactive", &wide) < 30_000);
}

#[test]
fn many_mentions_in_a_long_text_are_read_in_time() {
    let mentions = (0..10_000).map(|number| json!({"key": format!("@_user_{number}")}));
    let mentions: Vec<_> = mentions.collect();
    let content = json!({"text": "@_user_".repeat(500_000)}).to_string();
    let event = json!({
        "header": {"event_type": "im.message.receive_v1", "event_id": "e"},
        "event": {
            "sender": {"sender_id": {"open_id": "ou_ann"}, "sender_type": "user"},
            "message": {
                "message_id": "om_1", "chat_id": "oc_1", "chat_type": "p2p",
                "message_type": "text", "content": content, "mentions": mentions,
            },
        },
    });
    let test = "parsers::many_mentions_in_a_long_text_are_read_in_time";
    check_bounded(test, [event.to_string()], |event| {
        assert!(fuzz::event(event.as_bytes()));
    })
    .unwrap();
}
