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
