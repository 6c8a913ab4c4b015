//! Working folders of sessions: relative paths of tools start in them, and the path policy stays in
//! force.

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

/// Returns a model that makes these calls in every turn.
async fn model_that_calls(calls: &[(&'static str, Value)]) -> ModelServer {
    let calls: Vec<ScriptedCall> = calls
        .iter()
        .map(|(name, arguments)| ScriptedCall::new(*name, arguments))
        .collect();
    ModelServer::answering(move |request| {
        if request.tool_results().is_empty() {
            Reply::calls(calls.clone())
        } else {
            Reply::text("Done.")
        }
    })
    .await
    .unwrap()
}

fn home_of(model: &ModelServer, tools: &Value) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "tools": tools,
    }));
    home
}

/// Returns the results of the calls in a turn of that session, and its prompt.
async fn results(home: &Home, model: &ModelServer, session: &str) -> (Vec<String>, String) {
    let run = home.run(&["agent", "-s", session, "-m", "go on"]).await;
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let requests = model.requests();
    let last = requests.last().unwrap();
    (last.tool_results(), last.system())
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("list_dir", json!({"path": "."})),
        (
            "write_file",
            json!({"path": "notes/today.md", "content": "mine"}),
        ),
        (
            "exec",
            json!({"command": "pwd; cat notes/today.md; echo more >> list.txt"}),
        ),
        ("read_file", json!({"path": "list.txt"})),
        ("exec", json!({"command": "pwd", "working_dir": "notes"})),
        (
            "read_file",
            json!({"path": "~/.nanobot/workspace/AGENTS.md"}),
        ),
        (
            "write_file",
            json!({"path": "../../../outside.txt", "content": "x"}),
        ),
        ("read_file", json!({"path": "../../../config.json"})),
    ]
}

#[tokio::test]
async fn relative_paths_resolve_in_the_session_folder() {
    let model = model_that_calls(&calls()).await;
    let home = home_of(&model, &json!({"sessionFolders": true}));
    for (session, folder) in [
        ("cli:one", "work/cli_one"),
        ("cli:two_2", "work/cli_two%5F2"),
    ] {
        let (results, system) = results(&home, &model, session).await;
        let place = home.workspace().canonicalize().unwrap().join(folder);
        assert_eq!(results[0], "Directory . is empty", "{session}");
        assert_says(&results[1], &["Successfully wrote"]);
        assert_eq!(
            results[2],
            format!("{}\nmine\n\nExit code: 0", place.display())
        );
        assert_says(&results[3], &["1| more"]);
        assert_says(&results[4], &[&format!("{}/notes\n", place.display())]);
        assert_says(&results[5], &["1| # How to work"]);
        for refused in &results[6..] {
            assert!(refused.starts_with("Error"), "{refused}");
        }
        assert_eq!(
            home.read(&format!("workspace/{folder}/notes/today.md")),
            "mine"
        );
        assert_says(
            &system,
            &["Relative paths start in a folder of this conversation"],
        );
    }
    assert!(!home.workspace().join("notes").exists());
}

#[tokio::test]
async fn relative_paths_resolve_in_the_workspace_by_default() {
    let model = model_that_calls(&calls()).await;
    let home = home_of(&model, &json!({}));
    let (results, system) = results(&home, &model, "cli:one").await;
    assert_says(&results[0], &["AGENTS.md"]);
    assert_eq!(home.read("workspace/notes/today.md"), "mine");
    assert!(
        !home.workspace().join("work").exists() && !system.contains("Relative paths start"),
        "{system}"
    );
}

/// A link in place of the folder leads no tool out of the workspace, even with the most permissive
/// settings.
#[cfg(unix)]
#[tokio::test]
async fn session_folder_outside_the_workspace_is_refused() {
    let calls = vec![
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("exec", json!({"command": "touch b.txt"})),
        ("list_dir", json!({"path": "."})),
        ("message", json!({"content": "here", "media": ["kept.txt"]})),
    ];
    let model = model_that_calls(&calls).await;
    let home = home_of(
        &model,
        &json!({"sessionFolders": true, "restrictToWorkspace": false}),
    );
    home.write("../outside/kept.txt", "kept");
    std::fs::create_dir_all(home.workspace().join("work")).unwrap();
    let outside = home.path().parent().unwrap().join("outside");
    std::os::unix::fs::symlink(&outside, home.workspace().join("work/cli_one")).unwrap();
    let (results, _) = results(&home, &model, "cli:one").await;
    for refused in &results {
        assert!(
            refused.starts_with("Error") && refused.contains("outside"),
            "{results:#?}"
        );
    }
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
}

/// Attachments of the `message` tool are found where the other tools put them.
#[tokio::test]
async fn attachments_resolve_in_the_session_folder() {
    let calls = vec![(
        "message",
        json!({"content": "here", "media": ["report.txt"]}),
    )];
    let model = model_that_calls(&calls).await;
    let home = home_of(&model, &json!({"sessionFolders": true}));
    home.write("workspace/work/cli_one/report.txt", "the report");
    let (results, _) = results(&home, &model, "cli:one").await;
    assert!(results[0].starts_with("Message sent"), "{results:?}");
}
