//! Registered keys: descriptions, changes, and sections without descriptions.

use nanobot_config::ConfigError;
use serde_json::json;

use crate::home::{Home, schema};

#[test]
fn section_without_descriptions_is_explained_by_its_defaults() {
    let config = Home::empty().load().unwrap();
    let explained = config.explain("channels.telegram.replyToMessage").unwrap();
    let [one] = explained.as_slice() else {
        panic!("{explained:?}");
    };
    assert_eq!(
        (
            one.meaning.as_deref(),
            one.value_type.as_str(),
            one.default.clone()
        ),
        (None, "true or false", Some(json!(false)))
    );
    assert!(
        config
            .undescribed_keys()
            .contains(&"channels.telegram.replyToMessage: meaning".to_owned())
    );
}

#[test]
fn description_is_kept_for_entries_of_maps_and_kinds() {
    let described = schema()
        .describe(
            "providers.*",
            || json!({"properties": {"apiKey": {"description": "Key.", "type": "string"}}}),
        )
        .describe_kind(
            "channels",
            "telegram",
            || json!({"properties": {"token": {"description": "Token.", "type": "string"}, "none": {}}}),
        );
    let home = Home::with(r#"{"channels": {"bot": {"kind": "telegram"}}}"#);
    let config = home.load_with(described).unwrap();
    for (key, meaning) in [
        ("providers.any.apiKey", "Key."),
        ("channels.bot.token", "Token."),
        ("channels.telegram.token", "Token."),
    ] {
        let explained = config.explain(key).unwrap();
        assert_eq!(explained[0].meaning.as_deref(), Some(meaning), "{key}");
    }
    assert!(matches!(
        config.explain("channels.telegram.none"),
        Err(ConfigError::UnknownKey { .. })
    ));
}

#[test]
fn hostile_keys_and_values_are_refused() {
    let config = Home::empty().load().unwrap();
    let deep = vec!["a"; 10_000].join(".");
    for key in [deep.as_str(), "", ".", "a..b", "\"", "gateway.port.x.y"] {
        assert!(config.explain(key).is_err(), "{key:.20}");
        assert!(config.edit_to(key, "1").is_err(), "{key:.20}");
        assert!(config.edit_out(key).is_err(), "{key:.20}");
    }
    let nested = "[".repeat(100_000);
    assert!(config.edit_to("gateway.port", &nested).is_err());
}

#[test]
fn content_replaces_the_file_only_for_the_check() {
    let home = Home::with(r#"{"gateway": {"port": 1}}"#);
    let config = home.load().unwrap();
    let edit = config.edit_to("gateway.port", "2").unwrap();
    let checked = config.loader(schema()).with_content(edit.text()).load();
    let port: serde_json::Value = checked.unwrap().section("gateway").unwrap();
    assert_eq!(port["port"], 2);
    let unchanged: serde_json::Value = home.load().unwrap().section("gateway").unwrap();
    assert_eq!(unchanged["port"], 1);
}
