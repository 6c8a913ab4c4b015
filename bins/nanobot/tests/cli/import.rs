//! A home of the Python program.

#[cfg(unix)]
mod channels;

use std::fs;

use nanobot_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::support::{Home, assert_says};

const SESSION: &str = concat!(
    r#"{"_type": "metadata", "key": "cli:direct", "created_at": "2026-03-01T10:00:00.000000", "updated_at": "2026-03-01T10:00:05.000000", "metadata": {}, "last_consolidated": 2}"#,
    "\n",
    r#"{"role": "user", "content": "archived long ago", "timestamp": "2026-03-01T10:00:00.000000"}"#,
    "\n",
    r#"{"role": "assistant", "content": "yes", "timestamp": "2026-03-01T10:00:01.000000"}"#,
    "\n",
    r#"{"role": "user", "content": "my cat is Mimi", "timestamp": "2026-03-01T10:00:02.000000"}"#,
    "\n",
    r#"{"role": "assistant", "content": "Noted.", "timestamp": "2026-03-01T10:00:03.000000"}"#,
    "\n",
);

fn python_home(base: &str) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {
            "workspace": "~/.nanobot/workspace", "model": "test-model", "provider": "custom",
            "maxTokens": 8192, "temperature": 0.1, "maxToolIterations": 40, "memoryWindow": 50,
        }},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": base, "extraHeaders": null}, "openai": {"apiKey": ""}},
        "channels": {"sendProgress": true, "telegram": {"enabled": false, "token": "", "allowFrom": []}},
        "gateway": {"host": "127.0.0.1", "port": 18790, "heartbeat": {"enabled": true, "intervalS": 1800}},
        "tools": {"exec": {"timeout": 60}, "restrictToWorkspace": false, "mcpServers": {}},
        "mySetting": 1,
    }));
    home.write("workspace/sessions/cli_direct.jsonl", SESSION);
    home.write(
        "workspace/memory/MEMORY.md",
        "# Facts\n\nThe person likes tea.\n",
    );
    home.write("workspace/AGENTS.md", "Answer in one word.\n");
    home.write("cron/jobs.json", r#"{"version": 1, "jobs": []}"#);
    home
}

#[tokio::test]
async fn dry_run_prints_the_report_and_writes_nothing() {
    let home = python_home("http://127.0.0.1:1/v1");
    let before = (
        home.read("config.json"),
        home.names("."),
        home.names("workspace"),
    );
    let run = home.run(&["onboard", "--dry-run"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &[
            "read:",
            "agents.defaults.model",
            "kept, unknown: mySetting",
            "memoryWindow",
            "sessions: 1",
            "MEMORY.md",
        ],
    );
    assert!(!run.stdout.contains("test-key"));
    assert_eq!(
        (
            home.read("config.json"),
            home.names("."),
            home.names("workspace")
        ),
        before
    );
}

#[tokio::test]
async fn dry_run_of_a_replacement_names_what_is_lost() {
    let home = python_home("http://127.0.0.1:1/v1");
    let config = home.read("config.json").replacen(
        "~/.nanobot/workspace",
        home.path().join("elsewhere").to_str().unwrap(),
        1,
    );
    home.write("config.json", &config);
    let before = (home.names("."), home.names("workspace"));
    let run = home.run(&["onboard", "--overwrite", "--dry-run"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let says = |name: &str, state: &str| {
        let folder = home.path().join(name);
        state.replace("DIR", folder.to_str().unwrap())
    };
    assert_says(
        &run.stdout,
        &[
            "config.json would be replaced by a new file; the old one is copied first.",
            "Not in the new file: ",
            "agents.defaults.model",
            "mySetting",
            &says("elsewhere", "The workspace DIR stays as it is."),
            &says(
                "workspace",
                "Workspace: DIR (missing files would be created",
            ),
        ],
    );
    assert!(!run.stdout.contains("Missing keys"), "{}", run.stdout);
    assert!(!run.stdout.contains("kept"), "{}", run.stdout);
    assert_eq!(home.read("config.json"), config);
    assert_eq!((home.names("."), home.names("workspace")), before);

    home.write("config.json", "{ broken");
    let run = home.run(&["onboard", "--overwrite", "--dry-run"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["would be replaced by a new file"]);
    assert_eq!(home.read("config.json"), "{ broken");
}

#[tokio::test]
async fn first_write_makes_one_backup() {
    for arguments in [
        &["config", "set", "gateway.port", "8080"][..],
        &["onboard", "--non-interactive"],
        &["onboard", "--overwrite"],
    ] {
        let home = python_home("http://127.0.0.1:1/v1");
        let before = home.read("config.json");
        let run = home.run(arguments).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_ne!(home.read("config.json"), before);
        let names = home.names(".").into_iter();
        let backups: Vec<String> = names
            .filter(|name| name.starts_with("config.json.bak-"))
            .collect();
        let [backup] = backups.as_slice() else {
            panic!("{arguments:?}: {backups:?}");
        };
        assert_eq!(home.read(backup), before);
        assert_says(&run.stdout, &[backup]);
        assert_says(&run.stderr, &[backup]);
    }
}

#[tokio::test]
async fn imported_session_continues_and_nothing_is_lost() {
    let model = ModelServer::scripted([Reply::text("Mimi."), Reply::text("Yes.")])
        .await
        .unwrap();
    let home = python_home(&model.base_url());
    let config = home.read("config.json");
    let run = home.run(&["agent", "-m", "What is my cat called?"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "Mimi.\n"),
        "{}",
        run.stderr
    );
    assert_says(&run.stderr, &["sessions: 1", "config.json.bak-"]);
    assert_eq!(model.violations(), Vec::<String>::new());
    let request = model.requests()[0].json.to_string();
    assert_says(
        &request,
        &[
            "my cat is Mimi",
            "Noted.",
            "The person likes tea.",
            "Answer in one word.",
        ],
    );
    assert!(
        !request.contains("archived long ago"),
        "consolidated messages are not sent"
    );

    assert_eq!(
        home.read("config.json"),
        config,
        "the configuration is not touched"
    );
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert!(
        session.starts_with(SESSION),
        "the old content is unchanged, byte for byte"
    );
    let backups = home
        .names(".")
        .into_iter()
        .filter(|name| name.starts_with("config.json.bak-"));
    assert_eq!(backups.count(), 1);

    let again = home.run(&["agent", "-m", "Sure?"]).await;
    assert_eq!(again.stdout, "Yes.\n");
    assert!(
        !again.stderr.contains("sessions: 1"),
        "the report is shown once: {}",
        again.stderr
    );
}

#[tokio::test]
async fn old_job_file_is_imported_once_or_reported() {
    let job = |id: &str, message: &str| {
        json!({
            "id": id, "name": message, "enabled": true, "schedule": {"kind": "cron", "expr": "0 9 * * 1-5"},
            "payload": {"kind": "agent_turn", "message": message, "deliver": true, "channel": "telegram", "to": "7"},
        })
    };
    let home = python_home("http://127.0.0.1:1/v1");
    let there = json!({"version": 1, "jobs": [job("aaaaaaaa", "water the plants")]});
    let tasks = json!({"version": 1, "jobs": [job("aaaaaaaa", "water the plants"), job("bbbbbbbb", "feed the cat")]});
    home.write("cron/jobs.json", &there.to_string());
    home.write("tasks.json", &tasks.to_string());
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(
        &dry.stdout,
        &["tasks.json: 1 job would be imported, 1 is among the jobs already"],
    );
    assert!(!home.read("cron/jobs.json").contains("feed the cat"));
    let run = home.run(&["agent", "--demo", "-m", "hello"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stderr,
        &["tasks.json: 1 job was imported, 1 is among the jobs already. The file stays as it is."],
    );
    let list = home.run(&["cron", "list"]).await.stdout;
    assert_says(&list, &["water the plants", "feed the cat"]);
    assert_eq!(home.read("tasks.json"), tasks.to_string());

    let removed = home.run(&["cron", "remove", "bbbbbbbb"]).await;
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let again = home.run(&["agent", "--demo", "-m", "hello"]).await;
    assert!(!again.stderr.contains("tasks.json"), "{}", again.stderr);
    assert!(
        !home
            .run(&["cron", "list"])
            .await
            .stdout
            .contains("feed the cat"),
        "removed jobs stay removed"
    );

    for (text, why) in [
        (
            r#"[{"title": "buy milk", "done": false}]"#,
            "entry 1 is no job",
        ),
        (r#"{"next": {"buy milk": 1}}"#, "it has no list of jobs"),
        (r#"{"version": 9, "jobs": []}"#, "its version is 9"),
        ("buy milk", "it is no JSON"),
    ] {
        let home = python_home("http://127.0.0.1:1/v1");
        home.write("tasks.json", text);
        let run = home.run(&["agent", "--demo", "-m", "hello"]).await;
        assert_says(&run.stderr, &["tasks.json: left alone, ", why]);
        assert_eq!(home.read("tasks.json"), text);
        assert_eq!(home.read("cron/jobs.json"), r#"{"version": 1, "jobs": []}"#);
    }
}

#[tokio::test]
async fn onboard_prints_the_import_report_before_writing() {
    let home = python_home("http://127.0.0.1:1/v1");
    let run = home.run(&["onboard", "--refresh"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stderr, &["sessions: 1", "config.json.bak-"]);
    assert_says(&run.stdout, &["Wrote"]);
}

#[tokio::test]
async fn every_first_write_reports_and_backs_up() {
    let skill = "---\nname: tea\ndescription: Makes tea.\n---\n\nBoil water.\n";
    for arguments in [
        &["cron", "add", "--message", "tea", "--in", "10m"][..],
        &["skills", "install", "tea", "--yes"],
        &["sessions", "rename", "cli:direct", "Cat"],
        &["config", "set", "agents.defaults.temperature", "0.5"],
        &["doctor", "--fix"],
    ] {
        let home = python_home("http://127.0.0.1:1/v1");
        let folder = home.path().parent().unwrap().join("tea");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), skill).unwrap();
        let run = home.run(arguments).await;
        assert_says(&run.stderr, &["sessions: 1", "config.json.bak-"]);
        let next = home
            .run(&["cron", "add", "--message", "tea", "--in", "10m"])
            .await;
        assert!(!next.stderr.contains("sessions: 1"), "{}", next.stderr);
    }
}

#[tokio::test]
async fn home_of_this_program_has_no_report() {
    let skill = "---\nname: tea\ndescription: Makes tea.\n---\n\nBoil water.\n";
    for arguments in [
        &["cron", "add", "--message", "tea", "--in", "10m"][..],
        &["skills", "install", "tea", "--yes"],
        &["doctor", "--fix"],
    ] {
        let home = Home::new();
        let folder = home.path().parent().unwrap().join("tea");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), skill).unwrap();
        let set = ["config", "set", "agents.defaults.temperature", "0.5"];
        assert_eq!(home.run(&set).await.code, 0);
        home.run(arguments).await;
        let run = home.run(&["agent", "--demo", "-m", "hello"]).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        for report in ["sessions:", "copied to"] {
            assert!(
                !run.stderr.contains(report),
                "{arguments:?}: {}",
                run.stderr
            );
        }
        let names = home.names(".");
        let is_copied = names.iter().any(|name| name.contains(".bak-"));
        assert!(!is_copied, "{arguments:?}: {names:?}");
    }
}
