//! Models over HTTP: both API shapes, and their errors.

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::json;

use crate::support::{Home, assert_says, finish};

/// Runs one turn of two model calls with a tool call between them.
async fn list_files(home: &Home, model: &ModelServer) {
    model.push(Reply::call("list_dir", &json!({"path": "."})));
    model.push(Reply::deltas([
        "There is **AGENTS.md**",
        " and more.\n",
        "\nThat is all.",
    ]));
    let run = home.run(&["agent", "-m", "what files are here?"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "There is **AGENTS.md** and more.\n\nThat is all.\n"
    );
    assert_says(&run.stderr, &["↳ list_dir(\".\")"]);
    assert_eq!(model.violations(), Vec::<String>::new());
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_says(
        &requests[1].json.to_string(),
        &["AGENTS.md", "what files are here?"],
    );
}

#[tokio::test]
async fn an_openai_compatible_server_answers() {
    let model = ModelServer::with_key("test-key", Vec::<Reply>::new())
        .await
        .unwrap();
    list_files(&Home::with_model(&model.base_url()), &model).await;
}

#[tokio::test]
async fn an_anthropic_server_answers() {
    let model = ModelServer::with_key("test-key", Vec::<Reply>::new())
        .await
        .unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "anthropic/claude-test", "provider": "anthropic"}},
        "providers": {"anthropic": {"apiKey": "test-key", "apiBase": model.base_url()}},
    }));
    list_files(&home, &model).await;
}

#[tokio::test]
async fn second_turn_includes_the_first() {
    let model = ModelServer::scripted([Reply::text("Hello, Ann."), Reply::text("Ann.")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    assert_eq!(
        home.run(&["agent", "-m", "I am Ann."]).await.stdout,
        "Hello, Ann.\n"
    );
    assert_eq!(
        home.run(&["agent", "-m", "Who am I?"]).await.stdout,
        "Ann.\n"
    );
    assert_says(
        &model.requests()[1].json.to_string(),
        &["I am Ann.", "Hello, Ann.", "Who am I?"],
    );
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn rejected_key_is_reported_and_message_stored() {
    let model = ModelServer::with_key("another-key", [Reply::text("never")])
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let run = home.run(&["agent", "-m", "hello"]).await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_says(&run.stdout.to_lowercase(), &["key"]);
    assert!(!run.stdout.contains("test-key") && !run.stderr.contains("test-key"));
    assert_says(
        &home.read("workspace/sessions/cli_direct.jsonl"),
        &["hello"],
    );
}

#[tokio::test]
async fn unreachable_model_is_reported() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let mut command = home.program();
    command
        .args(["agent", "-m", "hello"])
        .env("NANOBOT_LLM_TIMEOUT_S", "2");
    let run = finish(command, b"").await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(!run.stdout.trim().is_empty());
}

#[tokio::test]
async fn hanging_model_times_out() {
    let model = ModelServer::answering(|_| Reply::hang()).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut command = home.program();
    command
        .args(["agent", "-m", "hello"])
        .env("NANOBOT_LLM_TIMEOUT_S", "2")
        .env("NANOBOT_STREAM_IDLE_TIMEOUT_S", "1");
    let run = finish(command, b"").await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(!run.stdout.trim().is_empty());
}

#[tokio::test]
async fn unknown_tool_and_bad_arguments_go_back_to_the_model() {
    let model = ModelServer::scripted([
        Reply::call("no_such_tool", &json!({})),
        Reply::call("read_file", &json!({"path": 7, "limit": "many"})),
        Reply::text("Sorry."),
    ])
    .await
    .unwrap();
    let run = Home::with_model(&model.base_url())
        .run(&["agent", "-m", "go"])
        .await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "Sorry.\n"),
        "{}",
        run.stderr
    );
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_says(
        &model.requests()[1].json.to_string(),
        &["no_such_tool", "not found"],
    );
}

#[tokio::test]
async fn unknown_provider_exits_with_a_hint() {
    let home = Home::new();
    home.configure(&json!({"agents": {"defaults": {"model": "x", "provider": "nobody"}}}));
    let run = home.run(&["agent", "-m", "hello"]).await;
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert_says(&run.stderr, &["nobody", "try:"]);
}

#[tokio::test]
async fn vendor_without_a_readable_list_needs_a_named_model() {
    let model = ModelServer::with_key("another-key", Vec::<Reply>::new())
        .await
        .unwrap();
    for base in [model.base_url(), "http://127.0.0.1:1/v1".to_owned()] {
        let home = Home::new();
        home.configure(&json!({"providers": {"nvidia": {"apiBase": base}}}));
        let mut command = home.program();
        command
            .args(["agent", "-m", "你好 👋"])
            .env("NVIDIA_API_KEY", "nv-0123456789abcdef");
        let run = finish(command, b"").await;
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
        assert_says(
            &run.stderr,
            &[
                "no model is named, and nvidia does not list its models: ",
                "`nanobot config set agents.defaults.model NAME`",
            ],
        );
    }
}

#[tokio::test]
async fn piped_input_continues_after_a_failed_turn_and_exits_1() {
    let model = ModelServer::scripted([Reply::error(400, "no such model"), Reply::text("Fine.")])
        .await
        .unwrap();
    let run = Home::with_model(&model.base_url())
        .run_with_input(&["agent", "--lines"], b"one\ntwo\n")
        .await;
    assert_says(&run.stdout, &["no such model", "Fine."]);
    assert_eq!(run.code, 1, "{}", run.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn control_c_ends_a_one_shot_and_keeps_the_message() {
    use std::process::Stdio;

    use nix::sys::signal::{Signal, kill};

    use crate::support::DEADLINE;

    let model = ModelServer::answering(|_| Reply::hang()).await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut command = home.program();
    command.args(["agent", "-m", "hello"]);
    let mut command = tokio::process::Command::from(command);
    let mut child = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    model.wait_for(1).await.unwrap();
    kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let ended = tokio::time::timeout(DEADLINE, child.wait())
        .await
        .expect("the program ends in time");
    assert_eq!(ended.unwrap().code(), Some(130));
    assert_says(
        &home.read("workspace/sessions/cli_direct.jsonl"),
        &["hello"],
    );
}

/// Vendors accept ids of up to 64 characters, and a history may outlive the vendor it began with.
#[tokio::test]
async fn long_call_ids_are_shortened_consistently() {
    let ids = ["a", "b"].map(|end| format!("call_{}{end}", "x".repeat(300)));
    let calls = ids
        .clone()
        .map(|id| ScriptedCall::new("list_dir", &json!({"path": "."})).with_id(id));
    let model = ModelServer::scripted([
        Reply::calls(calls),
        Reply::text("One."),
        Reply::text("Two."),
    ])
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    // An older program stored a long id unchanged.
    let old = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": ids[0], "type": "function", "function": {"name": "list_dir", "arguments": "{}"}}]});
    let result =
        json!({"role": "tool", "tool_call_id": ids[0], "name": "list_dir", "content": "nothing"});
    let asked = json!({"role": "user", "content": "before"});
    home.write(
        "workspace/sessions/cli_direct.jsonl",
        &format!("{asked}\n{old}\n{result}\n"),
    );
    assert_eq!(home.run(&["agent", "-m", "one"]).await.stdout, "One.\n");
    assert_eq!(home.run(&["agent", "-m", "two"]).await.stdout, "Two.\n");
    home.configure(&json!({
        "agents": {"defaults": {"model": "anthropic/claude-test", "provider": "anthropic"}},
        "providers": {"anthropic": {"apiKey": "test-key", "apiBase": model.base_url()}},
    }));
    model.push(Reply::text("Three."));
    assert_eq!(home.run(&["agent", "-m", "three"]).await.stdout, "Three.\n");
    assert_eq!(model.violations(), Vec::<String>::new());
    let bodies: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.json.to_string())
        .collect();
    let sent = |body: &str| -> std::collections::BTreeSet<String> {
        body.split('"')
            .filter(|text| text.starts_with("id_"))
            .map(str::to_owned)
            .collect()
    };
    let last = sent(&bodies[3]);
    // One old call and two new ones; one of the new ones has the id of the old call.
    assert_eq!(last.len(), 3, "{last:?}");
    assert!(last.iter().all(|id| id.len() <= 64), "{last:?}");
    assert_eq!(
        (sent(&bodies[1]), sent(&bodies[2])),
        (last.clone(), last.clone())
    );
    assert!(sent(&bodies[0]).is_subset(&last), "{bodies:?}");
    assert!(
        bodies
            .iter()
            .all(|body| !body.contains(&ids[0]) && !body.contains(&ids[1]))
    );
}
