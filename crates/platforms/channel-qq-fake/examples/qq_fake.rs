//! Runs the QQ fake for clients in other languages.
//!
//! Prints its addresses and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "mention": true, "quote": id, "file": …}` pushes a message of a person (`ann`), in
//!   the private chat, the `"group"` or `"channel"` of an id, or with `"dms": true` in the direct
//!   messages of guilds;
//! - `{"event": name, "data": …}` pushes any event, `{"repeat": number}` an earlier push again;
//! - `{"acknowledged": number}` waits until the push of that number is acknowledged;
//! - `{"deliveries": number, "count": …}` waits until it was delivered that often;
//! - `{"identifies": count}`, `{"resumes": count}`, `{"ready": count}` and `{"heartbeats": count}`
//!   wait for clients;
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
use nanobot_channel_qq_fake::{
    APP_ID, BOT_ID, CLIENT_SECRET, Fault, Incoming, Person, Pushed, QqFake,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(QqFake::start().await?);
    fake.add_person(&ann());
    println!(
        "{}",
        json!({
            "base_url": fake.base_url(), "token_url": fake.token_url(), "app_id": APP_ID,
            "client_secret": CLIENT_SECRET, "bot": BOT_ID, "openid": ann().openid,
            "user_id": ann().user_id, "dms": ann().dms(),
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

    async fn apply(&self, fake: &QqFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake) {
            let answer = json!({"number": pushed.len(), "message": new.message_id});
            pushed.push(new);
            return Ok(answer);
        }
        if self.wait(fake, pushed).await? {
            return Ok(json!({}));
        }
        if let Some(settings) = self.0.get("set") {
            return set(fake, settings);
        }
        if let Some(method) = self.text("fault") {
            let code = self.0.get("code").and_then(Value::as_i64);
            fake.fail_next(method, code.map_or(Fault::RateLimited, Fault::Error));
            return Ok(json!({}));
        }
        Ok(report(fake))
    }

    fn push(&self, fake: &QqFake) -> Option<Pushed> {
        if let Some(event) = self.text("event") {
            let data = self.0.get("data").cloned().unwrap_or_default();
            return Some(fake.push_event(event, &data));
        }
        let text = self.text("text")?;
        let mut incoming = if let Some(group) = self.text("group") {
            Incoming::to_group(group, &ann(), text)
        } else if let Some(channel) = self.text("channel") {
            Incoming::to_channel(channel, &ann(), text)
        } else if self.flag("dms") {
            Incoming::guild_direct(&ann(), text)
        } else {
            Incoming::direct(&ann(), text)
        };
        if self.flag("mention") {
            incoming = incoming.mentioning_bot();
        }
        if let Some(message) = self.text("quote") {
            incoming = incoming.quoting(message);
        }
        if let Some(file) = self.text("file") {
            incoming = incoming.with_file("a file.txt", "file", file.to_owned());
        }
        Some(fake.push(incoming))
    }

    /// Waits, or repeats a push. Returns `false` for another command.
    async fn wait(&self, fake: &QqFake, pushed: &[Pushed]) -> anyhow::Result<bool> {
        let of = |key| -> anyhow::Result<Option<&Pushed>> {
            let number = self.count(key);
            number
                .map(|number| pushed.get(number).context("no such push"))
                .transpose()
        };
        if let Some(pushed) = of("acknowledged")? {
            fake.wait_for_acknowledged(pushed).await?;
        } else if let Some(pushed) = of("deliveries")? {
            let count = self.count("count").unwrap_or(1);
            fake.wait_for_deliveries(pushed, count).await?;
        } else if let Some(pushed) = of("repeat")? {
            fake.repeat(pushed);
        } else if let Some(count) = self.count("identifies") {
            fake.wait_for_identifies(count).await?;
        } else if let Some(count) = self.count("resumes") {
            fake.wait_for_resumes(count).await?;
        } else if let Some(count) = self.count("ready") {
            fake.wait_for_ready(count).await?;
        } else if let Some(count) = self.count("heartbeats") {
            fake.wait_for_heartbeats(count).await?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Changes settings: `advance` the clock by seconds, `revoke` the tokens, `cut` the connections or
/// `close` them with a code, ask for a `reconnect`, `invalidate` the sessions, `limit_active`
/// messages, `limit_text` to characters, `refuse_urls`.
fn set(fake: &QqFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let number = value.as_u64().unwrap_or_default();
        let is_on = value.as_bool().unwrap_or_default();
        match name.as_str() {
            "advance" => fake.advance(Duration::from_secs(number)),
            "revoke" => fake.revoke_tokens(),
            "cut" => fake.cut(),
            "close" => fake.close_with(u16::try_from(number)?),
            "reconnect" => fake.reconnect(),
            "invalidate" => fake.invalidate(false),
            "limit_active" => fake.limit_active_messages(usize::try_from(number)?),
            "limit_text" => fake.limit_text(usize::try_from(number)?),
            "refuse_urls" => fake.refuse_urls(is_on),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the bot has sent, the complaints and the numbers of sessions.
fn report(fake: &QqFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files = sent.files.iter();
        let files = files.map(|file| {
            json!({
                "name": file.name, "kind": file.kind, "url": file.url, "size": file.bytes.len(),
            })
        });
        json!({
            "id": sent.id, "chat": sent.chat_id, "type": sent.msg_type, "text": sent.text,
            "reply": sent.msg_id, "seq": sent.msg_seq, "files": files.collect::<Value>(),
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "complaints": fake.complaints(),
        "connections": fake.connections(), "identifies": fake.identifies(),
        "resumes": fake.resumes(),
    })
}
