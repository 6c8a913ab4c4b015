//! Runs the Telegram fake for clients in other languages.
//!
//! Prints its address and token as one line of JSON. Then it reads commands from standard input,
//! one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "chat": …, "topic": …, "reply_to": …, "photo": …, "note": …, "sticker": …,
//!   "anonymous": true, "post": true}` pushes a message of a person (id 7), of an anonymous
//!   administrator, or of a channel;
//! - `{"edit": …, "chat": …, "text": …}` edits one;
//! - `{"press": …, "chat": …, "data": …}` presses a button;
//! - `{"fault": method, "retry_after": …}` scripts a fault;
//! - `{"advance": seconds}` lets time pass for the previews of drafts;
//! - `{"post_to": address}` sets the address for webhook posts;
//! - `{"block": chat}`, `{"migrate": chat, "to": …}` and `{"close": topic, "chat": …}` change a
//!   chat;
//! - `{"sent": true}` returns what the bot has sent, and the previews that are shown.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};
use std::time::Duration;

use nanobot_channel_telegram_fake::{
    Fault, FileKind, Incoming, Person, Pushed, TOKEN, TelegramFake,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = TelegramFake::start().await?;
    println!("{}", json!({"api_base": fake.api_base(), "token": TOKEN}));
    // Reading standard input blocks, so it must not run on the threads that serve the fake.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            println!("{}", apply(&fake, &serde_json::from_str(&line?)?));
        }
        Ok(())
    });
    serve.await?
}

fn apply(fake: &TelegramFake, order: &Value) -> Value {
    let number = |key: &str| order.get(key).and_then(Value::as_i64);
    let text = |key: &str| order.get(key).and_then(Value::as_str);
    let person = Person::new(7, "Ann", "ann_x");
    let chat = number("chat").unwrap_or(person.id);
    if let Some(message) = number("edit") {
        return pushed(fake.edit(chat, message, text("text").unwrap_or_default()));
    }
    if let Some(message) = number("press") {
        return pushed(fake.press(chat, message, &person, text("data").unwrap_or_default()));
    }
    if let Some(method) = text("fault") {
        let seconds = number("retry_after").and_then(|seconds| u32::try_from(seconds).ok());
        fake.fail_next(
            method,
            seconds.map_or_else(Fault::bad_gateway, Fault::RetryAfter),
        );
        return json!({});
    }
    if let Some(address) = text("post_to").and_then(|address| address.parse().ok()) {
        fake.post_to(address);
        return json!({});
    }
    if let Some(seconds) = order.get("advance").and_then(Value::as_u64) {
        fake.advance(Duration::from_secs(seconds));
        return json!({});
    }
    if let Some(chat) = number("block") {
        fake.block(chat);
        return json!({});
    }
    if let (Some(chat), Some(to)) = (number("migrate"), number("to")) {
        fake.migrate(chat, to);
        return json!({});
    }
    if let Some(topic) = number("close") {
        fake.close_topic(chat, topic);
        return json!({});
    }
    if let Some(content) = text("text") {
        return pushed(Some(fake.push(incoming(order, chat, &person, content))));
    }
    sent(fake)
}

/// Builds the message that a command describes.
fn incoming(order: &Value, chat: i64, person: &Person, content: &str) -> Incoming {
    let number = |key: &str| order.get(key).and_then(Value::as_i64);
    let text = |key: &str| order.get(key).and_then(Value::as_str);
    let is = |key: &str| order.get(key).and_then(Value::as_bool).unwrap_or_default();
    let mut incoming = if is("post") {
        Incoming::post(chat, content)
    } else {
        Incoming::group(chat, person, content)
    };
    if is("anonymous") {
        incoming = incoming.anonymously();
    }
    if let Some(topic) = number("topic") {
        incoming = incoming.in_topic(topic);
    }
    if let Some(original) = number("reply_to") {
        incoming = incoming.replying_to(original);
    }
    for (key, kind, name, mime) in [
        ("photo", FileKind::Photo, "p.jpg", "image/jpeg"),
        ("note", FileKind::VideoNote, "n.mp4", "video/mp4"),
        ("sticker", FileKind::Sticker, "s.webp", "image/webp"),
    ] {
        if let Some(content) = text(key) {
            incoming = incoming.with_file(kind, name, mime, content.to_owned());
        }
    }
    incoming
}

fn sent(fake: &TelegramFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let file =
            sent.file.map(|file| json!({"kind": file.kind.field(), "name": file.name, "size": file.bytes.len()}));
        json!({
            "chat": sent.chat_id, "message": sent.message_id, "thread": sent.thread_id, "reply_to": sent.reply_to,
            "text": sent.text, "history": sent.history, "deleted": sent.is_deleted, "file": file,
        })
    });
    let drafts = fake.drafts_in(7).into_iter().map(|draft| {
        json!({
            "draft": draft.draft_id, "thread": draft.thread_id, "text": draft.text,
            "entities": draft.entities,
        })
    });
    json!({
        "sent": sent.collect::<Value>(), "drafts": drafts.collect::<Value>(),
        "acknowledged": fake.acknowledged_offset(),
    })
}

fn pushed(pushed: Option<Pushed>) -> Value {
    pushed.map_or_else(
        || json!({}),
        |pushed| json!({"message": pushed.message_id, "update": pushed.update_id}),
    )
}
