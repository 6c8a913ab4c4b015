//! Scripted models for the measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{Gate, ModelServer, Reply};
use serde_json::{Value, json};

/// Number of words in the model's answer, each a streamed piece.
const WORDS: usize = 60;

fn answer() -> Reply {
    Reply::deltas((0..WORDS).map(|number| format!("word{number} ")))
}

/// Starts a model that answers at once.
pub(crate) async fn prompt() -> Result<ModelServer> {
    Ok(ModelServer::answering(|_| answer()).await?)
}

/// Starts a model that answers at once until `is_holding`, and then begins answers without ending
/// them.
pub(crate) async fn holding(is_holding: Arc<AtomicBool>) -> Result<ModelServer> {
    let gate = Gate::new();
    let rule = move |_: &ModelRequest| {
        if is_holding.load(Ordering::Relaxed) {
            answer().holding(&gate)
        } else {
            answer()
        }
    };
    Ok(ModelServer::answering(rule).await?)
}

/// Starts a model that answers in one piece after a delay.
pub(crate) async fn slow(pause: Duration) -> Result<ModelServer> {
    Ok(ModelServer::answering(move |_| {
        Reply::text("An answer that took its time.").with_delay(pause)
    })
    .await?)
}

/// Starts a model that reads `rounds` pieces of `notes.txt`, one after the other, before it
/// answers.
pub(crate) async fn reading(rounds: usize) -> Result<ModelServer> {
    let rule = move |request: &ModelRequest| {
        let done = request
            .messages()
            .iter()
            .rev()
            .take_while(|message| role(message) != "user");
        match done.filter(|message| role(message) == "tool").count() {
            done if done < rounds => Reply::call(
                "read_file",
                &json!({ "path": "notes.txt", "offset": done + 1, "limit": 5 }),
            ),
            _ => answer(),
        }
    };
    Ok(ModelServer::answering(rule).await?)
}

fn role(message: &Value) -> &str {
    message
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or_default()
}
