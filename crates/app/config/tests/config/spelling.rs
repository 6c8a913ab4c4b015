//! Equivalent spellings of keys, user-chosen names, and unknown keys.

use std::collections::BTreeMap;

use nanobot_config::{ConfigFinding, ConfigSeverity};
use serde_json::{Value, json};

use crate::home::{AgentDefaults, Home, McpServer, Provider};

fn findings(file: &str) -> Vec<String> {
    let home = Home::with(file);
    let config = home.load().unwrap();
    config
        .findings()
        .iter()
        .map(|finding| home.tilde(finding))
        .collect()
}

#[test]
fn every_spelling_is_the_same_key() {
    for key in ["maxTokens", "max_tokens", "max-tokens"] {
        let home = Home::with(json!({"agents": {"defaults": {key: 5}}}).to_string());
        let config = home.load().unwrap();
        let defaults: AgentDefaults = config.section("agents.defaults").unwrap();
        assert_eq!(
            defaults,
            AgentDefaults {
                max_tokens: 5,
                ..AgentDefaults::default()
            },
            "{key}"
        );
        assert_eq!(config.findings(), []);
        assert!(config.is_set(&format!("agents.defaults.{key}")).unwrap());
    }
}

#[test]
fn names_and_data_keep_their_spelling() {
    let home = Home::with(
        r#"{
  "providers": {"azure_openai": {"api_key": "k"}, "my_lab": {"api_base": "b", "extra_headers": {"x_trace_id": "1"}}},
  "tools": {"mcp_servers": {"git_hub": {"command": "c", "env": {"some_thing": "", "OTHER": "1"}}}},
  "channels": {"telegram_work": {"kind": "telegram", "reply_to_message": true}, "send_progress": false}
}"#,
    );
    let config = home.load().unwrap();
    assert_eq!(config.findings(), []);
    assert_eq!(
        config
            .section::<BTreeMap<String, Provider>>("providers")
            .unwrap(),
        BTreeMap::from([
            (
                "azureOpenai".to_owned(),
                Provider {
                    api_key: "k".into(),
                    ..Provider::default()
                }
            ),
            (
                "my_lab".to_owned(),
                Provider {
                    api_key: String::new(),
                    api_base: Some("b".into()),
                    extra_headers: Some(BTreeMap::from([("x_trace_id".into(), "1".into())])),
                }
            ),
        ])
    );
    let servers: BTreeMap<String, McpServer> = config.section("tools.mcpServers").unwrap();
    let env = [
        ("OTHER".to_owned(), "1".to_owned()),
        ("some_thing".to_owned(), String::new()),
    ];
    assert_eq!(
        servers,
        BTreeMap::from([(
            "git_hub".to_owned(),
            McpServer {
                command: "c".into(),
                args: Vec::new(),
                env: env.into()
            }
        )])
    );
    assert_eq!(config.names("channels").unwrap(), ["telegram_work"]);
    assert_eq!(
        config.raw("channels.telegram_work").unwrap(),
        Some(
            json!({"enabled": false, "token": "", "allowFrom": null, "kind": "telegram", "replyToMessage": true})
        )
    );
    assert_eq!(config.raw("channels.slack").unwrap(), None);
    assert_eq!(
        config.section::<Value>("channels").unwrap()["sendProgress"],
        json!(false)
    );
}

#[test]
fn names_with_equal_folding_stay_separate() {
    let home = Home::with(
        r#"{"providers": {"myLab": {"api_key": "1"}, "my-lab": {"api_key": "2"}, "my_lab": {"api_key": "3"},
                          "openai": {"extraBody": {"a_b": {"c_d": 1}}}}}"#,
    );
    let config = home.load().unwrap();
    assert_eq!(
        config.names("providers").unwrap(),
        ["my-lab", "myLab", "my_lab", "openai"]
    );
    for (name, key) in [("myLab", "1"), ("my-lab", "2"), ("my_lab", "3")] {
        let provider: Provider = config.section(&format!("providers.{name}")).unwrap();
        assert_eq!(provider.api_key, key, "{name}");
    }
    assert!(
        config
            .is_set("providers.openai.extra_body.a_b.c_d")
            .unwrap()
    );
}

#[test]
fn variables_match_existing_entries() {
    let home = Home::with(r#"{"channels": {"telegram-work": {"kind": "telegram"}}}"#)
        .variable("NANOBOT_CHANNELS__TELEGRAM_WORK__ENABLED", "true")
        .variable("NANOBOT_TOOLS__MCP_SERVERS__X__COMMAND", "npx")
        .variable("NANOBOT_TOOLS__MCP_SERVERS__X__ENV__MY_KEY", "v")
        .variable("NANOBOT_PROVIDERS__AZURE_OPENAI__API_KEY", "k")
        .variable("NANOBOT_LLM_TIMEOUT_S", "1");
    let config = home.load().unwrap();
    assert_eq!(config.findings(), []);
    assert_eq!(config.names("channels").unwrap(), ["telegram-work"]);
    let telegram = config.raw("channels.telegram-work").unwrap().unwrap();
    assert_eq!(telegram["enabled"], json!(true));
    assert_eq!(
        config.section::<McpServer>("tools.mcpServers.x").unwrap(),
        McpServer {
            command: "npx".into(),
            args: Vec::new(),
            env: BTreeMap::from([("MY_KEY".into(), "v".into())])
        }
    );
    assert_eq!(config.names("providers").unwrap(), ["azureOpenai"]);
}

#[test]
fn unknown_keys_are_reported_with_line_and_suggestion() {
    assert_eq!(
        findings(
            r#"{
  "agents": {"defaults": {"max_token": 10, "temprature": 1}},
  "gatewey": {"port": 1},
  "channels": {"telegramm": {}, "sendProgres": true, "telegram": {"tokn": "x"}},
  "providers": {"mine": {"apikey": "x", "region": "y"}},
  "zebra": 1
}"#
        ),
        [
            "~/config.json:2:27: unknown key `agents.defaults.max_token` is kept but has no effect; did you mean `maxTokens`?",
            "~/config.json:2:44: unknown key `agents.defaults.temprature` is kept but has no effect; did you mean `temperature`?",
            "~/config.json:3:3: unknown key `gatewey` is kept but has no effect; did you mean `gateway`?",
            "~/config.json:4:16: unknown key `channels.telegramm` is kept but has no effect; did you mean `telegram`?",
            "~/config.json:4:33: unknown key `channels.sendProgres` is kept but has no effect; did you mean `sendProgress`?",
            "~/config.json:4:67: unknown key `channels.telegram.tokn` is kept but has no effect; did you mean `token`?",
            "~/config.json:5:26: unknown key `providers.mine.apikey` is kept but has no effect; did you mean `apiKey`?",
            "~/config.json:5:41: `providers.mine.region` is kept but not read by this version",
            "~/config.json:6:3: unknown key `zebra` is kept but has no effect",
        ]
    );
    let home = Home::empty().variable("NANOBOT_GATEWAY__PROT", "1");
    let said: Vec<String> = home
        .load()
        .unwrap()
        .findings()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "environment variable NANOBOT_GATEWAY__PROT: unknown key `gateway.prot` is kept but has no effect; did you mean `port`?"
        ]
    );
}

#[test]
fn python_only_keys_are_notes() {
    let home = Home::with(
        r#"{"transcription": {"provider": "groq"}, "api": {"port": 8900},
            "agents": {"defaults": {"botIcon": "🐈", "dream": {"enabled": true}}},
            "channels": {"slack": {"enabled": true}}}"#,
    );
    let config = home.load().unwrap();
    let keys: Vec<(ConfigSeverity, String)> = config
        .findings()
        .iter()
        .map(|finding| match finding {
            ConfigFinding::NotRead { key, .. } => (finding.severity(), key.clone()),
            other => panic!("{other}"),
        })
        .collect();
    let expected = [
        "transcription",
        "api",
        "agents.defaults.botIcon",
        "agents.defaults.dream",
        "channels.slack",
    ];
    assert_eq!(
        keys,
        expected.map(|key| (ConfigSeverity::Note, key.to_owned()))
    );
}

#[test]
fn duplicate_key_with_equal_value_is_a_note() {
    assert_eq!(
        findings("{\"gateway\": {\"port\": 1,\n\"port\": 1}}"),
        ["~/config.json:2:1: `gateway.port` was already set to the same value in line 1"]
    );
    assert_eq!(
        findings(r#"{"channels": {"telegram": {"a_b": 1, "a-b": 2}}}"#).len(),
        2,
        "unknown keys that fold to one are two keys"
    );
}

#[test]
fn raw_sections_keep_the_types_of_their_defaults() {
    let home = Home::with(r#"{"channels": {"telegram": {"enabled": "false"}}}"#);
    let error = home.load().unwrap().raw("channels.telegram").unwrap_err();
    assert_eq!(
        home.tilde(&error),
        "~/config.json:1:28: `channels.telegram.enabled` is the text \"false\", but true or false is wanted"
    );
}
