//! Several models of one configuration: failover, presets, and the explanation of a route.

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::support::{Home, assert_says};

/// A home whose model is `big/one`, with `spare` to fall back to.
fn home(big: &ModelServer, spare: &ModelServer, fallback: &Value) -> Home {
    let home = Home::new();
    let provider =
        |server: &ModelServer| json!({"apiKey": "test-key", "apiBase": server.base_url()});
    home.configure(&json!({
        "agents": {"defaults": {"model": "big/one", "fallbackModels": fallback}},
        "modelPresets": {"spare": {"model": "small/two", "maxTokens": 77}},
        "providers": {"big": provider(big), "small": provider(spare)},
    }));
    home
}

async fn servers(
    big: impl IntoIterator<Item = Reply>,
    spare: impl IntoIterator<Item = Reply>,
) -> (ModelServer, ModelServer) {
    let big = ModelServer::scripted(big).await.unwrap();
    (big, ModelServer::scripted(spare).await.unwrap())
}

#[tokio::test]
async fn fallback_answers_and_the_failed_model_rests_over_a_restart() {
    let busy = Reply::error(429, "slow down").with_header("retry-after", "600");
    let (big, spare) = servers([busy], [Reply::text("one"), Reply::text("two")]).await;
    let home = home(&big, &spare, &json!(["spare"]));
    let first = home.run(&["agent", "-m", "hello"]).await;
    assert_eq!(first.code, 0, "{}", first.stderr);
    let line = "[small/two answered, because big/one could not: rate limited: slow down]";
    assert_eq!(first.stdout, format!("one\n{line}\n"));
    assert_says(
        &first.stderr,
        &["big/one: rate limited", "asking small/two instead"],
    );

    let second = home.run(&["agent", "-m", "again"]).await;
    assert_says(&second.stdout, &["two", line]);
    assert_eq!((big.requests().len(), spare.requests().len()), (1, 2));
    let sent = &spare.requests()[1].json;
    assert_eq!(
        (&sent["model"], &sent["max_tokens"]),
        (&json!("two"), &json!(77))
    );
    let history = sent["messages"].to_string();
    assert!(
        !history.contains("answered, because"),
        "the model does not read the notice: {history}"
    );
}

#[tokio::test]
async fn session_chooses_a_preset() {
    let replies = [Reply::text("chosen"), Reply::text("still chosen")];
    let spare = ModelServer::scripted(replies).await.unwrap();
    // It also summarises the conversation that /new ends.
    let big = ModelServer::answering(|_| Reply::text("default"))
        .await
        .unwrap();
    let home = home(&big, &spare, &json!([]));
    let menu = home.run(&["agent", "-m", "/model"]).await;
    assert_says(
        &menu.stdout,
        &["▸ default — one (big)", "· spare — small/two"],
    );
    let unknown = home.run(&["agent", "-m", "/model gpt-9"]).await;
    assert_eq!(unknown.code, 1, "{}", unknown.stdout);
    let chosen = home.run(&["agent", "-m", "/model spare"]).await;
    assert_says(&chosen.stdout, &["▸ spare"]);
    for (message, expected) in [
        ("hello", "chosen\n"),
        ("/new", "New session started.\n"),
        ("and now?", "still chosen\n"),
        (
            "/model default",
            "From the next message on:\n▸ default — one (big)\n· spare — small/two\n/model NAME chooses one for this chat.\n",
        ),
        ("back?", "default\n"),
    ] {
        let run = home.run(&["agent", "-m", message]).await;
        assert_eq!(run.stdout, expected, "{message}");
    }
}

#[tokio::test]
async fn route_of_a_model_is_explained() {
    let (big, spare) = servers([], []).await;
    let home = home(&big, &spare, &json!(["spare"]));
    let list = home.run(&["models", "list"]).await;
    assert_eq!(list.code, 0, "{}", list.stderr);
    assert_says(
        &list.stdout,
        &["default", "big/one", "fallback 1", "preset spare"],
    );
    let why = home.run(&["models", "why", "spare", "--json"]).await;
    let route: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(
        (&route["provider"], &route["rule"], &route["address"]),
        (
            &json!("small"),
            &json!("the model begins with its name"),
            &json!(spare.base_url())
        )
    );
    // The section has a name of its own, which the server does not know.
    assert_eq!(route["wireModel"], "two");
    let why = home.run(&["models", "why", "unheard-of"]).await;
    assert_says(&why.stdout, &["the first one with a key"]);
    assert_eq!((big.requests().len(), spare.requests().len()), (0, 0));
}

#[tokio::test]
async fn fallback_that_cannot_be_used_is_reported_at_the_start() {
    let (big, spare) = servers([], []).await;
    for (fallback, expected) in [
        (json!(["sparee"]), "there is no preset \"sparee\""),
        (
            json!([{"model": "gpt-4.1", "provider": "openai"}]),
            "providers.openai.apiKey",
        ),
    ] {
        let home = home(&big, &spare, &fallback);
        let run = home.run(&["agent", "-m", "hello"]).await;
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert_says(
            &run.stderr,
            &["agents.defaults.fallbackModels[0]", expected],
        );
    }
}
