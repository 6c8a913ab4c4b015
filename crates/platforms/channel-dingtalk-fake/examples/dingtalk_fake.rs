//! Runs the DingTalk fake for clients in other languages.
//!
//! Prints its addresses and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "chat": …, "quote": id, "mention": true, "silent": true}` pushes a message of a
//!   person (`ann`); with `"file"`, `"picture"`, `"rich"` or `"audio"` a file of that content, with
//!   `"kind"` and `"content"` any message;
//! - `{"event": type, "content": …}` pushes any event, `{"payload": …}` any content of a message;
//! - `{"press": card, "params": …}` presses a button, `{"answer": number}` returns the answer;
//! - `{"acknowledged": number}` waits until the push of that number is acknowledged;
//! - `{"deliveries": number, "count": …}` waits until it was delivered that often;
//! - `{"refusals": number, "count": …}` waits until it was refused that often;
//! - `{"connections": count}`, `{"answered_pings": count}` wait for clients;
//! - `{"group": id, "robot": …}` adds a group;
//! - `{"fault": method, "code": …}` scripts a refusal, without a code too many calls;
//! - `{"set": …}` changes settings, see `set`;
//! - `{"sent": true}` returns what the robot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel_dingtalk_fake::{
    CARD_TEMPLATE, CLIENT_ID, CLIENT_SECRET, DingTalkFake, Fault, Incoming, Person, Pushed,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(DingTalkFake::start().await?);
    fake.add_person(&ann());
    println!(
        "{}",
        json!({
            "base_url": fake.base_url(), "oapi_url": fake.oapi_url(), "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET, "template": CARD_TEMPLATE, "direct": ann().direct(),
            "ann": ann().staff_id,
        })
    );
    let mut pushed = Vec::new();
    loop {
        // Reading standard input blocks, so it must not run on the threads that serve the fake.
        let line = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let Some(line) = line.transpose()? else {
            return Ok(());
        };
        let order = Order(serde_json::from_str(&line)?);
        println!("{}", order.apply(&fake, &mut pushed).await?);
    }
}

fn ann() -> Person {
    Person::new("ann", "Ann")
}

/// A command.
struct Order(Value);

impl Order {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    fn count(&self, key: &str) -> Option<usize> {
        let number = self.0.get(key).and_then(Value::as_u64);
        number.and_then(|number| usize::try_from(number).ok())
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    fn value(&self, key: &str) -> Value {
        self.0.get(key).cloned().unwrap_or_default()
    }

    async fn apply(&self, fake: &DingTalkFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake) {
            let answer = json!({"number": pushed.len(), "message": new.message_id});
            pushed.push(new);
            return Ok(answer);
        }
        if let Some(answer) = self.wait(fake, pushed).await? {
            return Ok(answer);
        }
        if let Some(settings) = self.0.get("set") {
            return set(fake, settings);
        }
        if let Some(method) = self.text("fault") {
            let fault = self.text("code").map_or(Fault::RateLimited, Fault::error);
            fake.fail_next(method, fault);
            return Ok(json!({}));
        }
        if let Some(group) = self.text("group") {
            fake.add_group(group, self.flag("robot"));
            return Ok(json!({}));
        }
        Ok(report(fake))
    }

    fn push(&self, fake: &DingTalkFake) -> Option<Pushed> {
        if let Some(card) = self.text("press") {
            return Some(fake.press(card, &ann(), &self.value("params")));
        }
        if let Some(event) = self.text("event") {
            return Some(fake.push_event(event, &self.value("content")));
        }
        if let Some(payload) = self.text("payload") {
            return Some(fake.push_payload(payload));
        }
        let mut incoming = self.message()?;
        if let Some(message) = self.text("quote") {
            incoming = incoming.quoting(message);
        }
        if self.flag("mention") {
            incoming = incoming.mentioning_robot();
        }
        Some(if self.flag("silent") {
            fake.push_silently(incoming)
        } else {
            fake.push(incoming)
        })
    }

    fn message(&self) -> Option<Incoming> {
        let direct = ann().direct();
        let chat = self.text("chat").unwrap_or(&direct);
        let text = Incoming::to(chat, &ann(), self.text("text").unwrap_or_default());
        if let Some(file) = self.text("file") {
            Some(text.with_file("a file.txt", "text/plain", file.to_owned()))
        } else if let Some(picture) = self.text("picture") {
            Some(text.with_picture("image/png", picture.to_owned()))
        } else if let Some(picture) = self.text("rich") {
            Some(text.with_rich_picture("image/png", picture.to_owned()))
        } else if let Some(audio) = self.text("audio") {
            Some(text.with_audio(Some("spoken"), 1000, audio.to_owned()))
        } else if let Some(kind) = self.text("kind") {
            Some(text.of_kind(kind, self.value("content")))
        } else {
            self.text("text").map(|_| text)
        }
    }

    async fn wait(&self, fake: &DingTalkFake, pushed: &[Pushed]) -> anyhow::Result<Option<Value>> {
        let count = self.count("count").unwrap_or(1);
        let of = |key| -> anyhow::Result<Option<&Pushed>> {
            let number = self.count(key);
            number
                .map(|number| pushed.get(number).context("no such push"))
                .transpose()
        };
        if let Some(pushed) = of("acknowledged")? {
            fake.wait_for_acknowledged(pushed).await?;
        } else if let Some(pushed) = of("deliveries")? {
            fake.wait_for_deliveries(pushed, count).await?;
        } else if let Some(pushed) = of("refusals")? {
            fake.wait_for_refusals(pushed, count).await?;
        } else if let Some(pushed) = of("answer")? {
            fake.wait_for_acknowledged(pushed).await?;
            return Ok(Some(json!({"answer": fake.answer(pushed)})));
        } else if let Some(count) = self.count("connections") {
            fake.wait_for_connections(count).await?;
        } else if let Some(count) = self.count("answered_pings") {
            fake.wait_for_answered_pings(count).await?;
        } else {
            return Ok(None);
        }
        Ok(Some(json!({})))
    }
}

/// Changes settings: `advance` the clock by seconds, `deny` or `grant` a permission, `revoke` the
/// tokens, `close` or `disconnect` the connections, send a `ping`, `control` the flow to `ann`,
/// `acknowledge` within milliseconds.
fn set(fake: &DingTalkFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let number = value.as_u64().unwrap_or_default();
        match name.as_str() {
            "advance" => fake.advance(Duration::from_secs(number)),
            "acknowledge" => fake.acknowledge_within(Duration::from_millis(number)),
            "deny" => fake.deny_scope(text),
            "grant" => fake.grant_scope(text),
            "revoke" => fake.revoke_tokens(),
            "close" => fake.close(),
            "disconnect" => fake.disconnect(),
            "ping" => fake.send_ping(),
            "control" => fake.control_flow(&ann(), value.as_bool().unwrap_or_default()),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the robot has sent, the complaints and the number of connections.
fn report(fake: &DingTalkFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files = sent.files.iter();
        let files = files
            .map(|file| json!({"name": file.name, "kind": file.kind, "size": file.bytes.len()}));
        json!({
            "key": sent.key, "chat": sent.chat_id, "kind": sent.kind, "text": sent.text,
            "content": sent.content, "card": sent.card, "streaming": sent.is_streaming,
            "failed": sent.is_failed, "history": sent.history, "files": files.collect::<Value>(),
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "complaints": fake.complaints(),
        "connections": fake.connections(), "open": fake.open_connections(),
    })
}
