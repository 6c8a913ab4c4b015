//! Runs the scripted model for clients in other languages and for manual tests.
//!
//! Prints its base URL as one line of JSON and answers requests until its input ends: `call NAME
//! {…}` with that tool call, tool results with their text, and everything else with an echo
//! preceded by reasoning. For each line of input it prints the violations so far.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = ModelServer::answering(answer).await?;
    println!("{}", json!({"base_url": server.base_url()}));
    // Reading standard input blocks, so it must not run on the threads that serve the model.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            line?;
            println!("{}", json!(server.violations()));
        }
        Ok(())
    });
    serve.await?
}

fn answer(request: &ModelRequest) -> Reply {
    let results = request.tool_results();
    if !results.is_empty() {
        return Reply::text(format!("The tool said: {}", results.join(", ")));
    }
    let text = request.last_user_text();
    // The time and the chat follow the message in a block of their own.
    let order = text
        .lines()
        .next()
        .unwrap_or_default()
        .strip_prefix("call ")
        .and_then(|order| order.split_once(' '));
    match order.map(|(name, arguments)| (name, serde_json::from_str(arguments))) {
        Some((name, Ok(arguments))) => Reply::call(name, &arguments),
        Some((_, Err(error))) => Reply::text(format!("That is no JSON: {error}")),
        None => {
            Reply::deltas(["You said: ", &text]).with_reasoning("They said something.", "signed")
        }
    }
}
