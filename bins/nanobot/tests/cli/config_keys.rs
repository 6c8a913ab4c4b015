//! Explains, sets and removes keys, and prints the schema and the reference.

use serde_json::{Value, json};

use crate::support::{Home, assert_says, finish};

const FILE: &str = "{\n  \"_note\": \"mine\",\n  \"gateway\": {\n    \"port\": 18790\n  },\n  \"channels\": {\n    \"telegram\": {\n      \"token\": \"${TELEGRAM_TOKEN}\"\n    }\n  },\n  \"zoo\": [\n    1.50\n  ]\n}\n";

fn home() -> Home {
    let home = Home::new();
    home.write("config.json", FILE);
    home
}

#[tokio::test]
async fn explain_knows_keys_that_are_not_in_the_file() {
    let home = home();
    let explain = async |key: &str| home.run(&["config", "explain", key]).await;
    let run = explain("agents.defaults.temperature").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let expected = "agents.defaults.temperature = 0.1\n  meaning    Sampling temperature. A local server gets it only if it is set, and uses the model's own otherwise.\n  type       number\n  \
                    allowed    0 to 2\n  set by     built-in default\n  default    0.1\n";
    assert_eq!(run.stdout, expected);
    for (key, parts) in [
        (
            "channels.discord.token",
            &["channels.discord.token = \"\"", "type       text"][..],
        ),
        (
            "channels.uncertain",
            &["\"resend_marked\", \"ask\", \"drop\"", "\"ask\""],
        ),
        (
            "providers.openai.api_key",
            &["providers.openai.apiKey", "The API key."],
        ),
        (
            "gateway",
            &[
                "gateway.port = 18790  (",
                "Address to listen on",
                "gateway.heartbeat.intervalS = 1800",
            ],
        ),
        (
            "channels.telegram.uncertain",
            &["type       text", "\"resend_marked\", \"ask\", \"drop\""],
        ),
        (
            "tools.webuiAllowRemotePackageInstall",
            &["meaning    Installation of packages", "kept, but not read"],
        ),
        ("tools.mcpServers", &["meaning    MCP servers, by name."]),
        (
            "channels.email",
            &["channels.email.imapPort = 993", "channels.email.dm.policy"],
        ),
    ] {
        let run = explain(key).await;
        assert_eq!(run.code, 0, "{key}: {}", run.stderr);
        assert_says(&run.stdout, parts);
    }
    for (key, nearest) in [
        ("gateway.prot", "gateway.port"),
        ("channels.telegramm.tokn", "channels.telegram.token"),
        ("temperature", "agents.defaults.temperature"),
    ] {
        let run = explain(key).await;
        assert_eq!(run.code, 2, "{key}");
        assert_says(&run.stderr, &[&format!("did you mean `{nearest}`?")]);
    }
}

#[tokio::test]
async fn explain_reports_whether_a_variable_is_set() {
    let home = home();
    let unset = home
        .run(&["config", "explain", "channels.telegram.token"])
        .await;
    assert_says(
        &unset.stdout,
        &["variable   ${TELEGRAM_TOKEN} is not set in the environment"],
    );
    let mut command = home.program();
    command
        .args(["config", "explain", "channels.telegram"])
        .env("TELEGRAM_TOKEN", "12345:not-shown");
    let set = finish(command, b"").await;
    assert_says(
        &set.stdout,
        &["${TELEGRAM_TOKEN} is set in the environment"],
    );
    assert!(!set.stdout.contains("not-shown"), "{}", set.stdout);
}

#[tokio::test]
async fn set_changes_one_key_and_keeps_the_rest() {
    let home = home();
    let run = home.run(&["config", "set", "gateway.port", "8080"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &["gateway.port: 18790 → 8080", "at the next start", ".bak-"],
    );
    assert_eq!(home.read("config.json"), FILE.replace("18790", "8080"));

    let run = home
        .run(&[
            "config",
            "set",
            "channels.telegram.allow_from",
            "[\"7\", 8]",
        ])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &[
            "channels.telegram.allowFrom: (not set) → [\"7\",8]",
            "at the next message",
        ],
    );
    let run = home
        .run(&["config", "set", "channels.telegram.reactEmoji", "x"])
        .await;
    assert_says(
        &run.stdout,
        &["\"👀\" (default) → \"x\"", "Takes effect now"],
    );

    let run = home.run(&["config", "unset", "gateway.port"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["gateway.port: 8080 → 18790 (default)"]);
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(
        config,
        json!({
            "_note": "mine", "gateway": {}, "zoo": [1.50],
            "channels": {"telegram": {"token": "${TELEGRAM_TOKEN}", "allowFrom": ["7", 8], "reactEmoji": "x"}}
        })
    );
}

#[tokio::test]
async fn set_creates_the_file_and_new_channels() {
    let home = Home::new();
    for (key, value) in [
        ("agents.defaults.model", "some/model"),
        ("channels.second.kind", "telegram"),
        ("channels.second.replyToMessage", "true"),
        ("providers.custom.extraHeaders.X-Team", "blue"),
    ] {
        let run = home.run(&["config", "set", key, value]).await;
        assert_eq!(run.code, 0, "{key}: {}", run.stderr);
    }
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    let expected = json!({
        "$schema": "./config.schema.json",
        "agents": {"defaults": {"model": "some/model"}},
        "channels": {"second": {"kind": "telegram", "replyToMessage": true}},
        "providers": {"custom": {"extraHeaders": {"X-Team": "blue"}}}
    });
    assert_eq!(config, expected);
}

#[tokio::test]
async fn refused_values_leave_the_file_unchanged() {
    let home = home();
    for (key, value, parts) in [
        ("gateway.port", "99999", &["99999", "0 to 65535"][..]),
        ("gateway.port", "many", &["whole number"]),
        ("agents.defaults.consolidate", "maybe", &["true or false"]),
        ("sessions.durability", "ram", &["\"disk\", \"os\""]),
        (
            "channels.telegram.mode",
            "carrier",
            &["\"polling\", \"webhook\""],
        ),
        ("gateway", "{}", &["section"]),
        ("gateway.port", "null", &["config unset"]),
        ("gatway.port", "1", &["did you mean `gateway.port`?"]),
        (
            "tools.ssrfWhitelist",
            "[\"nowhere\"]",
            &["nothing was written", "nowhere"],
        ),
        (
            "cron.timezone",
            "Mars/Base",
            &["nothing was written: cron.timezone", "Mars/Base"],
        ),
        (
            "agents.defaults.timezone",
            "日本",
            &["nothing was written: agents.defaults.timezone", "日本"],
        ),
    ] {
        let run = home.run(&["config", "set", key, value]).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{key}: {}",
            run.stderr
        );
        assert_says(&run.stderr, parts);
        assert_says(&run.stderr, &["try:"]);
        assert_eq!(home.read("config.json"), FILE);
    }
    let run = home.run(&["config", "unset", "gateway.token"]).await;
    assert_eq!(run.code, 2);
    assert_says(&run.stderr, &["gateway.token", "is not in"]);
}

#[tokio::test]
async fn secret_is_read_from_a_pipe_and_never_shown() {
    let home = Home::new();
    let key = "providers.openai.apiKey";
    let piped = home
        .run_with_input(&["config", "set", key, "--stdin"], b"sk-secret-of-mine\n")
        .await;
    assert_eq!((piped.code, piped.stderr.as_str()), (0, ""));
    assert_says(&home.read("config.json"), &["sk-secret-of-mine"]);
    let typed = home.run(&["config", "set", key, "sk-another-secret"]).await;
    assert_eq!(typed.code, 0);
    assert_says(&typed.stderr, &["history of the shell", "--stdin"]);
    assert_says(&typed.stdout, &["\"***\" → \"***\""]);
    for text in [piped.stdout, typed.stdout, typed.stderr] {
        assert!(
            !text.contains("secret-of") && !text.contains("another-"),
            "{text}"
        );
    }
    let empty = home.run(&["config", "set", key, "--stdin"]).await;
    assert_says(&empty.stderr, &["standard input is empty"]);
}

#[tokio::test]
async fn set_warns_of_stronger_layers_and_unset_variables() {
    let home = home();
    let mut command = home.program();
    command
        .args(["config", "set", "gateway.port", "${PORT}"])
        .env("NANOBOT_GATEWAY__PORT", "1");
    let run = finish(command, b"").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stderr,
        &["environment variable NANOBOT_GATEWAY__PORT takes precedence"],
    );
    let run = home
        .run(&["config", "set", "gateway.host", "${HOST}"])
        .await;
    assert_says(&run.stderr, &["${HOST} is not set in the environment"]);
}

#[tokio::test]
async fn schema_lists_keys_and_schema_key_is_accepted() {
    let home = Home::new();
    home.configure(&json!({"$schema": "./schema.json"}));
    let run = home.run(&["config", "schema"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let schema: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let defaults = &schema["properties"]["agents"]["properties"]["defaults"]["properties"];
    assert_eq!(
        defaults["temperature"],
        json!({
            "description": "Sampling temperature. A local server gets it only if it is set, and uses the model's own otherwise.", "default": 0.1,
            "anyOf": [{"type": "number", "minimum": 0.0, "maximum": 2.0}, {"type": "null"}, {"$ref": "#/$defs/reference"}]
        })
    );
    let telegram = &schema["properties"]["channels"]["properties"]["telegram"]["properties"];
    assert_eq!(
        telegram["mode"]["anyOf"][0]["enum"],
        json!(["polling", "webhook"])
    );
    assert_eq!(telegram["allowFrom"]["anyOf"][0]["type"], "array");
    let status = home.run(&["status"]).await;
    assert!(!status.stdout.contains("$schema"), "{}", status.stdout);
}

#[tokio::test]
async fn reference_page_matches_the_registered_keys() {
    let run = Home::new().run(&["config", "reference"]).await;
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        run.stdout == written,
        "docs/reference.md is outdated: write it with `cargo run -q -p nanobot -- config reference > docs/reference.md`"
    );
}

#[tokio::test]
async fn unset_variable_is_named_by_every_command() {
    let home = Home::new();
    home.write(
        "config.json",
        "{\n  \"agents\": {\"defaults\": {\"model\": \"anthropic/claude-opus-4-5\"}},\n  \
         \"providers\": {\"anthropic\": {\n    \"apiKey\": \"${NOT_SET_HERE}\"\n  }}\n}\n",
    );
    let expected = format!(
        "{}:4:5: `providers.anthropic.apiKey` refers to ${{NOT_SET_HERE}}, which is not set in the environment",
        home.path().join("config.json").display()
    );
    for command in [
        &["agent", "-m", "hi"][..],
        &["gateway", "--port", "0"],
        &["status"],
        &["doctor"],
    ] {
        let run = home.run(command).await;
        assert_ne!(run.code, 0, "{command:?}: {}", run.stdout);
        assert_says(&(run.stdout + &run.stderr), &[&expected]);
    }
    home.write(
        "config.json",
        "{\n  \"channels\": {\"telegram\": {\n    \"enabled\": true,\n    \"token\": \"${NOT_SET_HERE}\"\n  }}\n}\n",
    );
    let expected = expected.replace("providers.anthropic.apiKey", "channels.telegram.token");
    for command in [
        &["channels", "test", "telegram"][..],
        &["gateway", "--port", "0"],
        &["status"],
        &["doctor"],
    ] {
        let run = home.run(command).await;
        assert_ne!(run.code, 0, "{command:?}: {}", run.stdout);
        assert_says(&(run.stdout + &run.stderr), &[&expected]);
    }
}

#[tokio::test]
async fn status_refuses_what_the_gateway_refuses() {
    let home = Home::new();
    home.configure(&json!({"gateway": {"port": 70000}}));
    let run = home.run(&["status"]).await;
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert_says(&run.stderr, &["`gateway.port`", "65535"]);
    home.configure(&json!({
        "agents": {"defaults": {"provider": "custom"}},
        "providers": {"custom": {"apiKey": "k", "apiBase": "127.0.0.1:1/v1"}}
    }));
    let run = home.run(&["status"]).await;
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert_says(&run.stderr, &["127.0.0.1:1/v1"]);
}

#[tokio::test]
async fn doctor_finds_two_listeners_on_one_port() {
    let home = Home::new();
    home.configure(&json!({
        "gateway": {"port": 8765},
        "channels": {"websocket": {"enabled": true, "token": "a-long-token-for-tests", "host": "0.0.0.0"}}
    }));
    let run = home.run(&["doctor"]).await;
    assert_says(
        &run.stdout,
        &[
            "gateway.port and channels.websocket.port are both 8765",
            "[gateway.ports]",
        ],
    );
}
