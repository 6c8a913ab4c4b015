//! Precedence of layers, types of text values, and messages about them.

use std::collections::BTreeMap;
use std::path::Path;

use nanobot_config::{ConfigError, Environment, Loader, Paths, ValueOrigin};
use serde_json::json;

use crate::home::{AgentDefaults, Exec, Gateway, Home, McpServer, Provider, Tools, schema};

#[test]
fn stronger_layer_wins_and_is_the_origin() {
    let file = r#"{"gateway": {"port": 1}}"#;
    let variable = ("NANOBOT_GATEWAY__PORT", "2");
    let option = ("gateway.port", "3");
    // file, environment, command line; the effective port; its origin
    let table = [
        (false, false, false, 18790, "built-in default"),
        (true, false, false, 1, "~/config.json:1:14"),
        (
            false,
            true,
            false,
            2,
            "environment variable NANOBOT_GATEWAY__PORT",
        ),
        (
            true,
            true,
            false,
            2,
            "environment variable NANOBOT_GATEWAY__PORT",
        ),
        (false, false, true, 3, "command line (gateway.port)"),
        (true, false, true, 3, "command line (gateway.port)"),
        (true, true, true, 3, "command line (gateway.port)"),
    ];
    for (in_file, in_environment, on_command_line, port, origin) in table {
        let mut home = if in_file {
            Home::with(file)
        } else {
            Home::empty()
        };
        if in_environment {
            home = home.variable(variable.0, variable.1);
        }
        if on_command_line {
            home = home.option(option.0, option.1);
        }
        let config = home.load().unwrap();
        let gateway: Gateway = config.section("gateway").unwrap();
        let expected = Gateway {
            port,
            ..Gateway::default()
        };
        assert_eq!(gateway, expected);
        assert_eq!(home.tilde(&config.origin("gateway.port").unwrap()), origin);
    }
}

#[test]
fn blank_values_are_absent_in_every_layer() {
    let home = Home::with(
        r#"{"agents": {"defaults": {"model": "", "maxTokens": null}}, "gateway": null}"#,
    )
    .variable("NANOBOT_GATEWAY__HOST", "");
    let config = home.load().unwrap();
    assert_eq!(
        config.section::<AgentDefaults>("agents.defaults").unwrap(),
        AgentDefaults::default()
    );
    assert_eq!(
        config.section::<Gateway>("gateway").unwrap(),
        Gateway::default()
    );
    assert!(!config.is_set("agents.defaults.model").unwrap());
    assert_eq!(config.findings(), []);
}

#[test]
fn empty_text_is_a_value_if_the_schema_allows() {
    let own = json!({"enabled": false, "proxy": null, "name": null});
    let schema = schema()
        .section("tools.web", &json!({"proxy": null}))
        .unwrap();
    let schema = schema
        .variants("channels", "kind", [("slack", own)])
        .unwrap();
    let schema = schema
        .empty_counts("tools.web.proxy")
        .empty_counts("channels.*.proxy");
    let home = Home::with(
        r#"{"tools": {"web": {"proxy": ""}}, "channels": {"slack": {"proxy": "", "name": ""},
            "two": {"kind": "slack", "proxy": null}, "telegram": {"proxy": ""}}}"#,
    );
    let config = home.load_with(schema.clone()).unwrap();
    let channel = |name: &str| config.raw(&format!("channels.{name}")).unwrap().unwrap();
    assert_eq!(
        channel("slack"),
        json!({"enabled": false, "proxy": "", "name": null})
    );
    assert_eq!(
        channel("two"),
        json!({"enabled": false, "proxy": null, "name": null, "kind": "slack"})
    );
    assert_eq!(channel("telegram").get("proxy"), None, "it has no such key");
    assert_eq!(
        config.explain("tools.web.proxy").unwrap()[0].value,
        Some(json!(""))
    );
    let blank = Home::with(r#"{"tools": {"web": {"proxy": null}}}"#)
        .variable("NANOBOT_TOOLS__WEB__PROXY", "");
    let config = blank.load_with(schema).unwrap();
    assert_eq!(
        config.explain("tools.web.proxy").unwrap()[0].value,
        Some(json!(null))
    );
}

#[test]
fn untyped_text_is_converted_to_the_section_type() {
    let home = Home::with(
        r#"{"gateway": {"port": "${PORT}"}, "agents": {"defaults": {"temperature": "${WARM}"}}}"#,
    )
    .variable("PORT", "8080")
    .variable("WARM", "1")
    .variable("NANOBOT_TOOLS__RESTRICT_TO_WORKSPACE", "No")
    .variable("NANOBOT_TOOLS__ALLOWED_PATHS", r#"["/a", "/b"]"#)
    .variable("NANOBOT_TOOLS__EXEC__PATH_APPEND", "123")
    .variable("NANOBOT_PROVIDERS__OPENAI__API_BASE", "456")
    .variable("NANOBOT_AGENTS__DEFAULTS__MAX_CONCURRENT_TURNS", "5")
    .variable("NANOBOT_AGENTS", r#"{"defaults": {"max_tokens": 7}}"#);
    let config = home.load().unwrap();
    assert_eq!(
        config.section::<Tools>("tools").unwrap(),
        Tools {
            restrict_to_workspace: false,
            allowed_paths: vec!["/a".into(), "/b".into()],
            exec: Exec {
                timeout: 0,
                path_append: "123".into()
            },
        }
    );
    assert_eq!(
        config.section::<Provider>("providers.openai").unwrap(),
        Provider {
            api_base: Some("456".into()),
            ..Provider::default()
        }
    );
    assert_eq!(
        config.section::<AgentDefaults>("agents.defaults").unwrap(),
        AgentDefaults {
            temperature: 1.0,
            max_concurrent_turns: Some(5),
            max_tokens: 7,
            ..AgentDefaults::default()
        }
    );
    assert_eq!(config.section::<Gateway>("gateway").unwrap().port, 8080);
}

#[test]
fn list_in_a_variable_needs_no_default() {
    let home = Home::empty().variable("NANOBOT_CHANNELS__TELEGRAM__ALLOW_FROM", r#"["1"]"#);
    let telegram = home
        .load()
        .unwrap()
        .raw("channels.telegram")
        .unwrap()
        .unwrap();
    assert_eq!(telegram["allowFrom"], json!(["1"]));
}

#[test]
fn inconvertible_variable_is_an_error_with_its_name() {
    let table = [
        (
            "NANOBOT_TOOLS__RESTRICT_TO_WORKSPACE",
            "perhaps",
            "`tools.restrictToWorkspace` is the text \"perhaps\", but true or false is wanted",
        ),
        (
            "NANOBOT_TOOLS__ALLOWED_PATHS",
            "/a",
            "`tools.allowedPaths` is the text \"/a\", but a list […] is wanted",
        ),
        (
            "NANOBOT_TOOLS__EXEC__TIMEOUT",
            "-1",
            "`tools.exec.timeout` is the number -1, but a whole number, zero or more is wanted",
        ),
    ];
    for (variable, text, message) in table {
        let config = Home::empty().variable(variable, text).load().unwrap();
        let error = config.section::<Tools>("tools").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("environment variable {variable}: {message}")
        );
    }
}

#[test]
fn references_are_resolved_in_memory_on_access() {
    let home = Home::with(
        r#"{
  "providers": {"openai": {"apiKey": "pre-${KEY}", "extraHeaders": {"X-A": "${KEY}"}},
                "mine": {"apiKey": "${MISSING}"}},
  "tools": {"mcpServers": {"files": {"env": {"EMPTY": "", "K": "${KEY}"}}}}
}"#,
    )
    .variable("KEY", "word")
    .variable("NANOBOT_PROVIDERS__OPENAI__API_BASE", "literal-${KEY}");
    let config = home.load().unwrap();
    assert_eq!(
        config.section::<Provider>("providers.openai").unwrap(),
        Provider {
            api_key: "pre-word".into(),
            api_base: Some("literal-${KEY}".into()),
            extra_headers: Some(BTreeMap::from([("X-A".into(), "word".into())])),
        }
    );
    let server: McpServer = config.section("tools.mcpServers.files").unwrap();
    assert_eq!(
        server.env,
        BTreeMap::from([("EMPTY".into(), String::new()), ("K".into(), "word".into())])
    );
    let error = config.section::<Provider>("providers.mine").unwrap_err();
    assert_eq!(
        home.tilde(&error),
        "~/config.json:3:26: `providers.mine.apiKey` refers to ${MISSING}, which is not set in the environment"
    );
    assert!(config.draft().text().contains("pre-${KEY}"));
}

#[test]
fn nested_references_are_refused() {
    let home = Home::with(r#"{"providers": {"openai": {"apiKey": "${A_${KEY}}"}}}"#)
        .variable("KEY", "word");
    let error = home
        .load()
        .unwrap()
        .section::<Provider>("providers.openai")
        .unwrap_err();
    assert_eq!(
        home.tilde(&error),
        "~/config.json:1:27: `providers.openai.apiKey` has a reference inside another one, `${A_${KEY}`"
    );
}

#[test]
fn errors_and_debug_output_contain_no_secret() {
    let home = Home::with(
        r#"{"providers": {"openai": {"apiKey": {"a": "hunter2"}, "apiBase": ["hunter2"]}}, "gateway": {"port": "${PASS}"}}"#,
    )
    .variable("PASS", "hunter2");
    let config = home.load().unwrap();
    let errors = [
        config.section::<Provider>("providers.openai").unwrap_err(),
        config.section::<Gateway>("gateway").unwrap_err(),
    ];
    for error in errors {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    assert!(!format!("{config:?} {:?}", home.environment()).contains("hunter2"));
}

#[test]
fn unknown_override_is_refused_with_a_suggestion() {
    let error = Home::empty()
        .option("gateway.prot", "1")
        .load()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no key `gateway.prot`; did you mean `port`?"
    );
}

#[test]
fn explicit_config_file_must_exist() {
    let home = Home::empty();
    let config = home.load().unwrap();
    assert_eq!(
        (config.has_file(), config.workspace().unwrap()),
        (false, home.paths().default_workspace)
    );
    let paths = Paths::resolve(&home.environment(), Some(Path::new("other.json"))).unwrap();
    let error = Loader::new(schema(), paths, home.environment())
        .load()
        .unwrap_err();
    assert!(
        matches!(error, ConfigError::Missing { path } if path == Path::new("/work/other.json"))
    );
}

#[test]
fn unreadable_file_is_an_error() {
    let home = Home::empty();
    std::fs::create_dir(home.file()).unwrap();
    let error = home.load().unwrap_err();
    assert!(matches!(&error, ConfigError::Read { .. }), "{error}");
    assert_eq!(home.tilde(&error), "~/config.json: cannot be read");
}

#[test]
fn data_folder_follows_the_file_and_home_the_variable() {
    let ann = |variables: &[(&str, &str)]| {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::new(variables, Some("/people/ann".into()), "/work".into())
    };
    let plain = Paths::resolve(&ann(&[]), None).unwrap();
    assert_eq!(
        plain.config_file,
        Path::new("/people/ann/.nanobot/config.json")
    );
    assert_eq!(plain.data_dir, plain.home);
    let moved = Paths::resolve(
        &ann(&[("NANOBOT_HOME", "/srv/bot")]),
        Some(Path::new("~/b/c.json")),
    )
    .unwrap();
    assert_eq!(
        [
            &moved.home,
            &moved.data_dir,
            &moved.state_db,
            &moved.history,
            &moved.logs
        ],
        [
            Path::new("/srv/bot"),
            Path::new("/people/ann/b"),
            Path::new("/people/ann/b/state.db"),
            Path::new("/srv/bot/history/cli_history"),
            Path::new("/people/ann/b/logs"),
        ]
    );
    let table = [
        ("~/.nanobot/workspace", "/srv/bot/workspace"),
        ("~/notes", "/people/ann/notes"),
        ("/abs", "/abs"),
        ("here/./there", "/work/here/there"),
        ("~", "/people/ann"),
    ];
    for (text, path) in table {
        assert_eq!(moved.expand(text), Path::new(path), "{text}");
    }
    let nobody = Environment::new([], None, "/work".into());
    assert!(matches!(
        Paths::resolve(&nobody, None),
        Err(ConfigError::NoHome)
    ));
}

#[test]
fn explanation_lists_every_layer_without_secrets() {
    let home = Home::with(
        r#"{
  "providers": {"openai": {"apiKey": "abc", "apiBase": ""}},
  "agents": {"defaults": {"model": "m", "botName": "Bo"}}
}"#,
    )
    .variable("NANOBOT_AGENTS__DEFAULTS__MODEL", "n");
    let config = home.load().unwrap();
    let explanation_of = |key: &str| {
        let lines: Vec<String> = config
            .explain(key)
            .unwrap()
            .iter()
            .map(|explanation| home.tilde(explanation))
            .collect();
        lines.join("\n")
    };
    assert_eq!(
        explanation_of("agents.defaults.model"),
        "agents.defaults.model = \"n\"\n  type       text\n  set by     environment variable NANOBOT_AGENTS__DEFAULTS__MODEL\n  default    \"anthropic/claude-opus-4-5\"\n  overrides  \"m\" from ~/config.json:3:27"
    );
    assert_eq!(
        explanation_of("providers.openai"),
        "providers.openai.apiBase = (not set)\n  type       any\n  set by     built-in default\n  default    (not set)\n  blank      ~/config.json:2:45 (counts as absent)\n\
         providers.openai.apiKey = \"***\"\n  type       text\n  set by     ~/config.json:2:28\n  default    \"\"\n\
         providers.openai.extraBody = (not set)\n  type       any\n  set by     built-in default\n  default    (not set)\n\
         providers.openai.extraHeaders = (not set)\n  type       any\n  set by     built-in default\n  default    (not set)\n\
         providers.openai.extraQuery = (not set)\n  type       any\n  set by     built-in default\n  default    (not set)"
    );
    assert_eq!(
        explanation_of("agents.defaults.bot_name"),
        "agents.defaults.botName = \"Bo\"\n  type       any\n  set by     ~/config.json:3:41\n  default    (not set)\n  note       kept, but not read by this version"
    );
    let error = config.explain("agents.defaults.maxToken").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no key `agents.defaults.maxToken`; did you mean `agents.defaults.maxTokens`?"
    );
    assert_eq!(
        config.show()["providers"],
        json!({"openai": {"apiBase": null, "apiKey": "***", "extraHeaders": null}})
    );
}

#[test]
fn origin_names_file_line_and_column() {
    let home = Home::with("{\n  \"gateway\": {\"port\": 5}\n}");
    let config = home.load().unwrap();
    let expected = ValueOrigin::File {
        path: home.file(),
        line: 2,
        column: 15,
    };
    assert_eq!(config.origin("gateway.port").unwrap(), expected);
    assert_eq!(config.origin("gateway.host").unwrap(), ValueOrigin::Default);
    let config = home.variable("NANOBOT_GATEWAY__HOST", "h").load().unwrap();
    let variable = "NANOBOT_GATEWAY__HOST".to_owned();
    assert_eq!(
        config.origin("gateway").unwrap(),
        ValueOrigin::Environment { variable }
    );
}
