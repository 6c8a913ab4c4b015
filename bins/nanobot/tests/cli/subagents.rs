//! Subagents: from a question, a pipe, a gateway in a topic of a group, and across a kill.

use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{Gate, ModelServer, Reply, ReservedPort, WebSocketClient};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::support::{Home, assert_says, until};

const GROUP: i64 = -10_042;
const TOPIC: i64 = 5;

fn messages(request: &ModelRequest) -> &[Value] {
    request.json["messages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn is_subagent(request: &ModelRequest) -> bool {
    messages(request)
        .first()
        .is_some_and(|system| text(system).starts_with("# Subagent"))
}

fn results(request: &ModelRequest) -> usize {
    messages(request)
        .iter()
        .filter(|message| message["role"] == "tool")
        .count()
}

/// Returns a model that delegates a task, opens the gate `opened`, and passes the result on. Its
/// subagent lists the workspace, waits for `gate`, and answers.
async fn model(gate: &Gate, opened: &Gate) -> ModelServer {
    let (gate, opened) = (gate.clone(), opened.clone());
    let answer = move |request: &ModelRequest| match (is_subagent(request), results(request)) {
        (true, 0) => Reply::call("list_dir", &json!({"path": "."})),
        (true, _) => Reply::text("It is 42.").after(&gate),
        (false, _) => {
            let last = messages(request).last().map(text).unwrap_or_default();
            match results(request) {
                _ if last.starts_with("[Subagent 'number' completed]") => {
                    Reply::text("The number is 42.")
                }
                _ if last.starts_with("any news?") => Reply::text("Nothing yet."),
                0 => Reply::call(
                    "spawn",
                    &json!({"task": "find the number", "label": "number"}),
                ),
                _ => {
                    // From here on this turn takes in nothing more.
                    opened.open();
                    Reply::text("I gave it away.")
                }
            }
        }
    };
    ModelServer::answering(answer).await.unwrap()
}

fn home(model: &ModelServer, channels: &Value) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": channels,
    }));
    home
}

fn telegram_channel(telegram: &TelegramFake) -> Value {
    json!({"telegram": {
        "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
        "groupPolicy": "open", "pollTimeout": 1,
    }})
}

/// Returns the sessions of subagents.
fn sessions_of_subagents(home: &Home) -> Vec<String> {
    let names = home.names("workspace/sessions");
    names
        .into_iter()
        .filter(|name| name.starts_with("subagent_"))
        .collect()
}

#[tokio::test]
async fn one_shot_waits_for_its_subagents() {
    let gate = Gate::new();
    let model = model(&gate, &gate).await;
    let home = home(&model, &json!({}));
    let asked = home.run(&["agent", "-m", "ask somebody"]).await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    assert_eq!(asked.stdout, "I gave it away.\nThe number is 42.\n");
    let sessions = sessions_of_subagents(&home);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let listed = home.run(&["sessions", "list"]).await.stdout;
    assert!(
        listed.contains("cli:direct") && !listed.contains("subagent:"),
        "{listed}"
    );
    let listed = home.run(&["sessions", "list", "--all"]).await.stdout;
    assert_says(&listed, &["cli:direct", "subagent:"]);
    let key = sessions[0].trim_end_matches(".jsonl").replacen('_', ":", 1);
    assert_says(
        &home.run(&["sessions", "show", &key]).await.stdout,
        &["find the number", "list_dir", "It is 42."],
    );
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn pipe_and_gateway_print_subagent_results() {
    let gate = Gate::new();
    let model = model(&gate, &gate).await;
    let home = home(&model, &json!({}));
    let told = "I gave it away.\nThe number is 42.\n";
    let piped = home.run_with_input(&["agent"], b"ask somebody\n").await;
    assert_eq!(
        (piped.code, piped.stdout.as_str()),
        (0, told),
        "{}",
        piped.stderr
    );
    let gateway = Running::start(&home).await;
    let asked = home
        .run(&["agent", "-s", "one", "-m", "ask somebody"])
        .await;
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, told),
        "{}",
        asked.stderr
    );
    let piped = home
        .run_with_input(&["agent", "-s", "two"], b"ask somebody\n")
        .await;
    assert_eq!(
        (piped.code, piped.stdout.as_str()),
        (0, told),
        "{}",
        piped.stderr
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Returns a prompt that the user left while a subagent worked.
fn prompt_leaving_subagents(home: &Home) -> Screen {
    let mut screen = Screen::open(home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("ask somebody\r");
    screen.wait_for("I gave it away.");
    screen.type_in("exit\r");
    screen.wait_for("1 subagent still works.");
    screen
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_exits_after_its_subagents_finish() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let home = home(&model, &json!({}));
    let mut screen = prompt_leaving_subagents(&home);
    gate.open();
    screen.wait_for("The number is 42.");
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_exits_a_prompt_despite_subagents() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let home = home(&model, &json!({}));
    let mut screen = prompt_leaving_subagents(&home);
    kill(screen.pid(), Signal::SIGINT).unwrap();
    assert_eq!(screen.end(), Some(130), "{}", screen.text);
    assert_says(
        &home.run(&["sessions", "show", "cli:direct"]).await.stdout,
        &["I gave it away."],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_prompt_exits_after_its_subagents_finish() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let home = home(&model, &json!({}));
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("ask somebody\r");
    screen.wait_for("I gave it away.");
    // The answer arrives after the end of the first turn, with which the gateway reports unfinished
    // subagents.
    screen.type_in("any news?\r");
    screen.wait_for("Nothing yet.");
    screen.type_in("exit\r");
    screen.wait_for("1 subagent still works.");
    gate.open();
    screen.wait_for("The number is 42.");
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn subagent_result_is_sent_to_the_requesting_topic() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let telegram = TelegramFake::start().await.unwrap();
    let gateway = Running::start(&home(&model, &telegram_channel(&telegram))).await;
    telegram.push(
        Incoming::group(GROUP, &Person::new(7, "Ann", "ann"), "ask somebody").in_topic(TOPIC),
    );
    telegram.wait_for_sent(1).await.unwrap();
    gate.open();
    let told = telegram.wait_for_sent(2).await.unwrap();
    let told: Vec<_> = told
        .iter()
        .map(|sent| (sent.text.as_str(), sent.thread_id))
        .collect();
    assert_eq!(
        told,
        [
            ("I gave it away.", Some(TOPIC)),
            ("The number is 42.", Some(TOPIC))
        ]
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn client_receives_the_result_and_can_stop_the_subagent() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let port = ReservedPort::new().unwrap();
    let channels = json!({"websocket": {
        "enabled": true, "port": port.number(), "websocketRequiresToken": false, "allowFrom": ["*"], "streaming": false,
    }});
    let home = home(&model, &channels);
    let gateway = Running::start(&home).await;
    let url = format!("ws://{}/?client_id=me", port.address());
    let mut client = WebSocketClient::connect_soon(&url).await.unwrap();
    client.receive_until("ready").await.unwrap();
    client.send_text("ask somebody").await.unwrap();
    assert_eq!(reply(&mut client).await, "I gave it away.");
    // The subagent has listed the workspace and is asked for its answer.
    model.wait_for(4).await.unwrap();
    client.send_text("/agents").await.unwrap();
    assert_says(&reply(&mut client).await, &["number", "works", "list_dir"]);
    client.send_text("/stop").await.unwrap();
    assert_eq!(reply(&mut client).await, "Stopped 1 task(s).");
    until("the session has a note", async || {
        let names = home.names("workspace/sessions");
        let own = names
            .iter()
            .find(|name| name.starts_with("websocket_"))
            .unwrap();
        home.read(&format!("workspace/sessions/{own}"))
            .contains("was stopped by a person")
    })
    .await;
    client.send_text("ask somebody else").await.unwrap();
    assert_eq!(reply(&mut client).await, "I gave it away.");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Returns the next whole message to a client.
async fn reply(client: &mut WebSocketClient) -> String {
    let events = client.receive_until("message").await.unwrap();
    events
        .last()
        .and_then(|event| event["text"].as_str())
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn subagent_survives_a_kill_and_reports_once() {
    let gate = Gate::new();
    let model = model(&gate, &Gate::new()).await;
    let telegram = TelegramFake::start().await.unwrap();
    let home = home(&model, &telegram_channel(&telegram));
    let gateway = Running::start(&home).await;
    telegram.push(
        Incoming::group(GROUP, &Person::new(7, "Ann", "ann"), "ask somebody").in_topic(TOPIC),
    );
    telegram.wait_for_sent(1).await.unwrap();
    // Two requests of the delegating turn and two of the subagent, the last of which is not
    // answered.
    model.wait_for(4).await.unwrap();
    // Only the task is left, so the reply cannot be uncertain.
    until("the reply is settled", async || {
        let listed = home.run(&["inbox", "--pending", "--json"]).await.stdout;
        serde_json::from_str::<Value>(&listed)
            .unwrap()
            .as_array()
            .is_some_and(|entries| entries.len() == 1)
    })
    .await;
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
    gate.open();
    let gateway = Running::start(&home).await;
    let told = telegram.wait_for_sent(2).await.unwrap();
    until("everything is settled", async || {
        home.run(&["inbox", "--pending"]).await.stdout == "Nothing.\n"
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let told: Vec<_> = told
        .iter()
        .map(|sent| (sent.text.as_str(), sent.thread_id))
        .collect();
    assert_eq!(
        told,
        [
            ("I gave it away.", Some(TOPIC)),
            ("The number is 42.", Some(TOPIC))
        ]
    );
    assert_eq!(telegram.sent().len(), 2);
    let sessions = sessions_of_subagents(&home);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let calls = model
        .requests()
        .iter()
        .filter(|request| is_subagent(request) && results(request) == 0)
        .count();
    assert_eq!(calls, 1, "recorded calls are not repeated");
}
