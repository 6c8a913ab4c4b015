//! Runs the Slack fake for clients in other languages.
//!
//! Prints its address and tokens as one line of JSON. Then it reads commands from standard input,
//! one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "channel": …, "thread": …, "file": …}` pushes a message of a person (`U0ANN`),
//!   and with `"untold": true` sends no event for it;
//! - `{"press": ts, "channel": …, "value": …}` presses a button;
//! - `{"slash": command, "channel": …, "text": …}` sends a slash command;
//! - `{"acknowledged": number}` waits until the push of that number is acknowledged;
//! - `{"deliveries": number, "count": …}` waits until it was delivered that often;
//! - `{"reactions": ts, "channel": …}` returns the bot's reactions to a message;
//! - `{"disconnect": reason}` disconnects every connection;
//! - `{"fault": method, "error" | "retry_after": …}` scripts a fault;
//! - `{"sent": true}` returns what the bot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel_slack_fake::{
    APP_TOKEN, BOT_TOKEN, Fault, Incoming, Person, Pushed, SlackFake,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(SlackFake::start().await?);
    println!(
        "{}",
        json!({"api_base": fake.api_base(), "bot_token": BOT_TOKEN, "app_token": APP_TOKEN})
    );
    let mut pushed = Vec::new();
    loop {
        // Reading standard input blocks, so it must not run on the threads that serve the fake.
        let line = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let Some(line) = line.transpose()? else {
            return Ok(());
        };
        let answer = apply(&fake, &serde_json::from_str(&line)?, &mut pushed).await?;
        println!("{answer}");
    }
}

async fn apply(fake: &SlackFake, order: &Value, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
    let text = |key: &str| order.get(key).and_then(Value::as_str);
    let number = |key: &str| {
        order
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|number| usize::try_from(number).ok())
    };
    let person = Person::new("U0ANN", "ann");
    let channel = text("channel").map_or_else(|| person.direct(), str::to_owned);
    if let Some(index) = number("acknowledged") {
        fake.wait_for_acknowledged(pushed.get(index).context("no such message")?)
            .await?;
        return Ok(json!({}));
    }
    if let Some(index) = number("deliveries") {
        let count = number("count").unwrap_or(1);
        fake.wait_for_deliveries(pushed.get(index).context("no such message")?, count)
            .await?;
        return Ok(json!({}));
    }
    if let Some(ts) = text("reactions") {
        return Ok(json!({"reactions": fake.reactions(&channel, ts)}));
    }
    if let Some(reason) = text("disconnect") {
        fake.disconnect(reason);
        return Ok(json!({}));
    }
    if let Some(method) = text("fault") {
        let seconds = number("retry_after").and_then(|seconds| u32::try_from(seconds).ok());
        let fault = seconds.map_or_else(
            || Fault::error(text("error").unwrap_or("fatal_error")),
            Fault::RetryAfter,
        );
        fake.fail_next(method, fault);
        return Ok(json!({}));
    }
    let new = if let Some(ts) = text("press") {
        fake.press(&channel, ts, &person, text("value").unwrap_or_default())
            .context("no such button")?
    } else if let Some(command) = text("slash") {
        fake.slash(&channel, &person, command, text("text").unwrap_or_default())
    } else if let Some(content) = text("text") {
        let mut incoming = Incoming::to(&channel, &person, content);
        if let Some(thread) = text("thread") {
            incoming = incoming.in_thread(thread);
        }
        if let Some(file) = text("file") {
            incoming = incoming.with_file("f.txt", "text/plain", file.to_owned());
        }
        if order.get("untold").is_some() {
            fake.push_silently(incoming)
        } else {
            fake.push(incoming)
        }
    } else {
        return Ok(report(fake));
    };
    let answer = json!({"number": pushed.len(), "ts": new.ts});
    pushed.push(new);
    Ok(answer)
}

/// Reports the messages that the bot has sent, the complaints and the number of connections.
fn report(fake: &SlackFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let file = sent.file.map(|file| json!({"name": file.name, "size": file.bytes.len()}));
        json!({
            "channel": sent.channel, "ts": sent.ts, "thread": sent.thread, "text": sent.text, "blocks": sent.blocks,
            "history": sent.history, "deleted": sent.is_deleted, "file": file,
            "reactions": fake.reactions(&sent.channel, &sent.ts),
        })
    });
    json!({"sent": sent.collect::<Value>(), "complaints": fake.complaints(), "connections": fake.connections()})
}
