//! Configured secrets: no reply, result, log, record or bundle contains their values.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::support::{Home, assert_says, finish};

/// Does not look like a secret.
const PASSWORD: &str = "marmalade/sandwich forever";

/// Its spellings: raw, base64, hexadecimal, percent-encoded.
const SPELLINGS: [&str; 6] = [
    PASSWORD,
    "bWFybWFsYWRlL3NhbmR3aWNoIGZvcmV2ZXI=",
    "6d61726d616c6164652f73616e647769636820666f7265766572",
    "6D61726D616C6164652F73616E647769636820666F7265766572",
    "marmalade%2Fsandwich%20forever",
    "marmalade%2fsandwich%20forever",
];

fn assert_hides(place: &str, text: &str) {
    for spelling in SPELLINGS {
        assert!(!text.contains(spelling), "{place}: {spelling} in {text}");
    }
}

#[tokio::test]
async fn configured_secrets_are_redacted_everywhere() {
    let (first, rest) = PASSWORD.split_at(11);
    let model = ModelServer::scripted([
        Reply::call("read_file", &json!({"path": "leak.txt"})),
        Reply::call("exec", &json!({"command": format!("echo '{PASSWORD}'")})),
        Reply::deltas(["It is ", first, rest, ", I think."]),
        Reply::call(
            "message",
            &json!({"content": format!("psst: {PASSWORD}"), "buttons": [[PASSWORD]]}),
        ),
        Reply::text("Nothing more."),
    ]);
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut config: serde_json::Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"]["telegram"] = json!({"enabled": false, "token": "${LEAKED}"});
    config["tools"]["exec"] = json!({"enable": true});
    home.configure(&config);
    home.write("workspace/leak.txt", &SPELLINGS.join("\n"));
    let run = |arguments: &'static [&str]| {
        let mut command = home.program();
        command.args(arguments).env("LEAKED", PASSWORD);
        finish(command, b"")
    };
    let told = run(&["agent", "--logs", "-m", "what is the password?"]).await;
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert_says(&told.stdout, &["It is ***, I think."]);
    assert_hides("stdout", &told.stdout);
    assert_hides("stderr", &told.stderr);

    let requests = model.requests();
    let result = requests[1].json["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string();
    assert_says(&result, &["1| ***"]);
    assert_hides("a result", &result);
    let ran = requests[2].json["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string();
    assert_says(&ran, &["***"]);
    assert_hides("a result", &ran);

    // The stored text is the sent text: the prefix of the next request.
    let sent = run(&["agent", "-m", "thanks"]).await;
    assert_eq!(sent.stdout, "psst: ***\nNothing more.\n", "{}", sent.stderr);
    assert_hides("stderr", &sent.stderr);
    assert_hides("audit log", &home.read("logs/audit.log"));
    let (before, after) = (
        &model.requests()[2].json["messages"],
        &model.requests()[3].json["messages"],
    );
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(
        before[..],
        after[..before.len()],
        "the next request begins as the last one"
    );
    assert_eq!(after[before.len()]["content"], "It is ***, I think.");

    let file = home.path().join("turns.json");
    let bundle = run_with(
        &home,
        &["replay", "direct", "--bundle", file.to_str().unwrap()],
    )
    .await;
    assert_eq!(bundle.code, 0, "{} {}", bundle.stdout, bundle.stderr);
    assert_hides("a bundle", &home.read("turns.json"));
}

async fn run_with(home: &Home, arguments: &[&str]) -> crate::support::Run {
    let mut command = home.program();
    command.args(arguments).env("LEAKED", PASSWORD);
    finish(command, b"").await
}

#[tokio::test]
async fn doctor_reports_short_secrets() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let mut config: serde_json::Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"]["websocket"] = json!({"enabled": true, "token": "tiny"});
    home.configure(&config);
    let run = home.run(&["doctor"]).await;
    assert_says(
        &run.stdout,
        &[
            "channels.websocket.token has fewer than 8 characters",
            "[config.short-secrets]",
        ],
    );
    assert!(!run.stdout.contains("tiny"), "{}", run.stdout);
}

#[tokio::test]
async fn audit_log_is_printed_and_changes_are_found() {
    let model = ModelServer::scripted([
        Reply::call("list_dir", &json!({"path": "."})),
        Reply::text("An empty folder."),
        Reply::call("list_dir", &json!({"path": "."})),
        Reply::text("Still empty."),
    ]);
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    for question in ["look", "again"] {
        let told = home.run(&["agent", "-m", question]).await;
        assert_eq!(told.code, 0, "{}", told.stderr);
    }
    let printed = home.run(&["audit", "--session", "cli:direct"]).await;
    assert_eq!(printed.stdout.lines().count(), 2, "{}", printed.stdout);
    assert_says(&printed.stdout, &["cli:direct list_dir ok"]);
    let json = home.run(&["audit", "--json", "--last", "1"]).await;
    let line: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&line["seq"], &line["event"]), (&json!(2), &json!("tool")));
    let none = home.run(&["audit", "--session", "cli:other"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));

    let verified = home.run(&["audit", "verify"]).await;
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    assert_says(&verified.stdout, &["2 lines are intact.", "head "]);
    let changed = home
        .read("logs/audit.log")
        .replacen("list_dir", "list_dim", 1);
    home.write("logs/audit.log", &changed);
    let verified = home.run(&["audit", "verify"]).await;
    assert_eq!(verified.code, 1, "{}", verified.stdout);
    assert_says(
        &verified.stdout,
        &["0 lines are intact.", "audit.log:1: the line was changed"],
    );
}

#[cfg(unix)]
#[tokio::test]
async fn secret_in_a_file_is_used_redacted_and_not_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = ModelServer::scripted([Reply::text(format!("It is {PASSWORD}."))]);
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    home.write("bot-token", &format!("{PASSWORD}\n"));
    let file = home.path().join("bot-token");
    let reference = format!("file:{}", file.display());
    let mut config: serde_json::Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["channels"]["telegram"] = json!({"enabled": false, "token": reference});
    home.configure(&config);
    let mode =
        |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    let told = home.run(&["agent", "-m", "what is it?"]).await;
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "It is ***.\n"),
        "{}",
        told.stderr
    );
    for arguments in [
        &["config", "show"][..],
        &["config", "explain", "channels.telegram.token"],
        &["status"],
        &["doctor"],
    ] {
        let run = home.run(arguments).await;
        assert_hides("an inspection", &(run.stdout + &run.stderr));
    }
    let set = home
        .run(&["config", "set", "agents.defaults.maxTokens", "4000"])
        .await;
    assert_eq!(set.code, 0, "{}", set.stderr);
    let saved = home.read("config.json");
    assert!(saved.contains(&reference), "{saved}");
    assert_hides("config.json", &saved);
}

#[cfg(unix)]
#[tokio::test]
async fn files_of_a_used_home_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = ModelServer::scripted([
        Reply::call("write_file", &json!({"path": "a.txt", "content": "x"})),
        Reply::text("Written."),
    ]);
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let told = home.run(&["agent", "-m", "write"]).await;
    assert_eq!(told.code, 0, "{}", told.stderr);
    let mut folders = vec![home.path()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            // The workspace may contain programs and keeps its modes.
            if path == home.workspace() || metadata.is_symlink() {
                continue;
            }
            assert_eq!(
                metadata.permissions().mode() & 0o077,
                0,
                "{}",
                path.display()
            );
            count += 1;
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(count > 5, "{count}");
}
