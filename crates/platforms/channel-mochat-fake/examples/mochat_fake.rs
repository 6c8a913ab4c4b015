//! Runs the Mochat fake for clients in other languages.
//!
//! Prints its addresses and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"start": "json"}` replaces the fake by a new one with packets in JSON, `"msgpack"` by one
//!   with packets in MessagePack, and returns what the first line contains;
//! - `{"text": …, "chat": …, "quote": id, "mention": true, "silent": true}` pushes a message of a
//!   person (`ann`); with `"content"` any content;
//! - `{"update": number, "text": …}`, `{"recall": number}`, `{"delete": number}` and
//!   `{"repeat": number}` refer to the push of that number;
//! - `{"event": name, "payload": …}` pushes any event, `{"frame": …}` any text frame;
//! - `{"acknowledged": number}` waits until a client has shown a cursor that is not before the push;
//! - `{"connections": count}`, `{"open": count}`, `{"answered_pings": count}`,
//!   `{"subscribed": chat}` and `{"watches": count}` wait for clients;
//! - `{"panel": id, "type": …}` adds a panel;
//! - `{"fault": method, "code": …}` scripts a refusal, without a code too many calls;
//! - `{"set": …}` changes settings, see `set`;
//! - `{"sent": true}` returns what the bot has sent.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::time::Duration;

use anyhow::Context as _;
use nanobot_channel_mochat_fake::{
    BOT_USER_ID, CLAW_TOKEN, Fault, Feed, GROUP_ID, Incoming, MochatFake, Person, Pushed,
    Serializer, TEXT_PANEL,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut fake = start(Serializer::Msgpack).await?;
    println!("{}", whereabouts(&fake));
    let mut pushed = Vec::new();
    loop {
        // Reading standard input blocks, so it must not run on the threads that serve the fake.
        let line = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let Some(line) = line.transpose()? else {
            return Ok(());
        };
        let order = Order(serde_json::from_str(&line)?);
        if let Some(serializer) = order.text("start") {
            fake = start(if serializer == "json" {
                Serializer::Json
            } else {
                Serializer::Msgpack
            })
            .await?;
            pushed.clear();
            println!("{}", whereabouts(&fake));
            continue;
        }
        println!("{}", order.apply(&fake, &mut pushed).await?);
    }
}

async fn start(serializer: Serializer) -> anyhow::Result<MochatFake> {
    let fake = MochatFake::start_with(serializer).await?;
    fake.add_person(&ann());
    Ok(fake)
}

fn whereabouts(fake: &MochatFake) -> Value {
    json!({
        "base_url": fake.base_url(), "socket_url": fake.socket_url(), "token": CLAW_TOKEN,
        "bot": BOT_USER_ID, "group": GROUP_ID, "ann": ann().id, "direct": ann().direct(),
    })
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

    async fn apply(&self, fake: &MochatFake, pushed: &mut Vec<Pushed>) -> anyhow::Result<Value> {
        if let Some(new) = self.push(fake, pushed)? {
            let answer = json!({"number": pushed.len(), "message": new.message_id, "seq": new.seq});
            pushed.push(new);
            return Ok(answer);
        }
        if self.wait(fake, pushed).await? {
            return Ok(json!({}));
        }
        if let Some(settings) = self.0.get("set") {
            return set(fake, settings).await;
        }
        if let Some(method) = self.text("fault") {
            let code = self.count("code").and_then(|code| u16::try_from(code).ok());
            fake.fail_next(method, code.map_or(Fault::RateLimited, Fault::Error));
            return Ok(json!({}));
        }
        if let Some(panel) = self.text("panel") {
            let kind = self.0.get("type").and_then(Value::as_i64);
            fake.add_panel_of_type(panel, kind.unwrap_or(TEXT_PANEL));
            return Ok(json!({}));
        }
        if let Some(event) = self.text("event") {
            fake.push_event(event, self.0.get("payload").unwrap_or(&Value::Null));
            return Ok(json!({}));
        }
        if let Some(frame) = self.text("frame") {
            fake.push_text_frame(frame);
            return Ok(json!({}));
        }
        Ok(report(fake))
    }

    fn earlier<'a>(&self, key: &str, pushed: &'a [Pushed]) -> anyhow::Result<Option<&'a Pushed>> {
        let number = self.count(key);
        number
            .map(|number| pushed.get(number).context("no such push"))
            .transpose()
    }

    fn push(&self, fake: &MochatFake, pushed: &[Pushed]) -> anyhow::Result<Option<Pushed>> {
        let text = self.text("text").unwrap_or_default();
        if let Some(message) = self.earlier("update", pushed)? {
            return Ok(Some(fake.update(message, text)));
        }
        if let Some(message) = self.earlier("recall", pushed)? {
            return Ok(Some(fake.recall(message)));
        }
        if let Some(message) = self.earlier("delete", pushed)? {
            return Ok(Some(fake.delete(message)));
        }
        let content = self.0.get("content").cloned();
        if self.text("text").is_none() && content.is_none() {
            return Ok(None);
        }
        let direct = ann().direct();
        let mut incoming = Incoming::to(self.text("chat").unwrap_or(&direct), &ann(), text);
        if let Some(content) = content {
            incoming = incoming.with_content(content);
        }
        if let Some(message) = self.text("quote") {
            incoming = incoming.quoting(message);
        }
        if self.flag("mention") {
            incoming = incoming.mentioning_robot();
        }
        Ok(Some(if self.flag("silent") {
            fake.push_silently(incoming)
        } else {
            fake.push(incoming)
        }))
    }

    async fn wait(&self, fake: &MochatFake, pushed: &[Pushed]) -> anyhow::Result<bool> {
        if let Some(pushed) = self.earlier("acknowledged", pushed)? {
            fake.wait_for_acknowledged(pushed).await?;
        } else if let Some(pushed) = self.earlier("repeat", pushed)? {
            fake.repeat(pushed);
        } else if let Some(count) = self.count("connections") {
            fake.wait_for_connections(count).await?;
        } else if let Some(count) = self.count("open") {
            fake.wait_for_open_connections(count).await?;
        } else if let Some(count) = self.count("answered_pings") {
            fake.wait_for_answered_pings(count).await?;
        } else if let Some(count) = self.count("watches") {
            fake.wait_for_waiting_watches(count).await?;
        } else if let Some(chat) = self.text("subscribed") {
            fake.wait_for_subscription(chat).await?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Changes settings: the `feed` (`events`, `notifications`, `both`), pings every so many
/// milliseconds (`ping`), `hold` or release acknowledgements, end `watches`, `close`, `disconnect`
/// or `cut` the connections, `revoke` or restore the token.
async fn set(fake: &MochatFake, settings: &Value) -> anyhow::Result<Value> {
    for (name, value) in settings.as_object().into_iter().flatten() {
        let is_on = value.as_bool().unwrap_or_default();
        match name.as_str() {
            "feed" => fake.feed(match value.as_str() {
                Some("events") => Feed::Events,
                Some("notifications") => Feed::Notifications,
                _ => Feed::Both,
            }),
            "ping" => {
                let interval = Duration::from_millis(value.as_u64().unwrap_or_default());
                fake.ping_every(interval, Duration::from_secs(20));
            }
            "hold" if is_on => fake.hold_acks(),
            "hold" => fake.release_acks(),
            "watches" => fake.end_watches(),
            "close" => fake.close(),
            "disconnect" => fake.disconnect(),
            "cut" => fake.cut(),
            "down" if is_on => fake.go_down().await?,
            "down" => fake.come_back().await?,
            "revoke" if is_on => fake.revoke_credentials(),
            "revoke" => fake.restore_credentials(),
            other => anyhow::bail!("no setting {other}"),
        }
    }
    Ok(json!({}))
}

/// Reports the messages that the bot has sent, the complaints and the number of connections.
fn report(fake: &MochatFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        json!({
            "id": sent.id, "chat": sent.chat_id, "text": sent.text, "reply_to": sent.reply_to,
            "group": sent.group_id,
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "complaints": fake.complaints(),
        "connections": fake.connections(), "open": fake.open_connections(),
        "refused": fake.refused_logins(), "cursor": fake.cursor(&ann().direct()),
    })
}
