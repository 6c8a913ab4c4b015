//! `config`, `status`, `onboard`, and invalid configurations.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Home, assert_says, finish};

#[tokio::test]
async fn config_path_is_printed_even_for_a_broken_file() {
    let home = Home::new();
    let expected = format!("{}\n", home.path().join("config.json").display());
    assert_eq!(home.run(&["config", "path"]).await.stdout, expected);
    home.write("config.json", "{");
    assert_eq!(home.run(&["config", "path"]).await.stdout, expected);
}

#[tokio::test]
async fn config_show_hides_secrets_and_explain_names_the_line() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let shown = home.run(&["config", "show"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let custom = &shown["providers"]["custom"];
    assert_eq!(
        (&custom["apiKey"], &custom["apiBase"]),
        (&json!("***"), &json!("http://127.0.0.1:1/v1"))
    );
    let mut command = home.program();
    command
        .args(["config", "explain", "agents.defaults.model"])
        .env("NANOBOT_AGENTS__DEFAULTS__MODEL", "other");
    let run = finish(command, b"").await;
    let file = home.path().join("config.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &[
            "agents.defaults.model = \"other\"",
            "environment variable NANOBOT_AGENTS__DEFAULTS__MODEL",
            &format!("\"test-model\" from {}:4:7", file.display()),
        ],
    );
    let unknown = home
        .run(&["config", "explain", "agents.defaults.modle"])
        .await;
    assert_eq!(unknown.code, 2);
    assert_says(
        &unknown.stderr,
        &["did you mean `agents.defaults.model`?", "try:"],
    );
}

#[tokio::test]
async fn broken_configuration_exits_with_its_position() {
    let home = Home::new();
    let file = home.path().join("config.json").display().to_string();
    for (text, parts) in [
        ("{\n  \"agents\": {,}\n}", &[":2:"][..]),
        (
            "{\n  \"gateway\": {\n    \"port\": \"many\"\n  }\n}",
            &[":3:", "`gateway.port`"],
        ),
        (
            "{\n  \"agents\": {\"defaults\": {\"maxTokens\": \"1\"}}\n}",
            &[":2:", "`agents.defaults.maxTokens`"],
        ),
        (
            "{\"providers\": {\"custom\": {\"apiKey\": \"${NOT_SET}\"}}, \"agents\": {\"defaults\": {\"provider\": \"custom\"}}}",
            &["NOT_SET", "providers.custom.apiKey"],
        ),
        ("[]", &["an object"]),
    ] {
        home.write("config.json", text);
        let command = if text.contains("gateway") {
            vec!["gateway"]
        } else {
            vec!["agent", "-m", "hello"]
        };
        let run = home.run(&command).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{text}: {}",
            run.stderr
        );
        assert_says(&run.stderr, &[&file, "try:"]);
        assert_says(&run.stderr, parts);
        assert_eq!(home.read("config.json"), text, "the file is not changed");
    }
    let missing = home.run(&["status", "--config", "elsewhere.json"]).await;
    assert_eq!(missing.code, 2);
    assert_says(&missing.stderr, &["elsewhere.json: there is no such file"]);
}

#[tokio::test]
async fn unknown_key_warns_with_line_and_suggestion() {
    let home = Home::new();
    home.write(
        "config.json",
        "{\n  \"agents\": {\"defaults\": {\n    \"modle\": \"x\"}}\n}",
    );
    let run = home.run(&["agent", "--demo", "-m", "hello"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stderr,
        &[
            "warning:",
            "config.json:3:",
            "`agents.defaults.modle`",
            "did you mean `model`?",
        ],
    );
}

#[tokio::test]
async fn onboard_creates_a_home_and_refresh_keeps_settings() {
    let home = Home::new();
    let planned = home.run(&["onboard", "--dry-run"]).await;
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    assert_says(&planned.stdout, &["would be created"]);
    assert_eq!(
        home.names("."),
        Vec::<String>::new(),
        "a dry run writes nothing"
    );

    let made = home.run(&["onboard"]).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_says(&made.stdout, &["✓ Wrote", "nanobot agent"]);
    assert!(home.workspace().join("AGENTS.md").is_file());
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(
        config,
        json!({"$schema": "./config.schema.json", "agents": {"defaults": {}}, "providers": {}, "channels": {}}),
        "a new file has no defaults"
    );

    home.configure(&json!({
        "agents": {"defaults": {"model": "mine"}}, "notes": "kept", "channels": {"telegram": {"enabled": false}},
    }));
    let refreshed = home.run(&["onboard", "--refresh"]).await;
    assert_eq!(refreshed.code, 0, "{}", refreshed.stderr);
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(
        (&config["agents"]["defaults"]["model"], &config["notes"]),
        (&json!("mine"), &json!("kept"))
    );
    assert_eq!(config["channels"]["telegram"]["token"], json!(""));
    assert_eq!(config["tools"], Value::Null, "no section is added");
    assert_eq!(
        home.names(".")
            .iter()
            .filter(|name| name.starts_with("config.json.bak-"))
            .count(),
        1
    );

    let replaced = home.run(&["onboard", "--overwrite"]).await;
    assert_eq!(replaced.code, 0, "{}", replaced.stderr);
    assert!(!home.read("config.json").contains("mine"));
}

#[tokio::test]
async fn overwrite_replaces_a_file_that_is_not_json() {
    let home = Home::new();
    home.write("config.json", "this is not JSON");
    let refused = home.run(&["onboard"]).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    let replaced = home.run(&["onboard", "--overwrite"]).await;
    assert_eq!(replaced.code, 0, "{replaced:?}");
    serde_json::from_str::<Value>(&home.read("config.json")).unwrap();
    let backups: Vec<String> = home
        .names(".")
        .into_iter()
        .filter(|name| name.starts_with("config.json.bak-"))
        .collect();
    assert_eq!(backups.len(), 1, "{backups:?}");
    assert_eq!(home.read(&backups[0]), "this is not JSON");
}

#[tokio::test]
async fn configuration_alone_is_not_reported_as_an_older_home() {
    let home = Home::new();
    home.configure(&json!({"agents": {"defaults": {"temperature": 0.2}}}));
    let run = home.run(&["agent", "--demo", "-m", "hello"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains("sessions:"), "{}", run.stderr);
    assert!(
        !home
            .names(".")
            .iter()
            .any(|name| name.starts_with("config.json.bak-")),
        "{:?}",
        home.names(".")
    );
}

#[tokio::test]
async fn unnamed_model_is_that_of_the_vendor_with_a_key() {
    let home = Home::new();
    let status = async |variables: &[(&str, &str)]| {
        let mut program = home.program();
        program.arg("status");
        program.envs(variables.iter().copied());
        finish(program, b"").await.stdout
    };
    let openai = ("OPENAI_API_KEY", "sk-0123456789abcdef");
    let gemini = ("GEMINI_API_KEY", "AIza0123456789abcdef");
    assert_says(&status(&[openai]).await, &["gpt-4.1 (openai, by default)"]);
    assert_says(
        &status(&[gemini]).await,
        &["gemini-2.5-flash (gemini, by default)"],
    );
    assert_says(
        &status(&[gemini, openai]).await,
        &["gpt-4.1 (openai, by default; also set up: gemini)"],
    );
    home.configure(&json!({"providers": {"deepseek": {"apiKey": "sk-0123456789abcdef"}}}));
    assert_says(
        &status(&[openai]).await,
        &["deepseek-chat (deepseek, by default; also set up: openai)"],
    );
}

#[tokio::test]
async fn onboard_accepts_config_and_workspace_options() {
    let home = Home::new();
    let run = home
        .run(&[
            "onboard",
            "--config",
            "second/config.json",
            "--workspace",
            "work",
        ])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let root = home.path().parent().unwrap().to_path_buf();
    assert!(root.join("second/config.json").is_file());
    assert!(root.join("work/AGENTS.md").is_file());
    assert!(
        fs::metadata(home.path()).is_err(),
        "the default home is not changed"
    );
}

#[tokio::test]
async fn status_shows_paths_and_model_without_secrets() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let run = home.run(&["status"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &[
            "config.json ✓",
            "workspace ✗",
            "test-model",
            "http://127.0.0.1:1/v1",
        ],
    );
    assert!(!run.stdout.contains("test-key"));
    let status: Value =
        serde_json::from_str(&home.run(&["status", "--json"]).await.stdout).unwrap();
    assert_eq!(status["version"], json!(env!("CARGO_PKG_VERSION")));
    assert_eq!(
        status["config"],
        json!({"path": home.path().join("config.json"), "exists": true})
    );
}

/// Runs commands in a home with this configuration, and checks that each refuses it with code 2.
async fn assert_refused(config: &Value, commands: &[&[&str]], parts: &[&str]) {
    for arguments in commands {
        let home = Home::new();
        home.configure(config);
        // A gateway of another test may listen on the usual port.
        let port: &[&str] = match *arguments {
            ["gateway"] => &["--port", "0"],
            _ => &[],
        };
        let run = home.run(&[*arguments, port].concat()).await;
        assert_eq!(run.code, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert_says(&run.stderr, parts);
    }
}

#[tokio::test]
async fn mistyped_provider_gets_a_suggestion_everywhere() {
    let section = json!({"providers": {"opnai": {"apiKey": "test-key"}}});
    let commands = [&["status"][..], &["gateway"], &["agent", "-m", "hello"]];
    let parts = ["providers.opnai", "did you mean \"openai\"?"];
    assert_refused(&section, &commands, &parts).await;
    let home = Home::new();
    home.configure(&section);
    let run = home.run(&["doctor"]).await;
    assert_says(&run.stdout, &parts);
    let named = json!({
        "agents": {"defaults": {"provider": "opnai"}},
        "providers": {"openai": {"apiKey": "test-key"}},
    });
    let parts = ["there is no provider \"opnai\"", "\"openai\""];
    assert_refused(&named, &commands, &parts).await;
    let set = ["config", "set", "agents.defaults.provider", "opnai"];
    assert_refused(&json!({}), &[&set], &parts).await;
    let home = Home::new();
    let set = ["config", "set", "agents.defaults.provider", "openai"];
    assert_eq!(home.run(&set).await.code, 0);
}

#[tokio::test]
async fn impossible_ports_and_addresses_are_refused_with_their_place() {
    let commands = [&["status"][..], &["gateway"]];
    for kind in ["websocket", "email"] {
        let key = match kind {
            "email" => "smtpPort",
            _ => "port",
        };
        let config = json!({"channels": {kind: {"enabled": true, key: 70000}}});
        let key = format!("channels.{kind}.{key}");
        let parts = ["config.json:5:", key.as_str(), "70000", "65535"];
        assert_refused(&config, &commands, &parts).await;
    }
    let config = json!({"providers": {
        "openai": {"apiKey": "test-key"},
        "lab": {"apiBase": "localhost:9000"},
    }});
    let parts = ["config.json:", "providers.lab.apiBase", "localhost:9000"];
    assert_refused(&config, &commands, &parts).await;
    let set = ["config", "set", "providers.lab.apiBase", "localhost:9000"];
    assert_refused(&json!({}), &[&set], &parts[1..]).await;
    let config = json!({"channels": {"sendTimeoutS": "x"}});
    assert_refused(&config, &commands, &["config.json:3:", "sendTimeoutS"]).await;
}

#[tokio::test]
async fn settings_without_effect_are_reported() {
    let home = Home::new();
    home.configure(&json!({
        "channels": {"lifecycleNotices": {"tell": ["bad"]}},
        "transcription": {"provider": "zzz"},
    }));
    for arguments in [["status"], ["doctor"]] {
        let run = home.run(&arguments).await;
        let text = run.stdout + &run.stderr;
        assert_says(
            &text,
            &["lifecycleNotices.tell", "\"bad\"", "transcription.provider"],
        );
    }
}

#[tokio::test]
async fn unusable_configuration_ends_with_the_code_that_stops_a_service() {
    let home = Home::new();
    home.write("file", "not a folder");
    let file = home.path().join("file");
    for config in [
        json!({"gateway": {"host": "everywhere"}}),
        json!({"agents": {"defaults": {"workspace": file}}}),
    ] {
        home.configure(&config);
        let run = home.run(&["gateway", "--port", "0"]).await;
        assert_eq!(run.code, 2, "{config}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn service_names_the_variables_of_the_shell() {
    let home = Home::new();
    home.configure(&json!({"providers": {"openai": {"apiKey": "test-key"}}}));
    let mut command = home.program();
    command
        .args(["gateway", "install-service", "--dry-run"])
        .env("ANTHROPIC_API_KEY", "sk-ant-secret")
        .env("OPENAI_API_KEY", "sk-unused")
        .env("NANOBOT_AGENTS__DEFAULTS__MODEL", "some-model")
        .env("NANOBOT_HOME", home.path());
    let run = finish(command, b"").await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stderr,
        &[
            "ANTHROPIC_API_KEY, NANOBOT_AGENTS__DEFAULTS__MODEL.",
            "service",
        ],
    );
    for hidden in ["sk-ant-secret", "some-model", "OPENAI", "NANOBOT_HOME"] {
        assert!(!run.stderr.contains(hidden), "{}", run.stderr);
    }
}
