//! Runs the Matrix fake for clients in other languages.
//!
//! Prints its address and the accounts of the bot and of a person (`ann`) as one line of JSON. Then
//! it reads commands from standard input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "room": …, "mention": true, "reply": id, "thread": id, "edit": id}` pushes a
//!   message of the person; with `"file"` a file of that content, this `"name"`, `"kind"` and
//!   `"mime"`; with `"type"` and `"content"` any event;
//! - `{"raw": event, "room": …}` adds any JSON to a timeline;
//! - `{"repeat": number}` delivers a push again, `{"redact": number}` redacts it,
//!   `{"deliveries": number, "count": …}` and `{"acknowledged": number}` wait;
//! - `{"add_room": …}` adds a room, `{"invite": room, "direct": true}` invites the bot,
//!   `{"membership": room}` returns its membership, `{"encrypt": room}` encrypts a room,
//!   `{"power": …, "room": …}` sets the bot's power level;
//! - `{"typing": room}` returns whether the bot types there, `{"receipts": room}` what it has read;
//! - `{"calls": method, "count": …}` waits for calls and returns them;
//! - `{"fault": method, "code": …}` scripts a refusal, without a code too many calls with
//!   `"seconds"`;
//! - `{"set": …}` changes settings, see `set`;
//! - `{"sent": true}` returns what the bot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel_matrix_fake::{Account, Fault, Incoming, MatrixFake, Person, Pushed};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = Arc::new(MatrixFake::start().await?);
    fake.add_person(&ann());
    let shown = |account: Account| {
        json!({
            "user": account.user_id, "password": account.password,
            "device": account.device_id, "token": account.access_token,
        })
    };
    let accounts = (shown(fake.bot()), shown(fake.log_in(&ann(), "ANNDEV")));
    println!(
        "{}",
        json!({"url": fake.url(), "bot": accounts.0, "ann": accounts.1, "direct": ann().direct()})
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

    fn member(&self, key: &str) -> Value {
        self.0.get(key).cloned().unwrap_or_default()
    }

    fn room(&self) -> String {
        self.text("room")
            .map_or_else(|| ann().direct(), str::to_owned)
    }

    async fn apply(&self, fake: &MatrixFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake, pushed)? {
            let answer = json!({"number": pushed.len(), "event": new.event_id});
            pushed.push(new);
            return Ok(answer);
        }
        if let Some(answer) = self.wait(fake, pushed).await? {
            return Ok(answer);
        }
        if let Some(settings) = self.0.get("set") {
            return set(fake, settings).await;
        }
        if let Some(method) = self.text("fault") {
            fake.fail_next(method, self.fault());
            return Ok(json!({}));
        }
        if let Some(room) = self.text("add_room") {
            fake.add_room(room, &[ann()]);
        } else if let Some(power) = self.0.get("power").and_then(Value::as_i64) {
            fake.set_power(&self.room(), power);
        } else if let Some(room) = self.text("membership") {
            return Ok(json!({"membership": fake.membership(room)}));
        } else if let Some(room) = self.text("typing") {
            return Ok(json!({"typing": fake.is_typing(room)}));
        } else if let Some(room) = self.text("receipts") {
            let receipts = fake.receipts(room).into_iter();
            let receipts = receipts.map(|receipt| json!([receipt.kind, receipt.event_id]));
            return Ok(json!({"receipts": receipts.collect::<Value>()}));
        } else {
            return Ok(report(fake));
        }
        Ok(json!({}))
    }

    fn fault(&self) -> Fault {
        match self.text("code") {
            Some("M_FORBIDDEN") => Fault::Error("M_FORBIDDEN"),
            Some(_) => Fault::Error("M_UNKNOWN"),
            None => match self
                .count("seconds")
                .and_then(|count| u32::try_from(count).ok())
            {
                Some(seconds) => Fault::RateLimitedFor(seconds),
                None => Fault::RateLimited,
            },
        }
    }

    fn push(&self, fake: &MatrixFake, pushed: &[Pushed]) -> anyhow::Result<Option<Pushed>> {
        if let Some(event) = self.0.get("raw") {
            return Ok(Some(fake.push_event(&self.room(), event.clone())));
        }
        if let Some(room) = self.text("invite") {
            return Ok(Some(if self.flag("direct") {
                fake.invite_direct(room, &ann())
            } else {
                fake.invite(room, &ann())
            }));
        }
        if let Some(room) = self.text("encrypt") {
            return Ok(Some(fake.encrypt(room)));
        }
        if let Some(number) = self.count("redact") {
            let target = pushed.get(number).context("no such push")?;
            return Ok(Some(fake.redact(target)));
        }
        Ok(self.message().map(|message| fake.push(message)))
    }

    fn message(&self) -> Option<Incoming> {
        let text = self
            .text("text")
            .or_else(|| self.text("file").and(Some("")));
        let kind = self.text("type");
        let mut message = Incoming::to(&self.room(), &ann(), text.or_else(|| kind.and(Some("")))?);
        if let Some(kind) = kind {
            message = message.of_kind(kind, self.member("content"));
        }
        if let Some(content) = self.text("file") {
            let name = self.text("name").unwrap_or("a file.txt");
            let kind = self.text("kind").unwrap_or("m.file");
            let mime = self.text("mime").unwrap_or("text/plain");
            message = message.with_file(kind, name, mime, content.to_owned());
        }
        if self.flag("mention") {
            message = message.mentioning_bot();
        }
        if let Some(event) = self.text("reply") {
            message = message.replying_to(event);
        }
        if let Some(event) = self.text("thread") {
            message = message.in_thread(event, event);
        }
        if let Some(event) = self.text("edit") {
            message = message.editing(event);
        }
        Some(message)
    }

    async fn wait(&self, fake: &MatrixFake, pushed: &[Pushed]) -> anyhow::Result<Option<Value>> {
        let count = self.count("count").unwrap_or(1);
        let of = |key| -> anyhow::Result<Option<&Pushed>> {
            let number = self.count(key);
            number
                .map(|number| pushed.get(number).context("no such push"))
                .transpose()
        };
        if let Some(pushed) = of("deliveries")? {
            fake.wait_for_deliveries(pushed, count).await?;
        } else if let Some(pushed) = of("acknowledged")? {
            fake.wait_for_acknowledged(pushed).await?;
        } else if let Some(pushed) = of("repeat")? {
            fake.repeat(pushed);
        } else if let Some(count) = self.count("waiting") {
            fake.wait_for_waiting_syncs(count).await?;
        } else if let Some(method) = self.text("calls") {
            let calls = fake.wait_for_calls(method, count).await?.into_iter();
            let calls = calls
                .map(|call| json!({"path": call.path, "query": call.query, "body": call.body}));
            return Ok(Some(json!({"calls": calls.collect::<Value>()})));
        } else {
            return Ok(None);
        }
        Ok(Some(json!({})))
    }
}

/// Changes settings: `advance` the clock by seconds, `cut` the connections, go `down` or come `up`,
/// `revoke`, `restore` or `expire` the credentials, `limit` uploads, `strict_media`, `end_syncs`.
async fn set(fake: &MatrixFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let number = value.as_u64().unwrap_or_default();
        match name.as_str() {
            "advance" => fake.advance(Duration::from_secs(number)),
            "cut" => fake.cut(),
            "down" => fake.go_down().await?,
            "up" => fake.come_back().await?,
            "revoke" => fake.revoke_credentials(),
            "restore" => fake.restore_credentials(),
            "expire" => fake.expire_tokens(),
            "limit" => fake.limit_upload(number),
            "strict_media" => fake.require_token_for_media(),
            "end_syncs" => fake.end_syncs(),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the bot has sent, and the complaints.
fn report(fake: &MatrixFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files = sent.files.iter();
        let files = files.map(|file| {
            json!({
                "name": file.name, "kind": file.kind, "mime": file.mime, "size": file.bytes.len(),
            })
        });
        json!({
            "event": sent.event_id, "room": sent.room_id, "type": sent.kind,
            "msgtype": sent.msgtype, "text": sent.text, "html": sent.html,
            "history": sent.history, "thread": sent.thread, "reply": sent.reply_to,
            "redacted": sent.is_redacted, "files": files.collect::<Value>(),
        })
    });
    json!({"sent": sent.collect::<Value>(), "complaints": fake.complaints()})
}
