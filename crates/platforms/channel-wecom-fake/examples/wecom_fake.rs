//! Runs the WeCom fake for clients in other languages.
//!
//! Prints its address and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "chat": …, "quote": id, "mention": true, "silent": true}` pushes a message of a
//!   person (`ann`); with `"file"`, `"image"`, `"mixed"` or `"video"` a file of that content and
//!   this `"name"`, with `"voice"` the words of a voice, with `"kind"` and `"content"` any message;
//! - `{"enter": true}` opens the chat, `{"rate": id}` rates a message;
//! - `{"press": key, "button": …}` presses a button of a card;
//! - `{"payload": body}` pushes any body of a message, `{"event": …}` any event;
//! - `{"repeat": number}` pushes again, `{"deliveries": number, "count": …}` waits for deliveries;
//! - `{"subscriptions": count}`, `{"open": count}` wait for clients;
//! - `{"calls": method, "count": …}` waits for calls and returns them;
//! - `{"group": id, "bot": …}` adds a group;
//! - `{"fault": method, "code": …}` scripts a refusal, without a code too many calls;
//! - `{"set": …}` changes settings, see `set`;
//! - `{"sent": true}` returns what the bot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel_wecom_fake::{BOT_ID, Fault, Incoming, Person, Pushed, SECRET, WeComFake};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(WeComFake::start().await?);
    println!(
        "{}",
        json!({
            "ws_url": fake.ws_url(), "media_url": fake.media_url(), "bot_id": BOT_ID,
            "secret": SECRET, "ann": ann().userid,
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
    Person::new("ann")
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

    async fn apply(&self, fake: &WeComFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake) {
            let answer = json!({
                "number": pushed.len(), "message": new.message_id, "req_id": new.req_id,
            });
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
            let code = self.0.get("code").and_then(Value::as_i64);
            fake.fail_next(method, code.map_or(Fault::RateLimited, Fault::error));
            return Ok(json!({}));
        }
        if let Some(group) = self.text("group") {
            fake.add_group(group, self.flag("bot"));
            return Ok(json!({}));
        }
        Ok(report(fake))
    }

    fn push(&self, fake: &WeComFake) -> Option<Pushed> {
        if self.flag("enter") {
            return Some(fake.enter(&ann()));
        }
        if let Some(id) = self.text("rate") {
            return Some(fake.rate(&ann(), id));
        }
        if let Some(key) = self.text("press") {
            return fake.press(key, &ann(), self.text("button").unwrap_or_default());
        }
        if let Some(body) = self.0.get("payload") {
            return Some(fake.push_payload(body));
        }
        if let Some(event) = self.0.get("event") {
            return Some(fake.push_event(&ann().direct(), &ann(), event));
        }
        let mut incoming = self.message()?;
        if let Some(message) = self.text("quote") {
            incoming = incoming.quoting(message);
        }
        if self.flag("mention") {
            incoming = incoming.mentioning_bot();
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
        let name = self.text("name").unwrap_or("a file.txt");
        if let Some(file) = self.text("file") {
            Some(text.with_file(name, file.to_owned()))
        } else if let Some(image) = self.text("image") {
            Some(text.with_image(name, image.to_owned()))
        } else if let Some(video) = self.text("video") {
            Some(text.with_video(name, video.to_owned()))
        } else if let Some(image) = self.text("mixed") {
            Some(text.with_mixed_image(name, image.to_owned()))
        } else if let Some(words) = self.text("voice") {
            Some(text.with_voice(words))
        } else if let Some(kind) = self.text("kind") {
            let content = self.0.get("content").cloned();
            Some(text.of_kind(kind, content.unwrap_or_default()))
        } else {
            self.text("text").map(|_| text)
        }
    }

    async fn wait(&self, fake: &WeComFake, pushed: &[Pushed]) -> anyhow::Result<Option<Value>> {
        let count = self.count("count").unwrap_or(1);
        let of = |key| -> anyhow::Result<Option<&Pushed>> {
            let number = self.count(key);
            number
                .map(|number| pushed.get(number).context("no such push"))
                .transpose()
        };
        if let Some(pushed) = of("deliveries")? {
            fake.wait_for_deliveries(pushed, count).await?;
        } else if let Some(pushed) = of("repeat")? {
            fake.repeat(pushed);
        } else if let Some(count) = self.count("subscriptions") {
            fake.wait_for_subscriptions(count).await?;
        } else if let Some(count) = self.count("open") {
            fake.wait_for_open_connections(count).await?;
        } else if let Some(method) = self.text("calls") {
            let calls = fake.wait_for_calls(method, count).await?.into_iter();
            let calls = calls.map(|call| json!({"req_id": call.req_id, "body": call.body}));
            return Ok(Some(json!({"calls": calls.collect::<Value>()})));
        } else {
            return Ok(None);
        }
        Ok(Some(json!({})))
    }
}

/// Changes settings: `advance` the clock by seconds, `cut` or `close` the connections, `forget` the
/// subscriptions, `keep` messages, `limit` them, `revoke` or `restore` the credentials.
fn set(fake: &WeComFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let number = value.as_u64().unwrap_or_default();
        match name.as_str() {
            "advance" => fake.advance(Duration::from_secs(number)),
            "cut" => fake.cut(),
            "close" => fake.close(),
            "forget" => fake.forget_subscriptions(),
            "keep" => fake.keep_messages(),
            "limit" => fake.limit_messages(),
            "revoke" => fake.revoke_credentials(),
            "restore" => fake.restore_credentials(),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the bot has sent, the complaints and the numbers of connections.
fn report(fake: &WeComFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files = sent.files.iter();
        let files = files
            .map(|file| json!({"name": file.name, "kind": file.kind, "size": file.bytes.len()}));
        json!({
            "key": sent.key, "command": sent.command, "req_id": sent.req_id, "chat": sent.chat_id,
            "kind": sent.kind, "text": sent.text, "history": sent.history,
            "streaming": sent.is_streaming, "files": files.collect::<Value>(),
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "complaints": fake.complaints(),
        "subscriptions": fake.subscriptions(), "open": fake.open_connections(),
    })
}
