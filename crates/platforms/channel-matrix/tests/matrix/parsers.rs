//! Parsers of hostile input: nothing panics, and nothing takes long.

use nanobot_channel_matrix::fuzz;
use proptest::prelude::*;
use serde_json::{Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[@!$a-z:.é ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let names = prop::sample::select(vec![
            "type",
            "sender",
            "event_id",
            "content",
            "msgtype",
            "body",
            "m.relates_to",
            "url",
            "file",
            "info",
            "m.mentions",
            "events",
            "join",
            "timeline",
            "state_key",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..5).prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn hostile_values_do_not_panic(value in value()) {
        let text = value.to_string();
        fuzz::sync(&text);
        fuzz::event(&text);
        fuzz::file(&text);
        fuzz::people(&text);
        let sync = json!({"next_batch": "s", "rooms": {"join": {"!a:x": value}}}).to_string();
        prop_assert!(fuzz::sync(&sync).is_some());
        let event = json!({
            "type": "m.room.message", "sender": "@ann:x", "event_id": "$1", "content": value,
        });
        fuzz::event(&event.to_string());
    }

    #[test]
    fn texts_of_any_form_are_read(body in ".{0,200}", html in ".{0,100}") {
        let event = json!({
            "type": "m.room.message", "sender": "@ann:x", "event_id": "$1", "content": {
                "msgtype": "m.text", "body": body, "formatted_body": html,
                "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
            },
        });
        prop_assert!(fuzz::event(&event.to_string()));
    }
}

#[test]
fn deep_and_large_input_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(fuzz::sync(&deep), None);
    let wide = format!(
        "{{\"next_batch\":\"s\",\"x\":[{}0]}}",
        "[],".repeat(200_000)
    );
    assert_eq!(fuzz::sync(&wide), None);
    assert!(!fuzz::event("{\"type\":"));
}
