//! Caps on what model requests cost, as a person meets them.

use nanobot_testkit::{ModelServer, Reply, ReservedPort, WebSocketClient};
use nanobot_types::Usage;
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

/// Returns a home with this budget. A token of an answer costs a tenth of a cent, prompts nothing.
fn home(model: &ModelServer, mut budget: Value, channels: &Value) -> Home {
    budget["prices"] = json!({"test-model": {"input": 0, "output": 1000}});
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "budget": budget,
        "channels": channels,
    }));
    home
}

/// An answer of this many tokens, and a prompt of 100 that was half cached.
fn answer(completion_tokens: u64) -> Reply {
    Reply::text("An answer.").with_usage(Usage {
        prompt_tokens: 100,
        completion_tokens,
        cached_tokens: 50,
        ..Usage::default()
    })
}

async fn usage(home: &Home, by: &str) -> Value {
    let run = home.run(&["usage", "--by", by, "--json"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[tokio::test]
async fn day_cap_warns_then_asks_then_stops_until_it_is_raised() {
    let answers = [40, 5, 5, 1].map(answer);
    let model = ModelServer::scripted(answers).await.unwrap();
    let home = home(&model, json!({"perDay": 0.05}), &json!({}));
    let say = async |text: &str, code: i32, expected: &[&str]| {
        let run = home.run(&["agent", "-m", text]).await;
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_says(&said, expected);
        assert_eq!(run.code, code, "{said}");
        (model.requests().len(), said)
    };
    let (sent, said) = say("one", 0, &["An answer."]).await;
    assert!(sent == 1 && !said.contains("Budget"), "{said}");
    let warned = [
        "An answer.",
        "Budget: 80 % of that for today is used (0.04 of 0.05 USD).",
    ];
    assert_eq!(say("two", 0, &warned).await.0, 2);
    let asked = [
        "Budget: 90 %",
        "Go on? Send /budget continue",
        "/budget raise 1",
    ];
    assert_eq!(say("three", 1, &asked).await.0, 2);
    say(
        "/budget continue",
        0,
        &["Going on.", "today: 0.05 of 0.05 USD (90 %)"],
    )
    .await;
    assert_eq!(say("four", 0, &["An answer."]).await.0, 3);
    let stopped = [
        "Stopped: the budget for today is used up",
        "at midnight",
        "/budget raise 1",
    ];
    assert_eq!(say("five", 1, &stopped).await.0, 3);
    assert_eq!(say("six", 1, &stopped).await.0, 3);
    say("/budget raise much", 1, &["/budget raise 5 adds 5 USD"]).await;
    say("/budget raise 1", 0, &["Raised by 1.00 USD", "of 1.05 USD"]).await;
    assert_eq!(say("seven", 0, &["An answer."]).await.0, 4);
    say(
        "/usage",
        0,
        &[
            "Spent today: 0.05 USD, 4 requests, 50 %",
            "Tokens since start",
        ],
    )
    .await;

    let report = usage(&home, "model").await;
    let row = &report["rows"][0];
    let expected = json!({
        "model": "custom/test-model", "requests": 4, "failed": 0, "estimated": 0, "promptTokens": 400,
        "cachedTokens": 200, "cacheWriteTokens": 0, "completionTokens": 51, "reasoningTokens": 0,
        "cachePercent": 50, "microUsd": 51_000, "unpricedTokens": 0,
    });
    assert_eq!(
        (report["rows"].as_array().unwrap().len(), row),
        (1, &expected)
    );
    let table = home.run(&["usage"]).await.stdout;
    assert_says(&table, &["DAY", "REQUESTS", "CACHED", "50 %", "0.05"]);
}

#[tokio::test]
async fn tokens_of_a_model_without_a_price_are_capped() {
    let model = ModelServer::scripted([answer(5)]).await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "unknown-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "budget": {"tokensPerDay": 100},
    }));
    let run = home.run(&["agent", "-m", "hello"]).await;
    assert_says(
        &format!("{}{}", run.stdout, run.stderr),
        &[
            "Stopped: the budget for today does not cover the next request (0 of 100 tokens used, about",
        ],
    );
    assert_eq!((run.code, model.requests().len()), (1, 0));
    assert_eq!(usage(&home, "day").await["rows"], json!([]));
    let set = ["config", "set", "budget.onLimit", "warn"];
    assert_eq!(home.run(&set).await.code, 0);
    assert_eq!(home.run(&["agent", "-m", "hello"]).await.code, 0);
    assert_eq!(usage(&home, "day").await["rows"][0]["unpricedTokens"], 105);
}

#[cfg(unix)]
#[tokio::test]
async fn charges_survive_a_killed_gateway_and_are_readable_meanwhile() {
    use nix::sys::signal::Signal;

    let model = ModelServer::answering(|_| answer(5)).await.unwrap();
    let port = ReservedPort::new().unwrap();
    let websocket = json!({"websocket": {
        "enabled": true, "port": port.number(), "websocketRequiresToken": false, "allowFrom": ["*"],
    }});
    let home = home(&model, json!({"perDay": 0.012}), &websocket);
    let gateway = crate::gateway::Running::start(&home).await;
    let url = format!("ws://{}/?client_id=me", port.address());
    let mut client = WebSocketClient::connect_soon(&url).await.unwrap();
    client.receive_until("ready").await.unwrap();
    client.send_text("hello").await.unwrap();
    client.receive_until("turn_end").await.unwrap();
    let spent = json!([5000]);
    let costs = |report: &Value| -> Value {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().map(|row| row["microUsd"].clone()).collect()
    };
    assert_eq!(costs(&usage(&home, "session").await), spent);
    // The wildcard lets this person write, not spend.
    client.send_text("/budget raise 5").await.unwrap();
    let events = client.receive_until("message").await.unwrap();
    let said = format!("{events:?}");
    assert_says(&said, &["named in allowFrom, may do that"]);
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
    assert_eq!(costs(&usage(&home, "session").await), spent);

    let gateway = crate::gateway::Running::start(&home).await;
    let mut client = WebSocketClient::connect_soon(&url).await.unwrap();
    client.receive_until("ready").await.unwrap();
    let mut last = String::new();
    for text in ["again", "and again"] {
        client.send_text(text).await.unwrap();
        last = format!("{:?}", client.receive_until("turn_end").await.unwrap());
    }
    assert_says(&last, &["An answer.", "Budget: 83 % of that for today"]);
    client.send_text("once more").await.unwrap();
    let events = format!("{:?}", client.receive_until("turn_end").await.unwrap());
    assert_says(&events, &["Stopped: the budget for today is used up"]);
    assert_eq!(model.requests().len(), 3);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
