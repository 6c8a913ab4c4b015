//! The doctor finds every planted fault and names a remedy.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, Run};

/// A fault, its finding, and words of the finding's description and remedy.
struct Planted {
    name: &'static str,
    plant: fn(&Home),
    options: &'static [&'static str],
    id: &'static str,
    severity: &'static str,
    what: &'static str,
    remedy: &'static str,
}

/// Returns a configuration without faults.
fn sound() -> Value {
    json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": "http://127.0.0.1:9"}},
        "gateway": {"port": 0},
    })
}

/// Returns a home without faults.
fn sound_home() -> Home {
    let home = Home::new();
    set(&home, &json!({}));
    fs::create_dir_all(home.workspace()).unwrap();
    private(&home);
    home
}

fn private(home: &Home) {
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(
        home.path().join("config.json"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
}

/// Writes the sound configuration, overridden by these keys.
fn set(home: &Home, keys: &Value) {
    let mut config = sound();
    merge(&mut config, keys);
    home.configure(&config);
    private(home);
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn telegram(keys: &Value) -> Value {
    let mut section = json!({"enabled": true, "token": "1:a", "allowFrom": ["7"]});
    merge(&mut section, keys);
    json!({"channels": {"telegram": section}})
}

fn email(keys: &Value) -> Value {
    let mut section = json!({
        "enabled": true, "consentGranted": true, "allowFrom": ["ann@x.test"], "authservId": "mx.x.test",
        "imapHost": "imap.x.test", "imapUsername": "bot@x.test", "imapPassword": "x",
        "smtpHost": "smtp.x.test", "smtpUsername": "bot@x.test", "smtpPassword": "x",
    });
    merge(&mut section, keys);
    json!({"channels": {"email": section}})
}

/// Returns the findings, without the one about the room on the disk: the tests do not choose it.
async fn doctor(home: &Home, options: &[&str]) -> (Run, Vec<Value>) {
    let arguments: Vec<&str> = ["doctor", "--json"]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    let run = home.run(&arguments).await;
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let mut findings = report["findings"].as_array().unwrap().clone();
    findings.retain(|finding| finding["id"] != "disk.room");
    (run, findings)
}

const FAULTS: [Planted; 35] = [
    Planted {
        name: "a comma too many",
        plant: |home| home.write("config.json", "{\"agents\": {},,}"),
        options: &[],
        id: "config.usable",
        severity: "fault",
        what: "config.json",
        remedy: "comma",
    },
    Planted {
        name: "a number where a word belongs",
        plant: |home| set(home, &json!({"gateway": {"port": "many"}})),
        options: &[],
        id: "gateway.endpoint",
        severity: "fault",
        what: "gateway.port",
        remedy: "config explain gateway.port",
    },
    Planted {
        name: "a misspelt key",
        plant: |home| set(home, &json!({"agents": {"defaults": {"temprature": 1}}})),
        options: &[],
        id: "config.keys",
        severity: "warning",
        what: "did you mean `temperature`",
        remedy: "config show",
    },
    Planted {
        name: "a sandbox that is switched off",
        plant: |home| set(home, &json!({"tools": {"exec": {"sandbox": "off"}}})),
        options: &[],
        id: "tools.sandbox",
        severity: "warning",
        what: "tools.exec.sandbox",
        remedy: "container",
    },
    Planted {
        name: "a token of the endpoint that can be guessed",
        plant: |home| set(home, &json!({"gateway": {"token": "fifteen-letters"}})),
        options: &[],
        id: "gateway.token",
        severity: "warning",
        what: "gateway.token is shorter than 16",
        remedy: "openssl rand",
    },
    Planted {
        name: "a token of clients that can be guessed",
        plant: |home| {
            set(
                home,
                &json!({"channels": {"websocket": {"enabled": true, "token": "fifteen-letters"}}}),
            );
        },
        options: &[],
        id: "channels.token",
        severity: "warning",
        what: "channels.websocket.token is shorter than 16",
        remedy: "openssl rand",
    },
    Planted {
        name: "keys that others can read",
        plant: |home| {
            fs::set_permissions(
                home.path().join("config.json"),
                fs::Permissions::from_mode(0o644),
            )
            .unwrap();
        },
        options: &[],
        id: "config.private",
        severity: "warning",
        what: "mode 644",
        remedy: "chmod 600",
    },
    Planted {
        name: "a home that others can read",
        plant: |home| fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap(),
        options: &[],
        id: "home.private",
        severity: "warning",
        what: "mode 755",
        remedy: "chmod 700",
    },
    Planted {
        name: "no workspace",
        plant: |home| fs::remove_dir(home.workspace()).unwrap(),
        options: &[],
        id: "workspace.usable",
        severity: "warning",
        what: "no such folder",
        remedy: "--fix",
    },
    Planted {
        name: "a file for a workspace",
        plant: |home| {
            fs::remove_dir(home.workspace()).unwrap();
            home.write("workspace", "");
        },
        options: &[],
        id: "workspace.usable",
        severity: "fault",
        what: "no file can be written",
        remedy: "agents.defaults.workspace",
    },
    Planted {
        name: "a provider that there is not",
        plant: |home| {
            set(
                home,
                &json!({"agents": {"defaults": {"provider": "opneai"}}}),
            );
        },
        options: &[],
        id: "model.usable",
        severity: "fault",
        what: "opneai",
        remedy: "agents.defaults.provider",
    },
    Planted {
        name: "no key",
        plant: |home| {
            let none = json!({"agents": {"defaults": {"model": "claude-opus-4-5", "provider": "anthropic"}}});
            set(home, &none);
        },
        options: &[],
        id: "model.usable",
        severity: "fault",
        what: "set providers.anthropic.apiKey",
        remedy: "section of that provider",
    },
    Planted {
        name: "nobody at the model's address",
        plant: |_| {},
        options: &["--probe"],
        id: "model.answers",
        severity: "fault",
        what: "does not answer",
        remedy: "address",
    },
    Planted {
        name: "a damaged database",
        plant: |home| {
            home.write(
                "state.db",
                "this was a database once, before the disk failed",
            );
        },
        options: &[],
        id: "state.whole",
        severity: "fault",
        what: "damaged",
        remedy: "moves the file aside",
    },
    Planted {
        name: "a channel without a token",
        plant: |home| set(home, &telegram(&json!({"token": ""}))),
        options: &[],
        id: "channels.usable",
        severity: "fault",
        what: "@BotFather",
        remedy: "channels.telegram",
    },
    Planted {
        name: "a platform that there is not",
        plant: |home| {
            set(
                home,
                &json!({"channels": {"pigeon": {"enabled": true, "kind": "pigeon"}}}),
            );
        },
        options: &[],
        id: "channels.usable",
        severity: "fault",
        what: "pigeon",
        remedy: "enabled to false",
    },
    Planted {
        name: "one token twice",
        plant: |home| {
            let other =
                json!({"enabled": true, "kind": "telegram", "token": "1:a", "allowFrom": ["7"]});
            let mut channels = telegram(&json!({}));
            channels["channels"]["work"] = other;
            set(home, &channels);
        },
        options: &[],
        id: "channels.usable",
        severity: "fault",
        what: "same telegram credentials",
        remedy: "channels.work",
    },
    Planted {
        name: "a list that lets nobody in",
        plant: |home| set(home, &telegram(&json!({"allowFrom": []}))),
        options: &[],
        id: "channels.access",
        severity: "warning",
        what: "channels.telegram.allowFrom",
        remedy: "*",
    },
    Planted {
        name: "a bot for everyone with tools",
        plant: |home| set(home, &telegram(&json!({"allowFrom": ["*"]}))),
        options: &[],
        id: "channels.exposed",
        severity: "warning",
        what: "everyone who finds the bot",
        remedy: "paired",
    },
    Planted {
        name: "a socket for whoever has its token",
        plant: |home| {
            set(
                home,
                &json!({"channels": {"websocket": {"enabled": true, "token": "x", "port": 0}}}),
            );
        },
        options: &[],
        id: "channels.exposed",
        severity: "note",
        what: "anyone who can connect",
        remedy: "channels.websocket.token",
    },
    Planted {
        name: "a platform that cannot be reached",
        plant: |home| set(home, &telegram(&json!({"apiBase": "http://127.0.0.1:9"}))),
        options: &["--probe"],
        id: "channels.answers",
        severity: "fault",
        what: "channels.telegram",
        remedy: "channels login telegram",
    },
    Planted {
        name: "an endpoint for the world without a token",
        plant: |home| set(home, &json!({"gateway": {"host": "0.0.0.0"}})),
        options: &[],
        id: "gateway.exposed",
        severity: "warning",
        what: "gateway.token is empty",
        remedy: "gateway.token",
    },
    Planted {
        name: "a host that is none",
        plant: |home| set(home, &json!({"gateway": {"host": "everywhere"}})),
        options: &[],
        id: "gateway.endpoint",
        severity: "fault",
        what: "gateway.host",
        remedy: "gateway.port",
    },
    Planted {
        name: "a time zone that there is not",
        plant: |home| set(home, &json!({"cron": {"timezone": "Mars/Olympus"}})),
        options: &[],
        id: "cron.timezone",
        severity: "fault",
        what: "Mars/Olympus",
        remedy: "Europe/Berlin",
    },
    Planted {
        name: "jobs that cannot be read",
        plant: |home| home.write("cron/jobs.json", "{\"jobs\": [}"),
        options: &[],
        id: "cron.jobs",
        severity: "fault",
        what: "jobs.json",
        remedy: "move it away",
    },
    Planted {
        name: "a job that fails",
        plant: |home| {
            let job = json!({
                "id": "a1b2c3d4", "name": "backup", "enabled": true,
                "schedule": {"kind": "every", "everyMs": 3_600_000},
                "payload": {"kind": "agent_turn", "message": "back up"},
                "state": {"lastStatus": "error", "lastError": "the disk was full", "nextRunAtMs": 4_000_000_000_000_u64},
                "createdAtMs": 1, "updatedAtMs": 1,
            });
            home.write(
                "cron/jobs.json",
                &json!({"version": 1, "jobs": [job]}).to_string(),
            );
        },
        options: &[],
        id: "cron.runs",
        severity: "warning",
        what: "the disk was full",
        remedy: "cron history a1b2c3d4",
    },
    Planted {
        name: "pairings that cannot be read",
        plant: |home| home.write("pairing.json", "{\"approved\": 7"),
        options: &[],
        id: "access.paired",
        severity: "fault",
        what: "pairing.json",
        remedy: "pair again",
    },
    Planted {
        name: "a log that cannot be written",
        plant: |home| home.write("logs", ""),
        options: &[],
        id: "logs.writable",
        severity: "fault",
        what: "no log",
        remedy: "folder",
    },
    Planted {
        name: "a memory that is no text",
        plant: |home| {
            fs::create_dir_all(home.workspace().join("memory")).unwrap();
            fs::write(home.workspace().join("memory/MEMORY.md"), b"caf\xe9").unwrap();
        },
        options: &[],
        id: "workspace.prompts",
        severity: "fault",
        what: "is not UTF-8",
        remedy: "memory restore",
    },
    Planted {
        name: "mail that is never believed",
        plant: |home| set(home, &email(&json!({"authservId": ""}))),
        options: &[],
        id: "channels.senders",
        severity: "fault",
        what: "channels.email.authservId is not set",
        remedy: "Authentication-Results",
    },
    Planted {
        name: "mail that nobody has to vouch for",
        plant: |home| {
            set(
                home,
                &email(&json!({"verifyDkim": false, "verifySpf": false})),
            );
        },
        options: &[],
        id: "channels.senders",
        severity: "warning",
        what: "verifySpf are false",
        remedy: "channels.email.verifyDkim",
    },
    Planted {
        name: "a mailbox that is silent for longer than it may be",
        plant: |home| set(home, &email(&json!({"idleSeconds": 600}))),
        options: &[],
        id: "channels.silence",
        severity: "warning",
        what: "after 120 s",
        remedy: "aliveWithinS to more than 630",
    },
    Planted {
        name: "a skill that is no text",
        plant: |home| {
            home.write("workspace/skills/sing/SKILL.md", "");
            fs::write(
                home.workspace().join("skills/sing/SKILL.md"),
                b"---\nname: sing\n---\n\xff",
            )
            .unwrap();
        },
        options: &[],
        id: "skills.usable",
        severity: "warning",
        what: "sing",
        remedy: "skills check sing",
    },
    Planted {
        name: "a conversation with a damaged line",
        plant: |home| {
            let lines = "{\"role\": \"user\", \"content\": \"a\"}\n{\"role\": \"assi\n{\"role\": \"user\", \"content\": \"b\"}\n";
            home.write("workspace/sessions/cli_direct.jsonl", lines);
        },
        options: &[],
        id: "sessions.readable",
        severity: "warning",
        what: "1 line cannot be read",
        remedy: "passed over",
    },
    Planted {
        name: "a clock that was put back",
        plant: |home| {
            home.write("workspace/sessions/cli_direct.jsonl", "");
            let file = fs::File::options()
                .write(true)
                .open(home.workspace().join("sessions/cli_direct.jsonl"))
                .unwrap();
            file.set_modified(SystemTime::now() + Duration::from_hours(48))
                .unwrap();
        },
        options: &[],
        id: "machine.clock",
        severity: "fault",
        what: "behind",
        remedy: "Set the clock",
    },
];

#[tokio::test]
async fn doctor_finds_every_planted_fault_with_its_remedy() {
    for Planted {
        name,
        plant,
        options,
        id,
        severity,
        what,
        remedy,
    } in FAULTS
    {
        let home = sound_home();
        plant(&home);
        let (run, findings) = doctor(&home, options).await;
        let has = |finding: &Value, key: &str, words: &str| {
            finding[key]
                .as_str()
                .is_some_and(|text| text.contains(words) || words == "*" && text.contains('*'))
        };
        let is_it = |finding: &&Value| {
            finding["id"] == id
                && finding["severity"] == severity
                && has(finding, "what", what)
                && has(finding, "remedy", remedy)
        };
        assert!(
            findings.iter().find(is_it).is_some(),
            "{name}: {id} is not among {findings:#?}"
        );
        assert_eq!(
            run.code,
            i32::from(severity == "fault"),
            "{name}: {findings:#?}"
        );
    }
}

#[tokio::test]
async fn doctor_reports_no_findings_for_a_healthy_home() {
    let model = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    let home = sound_home();
    set(
        &home,
        &json!({"providers": {"custom": {"apiBase": model.base_url()}}}),
    );
    let (run, findings) = doctor(&home, &["--probe"]).await;
    assert_eq!(run.code, 0, "{run:?}");
    let mut severities = findings.iter().map(|finding| &finding["severity"]);
    assert!(
        severities.all(|severity| severity == "good" || severity == "note"),
        "{findings:#?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding["what"] == "test-model (custom) answers"),
        "{findings:#?}"
    );
    let run = home.run(&["doctor"]).await;
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("0 faults, "), "{run:?}");
}

#[tokio::test]
async fn doctor_probe_finds_a_rejected_key() {
    let model = ModelServer::scripted([Reply::error(401, "invalid key")])
        .await
        .unwrap();
    let home = sound_home();
    set(
        &home,
        &json!({"providers": {"custom": {"apiBase": model.base_url()}}}),
    );
    let (run, findings) = doctor(&home, &["--probe"]).await;
    let found = findings
        .iter()
        .find(|finding| finding["id"] == "model.answers")
        .unwrap();
    assert_eq!(
        (run.code, &found["severity"]),
        (1, &json!("fault")),
        "{found}"
    );
    assert!(found["remedy"].as_str().unwrap().contains("key"), "{found}");
    assert!(!run.stdout.contains("test-key"), "{run:?}");
}

#[tokio::test]
async fn doctor_finds_an_occupied_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = sound_home();
    set(
        &home,
        &json!({"gateway": {"port": taken.local_addr().unwrap().port()}}),
    );
    let (run, findings) = doctor(&home, &[]).await;
    let found = findings
        .iter()
        .find(|finding| finding["id"] == "gateway.endpoint")
        .unwrap();
    assert_eq!(
        (run.code, &found["severity"]),
        (1, &json!("fault")),
        "{found}"
    );
}

#[tokio::test]
async fn doctor_fix_repairs_each_finding_once() {
    let home = sound_home();
    fs::remove_dir(home.workspace()).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(
        home.path().join("config.json"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    let (_, findings) = doctor(&home, &["--fix"]).await;
    let mended = |findings: &[Value]| {
        let fixed = findings.iter().filter(|finding| finding["fixed"] == true);
        fixed
            .map(|finding| finding["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        mended(&findings),
        ["config.private", "home.private", "workspace.usable"]
    );
    assert!(home.workspace().join("AGENTS.md").is_file());
    let (run, findings) = doctor(&home, &["--fix"]).await;
    assert_eq!((run.code, mended(&findings)), (0, Vec::new()));
    assert!(
        findings
            .iter()
            .all(|finding| finding["severity"] != "warning"),
        "{findings:#?}"
    );
}
