//! Runs the Feishu fake for clients in other languages.
//!
//! Prints its address and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "chat": …, "reply": id, "thread": id, "mention": true, "silent": true}` pushes a
//!   message of a person (`ou_ann`); with `"file"` or `"image"` instead of the text a file, with
//!   `"kind"` and `"content"` any message, with `"forward": […]` the forwarded texts of another;
//! - `{"event": type, "content": …}` pushes any event, `{"payload": …}` any payload;
//! - `{"press": message, "label": …}` presses a button, `{"answer": number}` returns the answer;
//! - `{"acknowledged": number}` waits until the push of that number is acknowledged;
//! - `{"deliveries": number, "count": …}` waits until it was delivered that often;
//! - `{"refusals": number, "count": …}` waits until it was refused that often;
//! - `{"connections": count}` and `{"pings": count}` wait for clients;
//! - `{"group": id, "bot": …, "topics": …}` adds a group;
//! - `{"fault": method, "code" | "rate_limit" | "handshake": …}` scripts a fault;
//! - `{"set": …}` changes settings, see `set`;
//! - `{"sent": true}` returns what the bot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel_feishu_fake::{
    APP_ID, APP_SECRET, BOT_OPEN_ID, ClientConfig, Fault, FeishuFake, Incoming, Person, Pushed,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(FeishuFake::start().await?);
    fake.configure_clients(ClientConfig::impatient());
    fake.add_person(&ann());
    println!(
        "{}",
        json!({
            "base_url": fake.base_url(), "app_id": APP_ID, "app_secret": APP_SECRET,
            "bot": BOT_OPEN_ID, "direct": ann().direct(), "ann": ann().open_id,
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
    Person::new("ou_ann", "Ann")
}

/// A command.
struct Order(Value);

impl Order {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    fn count(&self, key: &str) -> Option<usize> {
        self.number(key)
            .and_then(|number| usize::try_from(number).ok())
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    async fn apply(&self, fake: &FeishuFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake)? {
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
            fake.fail_next(method, self.fault()?);
            return Ok(json!({}));
        }
        if let Some(group) = self.text("group") {
            if self.flag("topics") {
                fake.add_topic_group(group);
            } else {
                fake.add_group(group, self.flag("bot"));
            }
            return Ok(json!({}));
        }
        Ok(report(fake))
    }

    fn push(&self, fake: &FeishuFake) -> anyhow::Result<Option<Pushed>> {
        if let Some(message) = self.text("press") {
            let label = self.text("label").unwrap_or_default();
            let pressed = fake.press(message, &ann(), label);
            return Ok(Some(pressed.context("no such button")?));
        }
        if let Some(event) = self.text("event") {
            let content = self.0.get("content").cloned().unwrap_or_default();
            return Ok(Some(fake.push_event(event, &content)));
        }
        if let Some(payload) = self.text("payload") {
            return Ok(Some(fake.push_payload(payload.as_bytes().to_vec())));
        }
        let Some(mut incoming) = self.message() else {
            return Ok(None);
        };
        if let Some(message) = self.text("reply") {
            incoming = incoming.replying_to(message);
        }
        if let Some(message) = self.text("thread") {
            incoming = incoming.in_thread_of(message);
        }
        if self.flag("mention") {
            incoming = incoming.mentioning_bot();
        }
        Ok(Some(if self.flag("silent") {
            fake.push_silently(incoming)
        } else {
            fake.push(incoming)
        }))
    }

    fn message(&self) -> Option<Incoming> {
        let chat = self
            .text("chat")
            .map_or_else(|| ann().direct(), str::to_owned);
        let text = Incoming::to(&chat, &ann(), self.text("text").unwrap_or_default());
        if let Some(file) = self.text("file") {
            Some(text.with_file("a file.txt", "text/plain", file.to_owned()))
        } else if let Some(image) = self.text("image") {
            Some(text.with_image("image/png", image.to_owned()))
        } else if let Some(kind) = self.text("kind") {
            Some(text.of_kind(kind, self.0.get("content").cloned().unwrap_or_default()))
        } else if let Some(texts) = self.0.get("forward").and_then(Value::as_array) {
            let bob = Person::new("ou_bob", "Bob");
            let texts = texts.iter().filter_map(Value::as_str);
            Some(text.with_forwarded(texts.map(|text| Incoming::direct(&bob, text)).collect()))
        } else {
            self.text("text").map(|_| text)
        }
    }

    async fn wait(&self, fake: &FeishuFake, pushed: &[Pushed]) -> anyhow::Result<Option<Value>> {
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
        } else if let Some(count) = self.count("pings") {
            fake.wait_for_pings(count).await?;
        } else {
            return Ok(None);
        }
        Ok(Some(json!({})))
    }

    fn fault(&self) -> anyhow::Result<Fault> {
        if let Some(seconds) = self.number("rate_limit") {
            return Ok(Fault::RateLimited(u32::try_from(seconds)?));
        }
        if let Some(code) = self.number("handshake") {
            return Ok(Fault::Handshake {
                status: 514,
                message: "refused".to_owned(),
                auth_code: Some(u32::try_from(code)?),
            });
        }
        let code = self.number("code").context("a fault of which kind?")?;
        Ok(Fault::Error(code))
    }
}

/// Changes settings: `advance` the clock by seconds, `split` events into parts, `reverse` the parts
/// or `lose` the last ones, `deny` or `grant` a permission, `revoke` the tokens, `close` the
/// connections, `acknowledge` within milliseconds.
fn set(fake: &FeishuFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let number = value.as_u64().unwrap_or_default();
        match name.as_str() {
            "advance" => fake.advance(Duration::from_secs(number)),
            "acknowledge" => fake.acknowledge_within(Duration::from_millis(number)),
            "split" => fake.split_events(usize::try_from(number)?),
            "reverse" => fake.reverse_parts(),
            "lose" => fake.lose_parts(usize::try_from(number)?),
            "deny" => fake.deny_scope(text),
            "grant" => fake.grant_scope(text),
            "revoke" => fake.revoke_tokens(),
            "close" => fake.close(),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the bot has sent, the complaints and the number of connections.
fn report(fake: &FeishuFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files: Vec<Value> = sent
            .files
            .iter()
            .map(|file| json!({"name": file.name, "kind": file.kind, "size": file.bytes.len()}))
            .collect();
        json!({
            "message": sent.message_id, "chat": sent.chat_id, "kind": sent.kind, "text": sent.text,
            "content": sent.content, "streaming": sent.is_streaming, "root": sent.root_id,
            "parent": sent.parent_id, "thread": sent.thread_id, "uuid": sent.uuid, "files": files,
            "history": sent.history, "deleted": sent.is_deleted,
            "reactions": fake.reactions(&sent.message_id),
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "complaints": fake.complaints(),
        "connections": fake.connections(),
    })
}
