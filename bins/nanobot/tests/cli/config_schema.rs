//! The JSON Schema beside the configuration, as an editor uses it.

use serde_json::{Value, json};

use crate::support::{Home, assert_says};

const FILE: &str = "config.schema.json";
const LINE: &str = "\"$schema\": \"./config.schema.json\"";

/// Returns the violations of the keywords that the schema uses; any other keyword is one, too.
fn violations(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let fits = |one: &Value| violations(root, one, value, path).is_empty();
        let is_kept = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "type" => {
                let names = rule.as_array().cloned().unwrap_or(vec![rule.clone()]);
                names
                    .iter()
                    .any(|name| is_of(value, name.as_str().unwrap()))
            }
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
            // The only pattern is that of a reference.
            "pattern" => value
                .as_str()
                .is_none_or(|text| text.starts_with("${") && text.ends_with('}')),
            "items" => {
                let items = value.as_array().into_iter().flatten();
                let wrong = items.flat_map(|item| violations(root, rule, item, path));
                found.extend(wrong);
                true
            }
            "anyOf" => rule.as_array().unwrap().iter().any(fits),
            "allOf" => rule.as_array().unwrap().iter().all(fits),
            "required" => {
                let names = rule.as_array().unwrap().iter();
                value.as_object().is_none_or(|map| {
                    names
                        .map(|name| name.as_str().unwrap())
                        .all(|name| map.contains_key(name))
                })
            }
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                let target = root.pointer(pointer).expect("a reference leads somewhere");
                found.extend(violations(root, target, value, path));
                true
            }
            "if" => {
                if fits(rule) {
                    found.extend(violations(root, &schema["then"], value, path));
                }
                true
            }
            "then" => schema.get("if").is_some(),
            "properties" | "additionalProperties" => {
                let known = schema["properties"].as_object();
                for (name, below) in value.as_object().into_iter().flatten() {
                    let property = known.and_then(|known| known.get(name));
                    let rule = match keyword.as_str() {
                        "properties" => property,
                        _ => Some(rule).filter(|_| property.is_none()),
                    };
                    let below =
                        rule.map(|rule| violations(root, rule, below, &format!("{path}.{name}")));
                    found.extend(below.into_iter().flatten());
                }
                true
            }
            _ => false,
        };
        if !is_kept {
            found.push(format!("{path}: {keyword} {rule}"));
        }
    }
    found
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// Validates the file of a home by the schema that it names, as an editor does.
fn check(home: &Home) -> Vec<String> {
    let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    let named = config["$schema"].as_str().unwrap();
    let schema: Value = serde_json::from_str(&home.read(named)).unwrap();
    violations(&schema, &schema, &config, "")
}

#[tokio::test]
async fn new_file_names_a_schema_that_it_satisfies() {
    let home = Home::new();
    let run = home.run(&["onboard", "--non-interactive"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &[FILE]);
    let begin = format!("{{\n  {LINE},\n");
    assert!(home.read("config.json").starts_with(&begin));
    assert_eq!(
        home.read(FILE),
        home.run(&["config", "schema"]).await.stdout
    );
    assert_eq!(check(&home), Vec::<String>::new());
    for (key, value) in [
        ("gateway.port", "8080"),
        ("gateway.host", "${HOST}"),
        ("channels.telegram.allowFrom", "[\"7\", 8]"),
        ("channels.second.kind", "telegram"),
        ("channels.second.mode", "polling"),
        ("providers.custom.extraHeaders.X-Team", "blue"),
        ("tools.exec.timeout", "5"),
    ] {
        let run = home.run(&["config", "set", key, value]).await;
        assert_eq!(run.code, 0, "{key}: {}", run.stderr);
        assert_eq!(check(&home), Vec::<String>::new(), "{key}");
    }
    // The check finds what an editor has to underline.
    for (wrong, at) in [
        (json!({"gateway": {"port": "many"}}), ".gateway.port: anyOf"),
        (json!({"gateway": {"port": 99999}}), ".gateway.port: anyOf"),
        (
            json!({"channels": {"telegram": {"mode": "carrier"}}}),
            ".channels.telegram.mode: anyOf",
        ),
        (json!({"$schema": 1}), ".$schema: anyOf"),
    ] {
        let schema: Value = serde_json::from_str(&home.read(FILE)).unwrap();
        let found = violations(&schema, &schema, &wrong, "");
        assert!(found.iter().any(|one| one.starts_with(at)), "{found:?}");
    }
    for command in ["status", "doctor"] {
        let run = home.run(&[command]).await;
        let text = run.stdout + &run.stderr;
        assert!(!text.contains("schema"), "{command}: {text}");
    }
}

#[tokio::test]
async fn schema_follows_the_program() {
    let home = Home::new();
    let run = home.run(&["config", "set", "gateway.port", "1"]).await;
    assert_says(&run.stdout, &[FILE]);
    assert_eq!(check(&home), Vec::<String>::new());
    let current = home.read(FILE);
    home.write(FILE, "{\"title\": \"nanobot configuration\"}");
    let run = home.run(&["config", "set", "gateway.port", "2"]).await;
    assert_says(&run.stdout, &[FILE]);
    assert_eq!(home.read(FILE), current);
    let run = home.run(&["config", "set", "gateway.port", "3"]).await;
    assert!(!run.stdout.contains(FILE), "{}", run.stdout);
    // A failure costs only the help of the editor.
    home.write(FILE, "mine");
    let run = home.run(&["config", "set", "gateway.port", "4"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stderr, &["warning: ", FILE, "not replaced", "try:"]);
    assert_eq!(home.read(FILE), "mine");
    let run = home.run(&["onboard", "--overwrite"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stderr, &["warning: ", FILE]);
    assert!(home.read("config.json").contains(LINE));
}

#[tokio::test]
async fn existing_file_gets_no_schema_unasked() {
    let home = Home::new();
    let run = home.run(&["config", "schema", "--write"]).await;
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert_says(&run.stderr, &["config.json", "nanobot onboard"]);
    home.write("config.json", "{\"gateway\": {\"port\": 1}}");
    for arguments in [
        &["config", "set", "gateway.port", "2"][..],
        &["onboard", "--non-interactive"],
        &["onboard", "--refresh"],
    ] {
        let run = home.run(arguments).await;
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        assert!(!home.read("config.json").contains("$schema"));
        assert!(!home.names(".").contains(&FILE.to_owned()));
    }
    let before = home.read("config.json");
    let run = home.run(&["config", "schema", "--write"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["✓ Wrote ", FILE, LINE]);
    assert_eq!(home.read("config.json"), before);
    home.write(
        "config.json",
        &before.replacen('{', &format!("{{{LINE},"), 1),
    );
    assert_eq!(check(&home), Vec::<String>::new());
    let run = home.run(&["config", "schema", "--write"]).await;
    assert_says(&run.stdout, &["needed nothing"]);
    assert!(!run.stdout.contains(LINE), "{}", run.stdout);
    home.write(FILE, "{}");
    let run = home.run(&["config", "schema", "--write"]).await;
    assert_eq!((run.code, home.read(FILE).as_str()), (1, "{}"));
    assert_says(&run.stderr, &["was not written by nanobot", "try: Rename"]);
    let run = home.run(&["config", "explain", "$schema"]).await;
    assert_says(&run.stdout, &["meaning    JSON Schema", "type       text"]);
    let run = home.run(&["config", "unset", "$schema"]).await;
    assert_says(&run.stdout, &["Only editors read it."]);
}
