//! Secrets in files and from commands.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nanobot_config::{Config, ConfigError, Environment, Loader, Paths, Schema};
use serde_json::{Value, json};

fn loaded(home: &Path, file: &Value, variables: &[(&str, &str)]) -> Config {
    let path = home.join("config.json");
    fs::write(&path, file.to_string()).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let path_variable = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let variables = variables.chain([path_variable]);
    let environment = Environment::new(variables, Some(home.into()), "/".into());
    let paths = Paths::resolve(&environment, Some(&path)).unwrap();
    let defaults = json!({"token": "", "name": ""});
    let schema = Schema::new().section("bot", &defaults).unwrap();
    Loader::new(schema, paths, environment).load().unwrap()
}

/// Returns the values of the section, or the reason why there are none.
fn bot(config: &Config) -> Result<Value, String> {
    match config.section::<Value>("bot") {
        Ok(bot) => Ok(bot),
        Err(ConfigError::ExternalSecret { key, reason, .. }) => Err(format!("{key}: {reason}")),
        Err(other) => Err(other.to_string()),
    }
}

fn token(config: &Config) -> Result<String, String> {
    let text = |bot: Value| bot.get("token").and_then(Value::as_str).map(str::to_owned);
    bot(config).map(|bot| text(bot).unwrap())
}

fn secret_file(home: &Path, name: &str, content: &[u8], mode: u32) -> String {
    let path = home.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    format!("file:{}", path.display())
}

#[test]
fn secret_files_are_read_and_checked() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let file = |name: &str, content: &[u8], mode| secret_file(root, name, content, mode);
    let own = format!("{}/", root.display());
    let table = [
        (file("a", b"word of it\r\n", 0o600), Ok("word of it")),
        (file("b", b" kept \n", 0o400), Ok(" kept ")),
        ("file:~/a".to_owned(), Ok("word of it")),
        (
            file("c", b"x", 0o640),
            Err("bot.token: other users may read HOME/c: run `chmod 600 HOME/c`"),
        ),
        (
            file("d", b"x", 0o604),
            Err("bot.token: other users may read HOME/d: run `chmod 600 HOME/d`"),
        ),
        (file("e", b"\n", 0o600), Err("bot.token: HOME/e is empty")),
        (
            file("f", &vec![b'x'; (64 << 10) + 1], 0o600),
            Err("bot.token: HOME/f has more than 64 KiB"),
        ),
        (
            file("g", b"\xff\xfe", 0o600),
            Err("bot.token: HOME/g is not UTF-8 text"),
        ),
        (
            format!("file:{own}none"),
            Err("bot.token: HOME/none does not exist"),
        ),
        (
            format!("file:{}", root.display()),
            Err("bot.token: HOME is not a regular file"),
        ),
        (
            "file:a".to_owned(),
            Err("bot.token: `file:` needs an absolute path, or one that begins with ~/"),
        ),
        ("literal:file:a".to_owned(), Ok("file:a")),
    ];
    for (reference, expected) in table {
        let config = loaded(root, &json!({"bot": {"token": reference}}), &[]);
        let found =
            token(&config).map_err(|reason| reason.replace(&root.display().to_string(), "HOME"));
        assert_eq!(
            found.as_deref().map_err(String::as_str),
            expected,
            "{reference}"
        );
    }
}

#[test]
fn only_secrets_of_the_file_are_references() {
    let home = tempfile::tempdir().unwrap();
    let reference = secret_file(home.path(), "a", b"word-of-it", 0o600);
    let config = loaded(home.path(), &json!({"bot": {"name": reference}}), &[]);
    assert_eq!(bot(&config).unwrap().get("name"), Some(&json!(reference)));
    let variable = [
        ("NANOBOT_BOT__TOKEN", reference.as_str()),
        ("OTHER", reference.as_str()),
    ];
    let config = loaded(home.path(), &json!({}), &variable);
    assert_eq!(token(&config).unwrap(), reference);
    let config = loaded(
        home.path(),
        &json!({"bot": {"token": "${OTHER}"}}),
        &variable[1..],
    );
    assert_eq!(token(&config).unwrap(), reference);
}

#[test]
fn resolved_secrets_are_collected_and_never_shown_or_written() {
    let home = tempfile::tempdir().unwrap();
    let reference = secret_file(home.path(), "a", b"word-of-it\n", 0o600);
    let config = loaded(
        home.path(),
        &json!({"bot": {"token": reference, "name": "n"}}),
        &[],
    );
    let values: Vec<String> = config
        .secrets()
        .into_iter()
        .map(|secret| secret.value)
        .collect();
    assert_eq!(values, ["word-of-it"]);
    let shown = config.show().to_string() + &format!("{:?}", config.explain("bot.token").unwrap());
    assert!(
        shown.contains(&reference) && !shown.contains("word-of-it"),
        "{shown}"
    );
    let edit = config.edit_to("bot.name", "other").unwrap();
    edit.save(chrono::Utc::now()).unwrap();
    let saved = fs::read_to_string(home.path().join("config.json")).unwrap();
    assert!(
        saved.contains(&reference) && !saved.contains("word-of-it"),
        "{saved}"
    );
}

#[test]
fn reload_reads_the_file_again_and_one_load_reads_it_once() {
    let home = tempfile::tempdir().unwrap();
    let reference = secret_file(home.path(), "a", b"first-word", 0o600);
    let file = json!({"bot": {"token": reference}});
    let config = loaded(home.path(), &file, &[]);
    assert_eq!(token(&config).unwrap(), "first-word");
    secret_file(home.path(), "a", b"second-word", 0o600);
    assert_eq!(token(&config).unwrap(), "first-word");
    assert_eq!(
        token(&loaded(home.path(), &file, &[])).unwrap(),
        "second-word"
    );
}

#[test]
fn commands_run_without_a_shell_and_with_a_small_environment() {
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("ask");
    fs::write(&script, "#!/bin/sh\necho \"$1|$HOME|$HIDDEN_KEY\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let home_text = home.path().display().to_string();
    let table = [
        (
            format!("exec:{} $x;y", script.display()),
            Ok(format!("$x;y|{home_text}|")),
        ),
        ("exec:~/ask a".to_owned(), Ok(format!("a|{home_text}|"))),
        ("exec:echo some word".to_owned(), Ok("some word".to_owned())),
        (
            "exec:false".to_owned(),
            Err("bot.token: `false` failed: exit status: 1".to_owned()),
        ),
        (
            "exec:true".to_owned(),
            Err("bot.token: the output of `true` is empty".to_owned()),
        ),
        (
            "exec:yes".to_owned(),
            Err("bot.token: the output of `yes` has more than 64 KiB".to_owned()),
        ),
        (
            "exec:".to_owned(),
            Err("bot.token: `exec:` needs a command".to_owned()),
        ),
        (
            "exec:./ask".to_owned(),
            Err("bot.token: `exec:` needs the name of a program or its absolute path".to_owned()),
        ),
    ];
    for (reference, expected) in table {
        let file = json!({"bot": {"token": reference}});
        let variables = [("HOME", home_text.as_str()), ("HIDDEN_KEY", "k")];
        let config = loaded(home.path(), &file, &variables);
        assert_eq!(token(&config), expected, "{reference}");
        assert!(!config.show().to_string().contains("exec"), "{reference}");
    }
    let config = loaded(
        home.path(),
        &json!({"bot": {"token": "exec:no-such-program-here"}}),
        &[],
    );
    assert!(
        token(&config)
            .unwrap_err()
            .starts_with("bot.token: `no-such-program-here` cannot be run")
    );
}
