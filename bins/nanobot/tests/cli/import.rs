//! A home of the Python program.

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
    home.write("workspace/memory/MEMORY.md", "# Facts\n\nThe person likes tea.\n");
    home.write("workspace/AGENTS.md", "Answer in one word.\n");
    home.write("cron/jobs.json", r#"{"version": 1, "jobs": []}"#);
    home
}

#[tokio::test]
async fn a_dry_run_tells_and_writes_nothing() {
    let home = python_home("http://127.0.0.1:1/v1");
    let before = (home.read("config.json"), home.names("."), home.names("workspace"));
    let run = home.run(&["onboard", "--dry-run"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stdout,
        &["read:", "agents.defaults.model", "kept, unknown: mySetting", "memoryWindow", "sessions: 1", "MEMORY.md"],
    );
    assert!(!run.stdout.contains("test-key"));
    assert_eq!((home.read("config.json"), home.names("."), home.names("workspace")), before);
}

#[tokio::test]
async fn a_conversation_goes_on_and_everything_is_kept() {
    let model = ModelServer::scripted([Reply::text("Mimi."), Reply::text("Yes.")]).await.unwrap();
    let home = python_home(&model.base_url());
    let config = home.read("config.json");
    let run = home.run(&["agent", "-m", "What is my cat called?"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (0, "Mimi.\n"), "{}", run.stderr);
    assert_says(&run.stderr, &["sessions: 1", "config.json.bak-"]);
    assert_eq!(model.violations(), Vec::<String>::new());
    let request = model.requests()[0].json.to_string();
    assert_says(&request, &["my cat is Mimi", "Noted.", "The person likes tea.", "Answer in one word."]);
    assert!(!request.contains("archived long ago"), "what was consolidated is not sent");

    assert_eq!(home.read("config.json"), config, "the configuration is not touched");
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert!(session.starts_with(SESSION), "what was there is still there, byte for byte");
    let backups = home.names(".").into_iter().filter(|name| name.starts_with("config.json.bak-"));
    assert_eq!(backups.count(), 1);

    let again = home.run(&["agent", "-m", "Sure?"]).await;
    assert_eq!(again.stdout, "Yes.\n");
    assert!(!again.stderr.contains("sessions: 1"), "the report comes once: {}", again.stderr);
}

#[tokio::test]
async fn onboarding_tells_what_it_found_before_it_writes() {
    let home = python_home("http://127.0.0.1:1/v1");
    let run = home.run(&["onboard", "--refresh"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stderr, &["sessions: 1", "config.json.bak-"]);
    assert_says(&run.stdout, &["Wrote"]);
}
