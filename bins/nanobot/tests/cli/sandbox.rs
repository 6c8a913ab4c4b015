//! Commands in the sandbox, by a model that does everything an attacker asks for. The commands get
//! past the rules on their text; only the kernel stops them.
#![cfg(target_os = "linux")]

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::json;

use crate::support::{Home, has_sandbox};

/// A word that no command may print.
const CANARY: &str = "CANARY-7f3a";

/// Has the model run these commands in one turn, and returns their results.
async fn results(home: &Home, model: &ModelServer) -> Vec<String> {
    let mut program = home.program();
    program
        .env("SOME_API_KEY", CANARY)
        .args(["agent", "-m", "go on"]);
    let run = crate::support::finish(program, b"").await;
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    model.requests().last().unwrap().tool_results()
}

async fn model_that_runs(commands: &[&str]) -> ModelServer {
    let calls = commands
        .iter()
        .map(|command| ScriptedCall::new("exec", &json!({"command": command})));
    ModelServer::scripted([
        Reply::calls(calls.collect::<Vec<_>>()),
        Reply::text("Done."),
    ])
    .await
    .unwrap()
}

fn home(model: &ModelServer, tools: &serde_json::Value) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": CANARY, "apiBase": model.base_url()}},
        "tools": tools,
    }));
    home.write("library/notes.md", "kept");
    home.write("sessions.bak/cli_direct.jsonl", CANARY);
    home
}

#[tokio::test]
async fn a_command_has_no_effect_outside_of_its_workspace() {
    if !has_sandbox() {
        return;
    }
    let data = "d=$(dirname \"$PWD\")";
    let commands = [
        format!("{data}; cat \"$d/config.json\""),
        format!("{data}; cat \"$d/sessions.bak/cli_direct.jsonl\""),
        format!("{data}; echo mine > \"$d/library/notes.md\""),
        format!("{data}; echo mine > \"$d/new.json\"; ls -a \"$d\""),
        format!("{data}; mv \"$d/library\" \"$d/elsewhere\""),
        "s=sessions; echo mine > $s/new.jsonl; mv $s elsewhere; rm -rf $s".to_owned(),
        "f=environ; cat /proc/[0-9]*/$f | tr '\\0' '\\n'".to_owned(),
        "env".to_owned(),
        "echo fine > own.txt; cat own.txt".to_owned(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    for tools in [json!({}), json!({"restrictToWorkspace": false})] {
        let model = model_that_runs(&commands).await;
        let home = home(&model, &tools);
        home.write("workspace/own.txt", "");
        let results = results(&home, &model).await;
        assert_eq!(results.len(), commands.len());
        for (command, result) in commands.iter().zip(&results) {
            assert!(!result.contains(CANARY), "{command}: {result}");
            assert!(!result.contains("***"), "{command}: {result}");
        }
        assert_eq!(home.names("workspace/sessions"), ["cli_direct.jsonl"]);
        assert!(!home.workspace().join("elsewhere").exists());
        assert!(results[8].starts_with("fine\n"), "{}", results[8]);
        assert_eq!(home.read("library/notes.md"), "kept");
        assert!(!home.path().join("new.json").exists());
        assert!(!home.path().join("elsewhere").exists());
    }
}

#[tokio::test]
async fn a_command_has_the_network_only_if_it_is_granted() {
    if !has_sandbox() {
        return;
    }
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    for (tools, has_network) in [
        (json!({}), false),
        (json!({"exec": {"sandbox": "bwrap"}}), false),
        (json!({"exec": {"sandbox": "network"}}), true),
        (json!({"exec": {"sandbox": "open"}}), true),
    ] {
        let model = model_that_runs(&["p=/proc; readlink $p/self/ns/net"]).await;
        let home = home(&model, &tools);
        let results = results(&home, &model).await;
        let is_shared = results[0].starts_with(own.to_str().unwrap());
        assert_eq!(is_shared, has_network, "{tools}: {}", results[0]);
    }
}

#[tokio::test]
async fn a_failure_by_the_sandbox_is_explained() {
    if !has_sandbox() {
        return;
    }
    let commands = [
        "d=/usr; touch $d/new",
        "getent hosts example.com || echo 'Could not resolve host' >&2; false",
    ];
    let model = model_that_runs(&commands).await;
    let home = home(&model, &json!({}));
    for result in results(&home, &model).await {
        assert!(result.contains("tools.exec.sandbox"), "{result}");
    }
}
