//! Runs the Discord fake for clients in other languages.
//!
//! Prints its addresses, token and ids as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line:
//!
//! - `{"text": …, "channel": …, "reply_to": …, "file": …}` pushes a message of a person (id 7), as
//!   a direct message if there is no channel;
//! - `{"thread": parent}` starts a thread;
//! - `{"command": …, "arguments": …, "channel": …}` invokes a command;
//! - `{"press": label, "message": …, "channel": …}` presses a button;
//! - `{"order": "reconnect" | "invalidate" | "hang_up" | "stall" | "close", "code": …}` does that
//!   to the connection;
//! - `{"fault": method, "retry_after": …}` scripts a fault;
//! - `{"seen": true}` returns what the bot did.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use nanobot_channel_discord_fake::{
    APPLICATION_ID, BOT_ID, CHANNELS, DiscordFake, Fault, GUILD, Incoming, Order, Person, Pushed,
    TOKEN,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = DiscordFake::start().await?;
    fake.set_heartbeat_interval(500);
    let where_it_is = json!({
        "api_base": fake.api_base(), "gateway": fake.gateway_url(), "token": TOKEN, "bot": BOT_ID.to_string(),
        "application": APPLICATION_ID.to_string(), "guild": GUILD.to_string(),
        "channels": CHANNELS.map(|channel| channel.to_string()),
    });
    println!("{where_it_is}");
    // Reading standard input blocks, so it must not run on the threads that serve the fake.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            println!("{}", apply(&fake, &serde_json::from_str(&line?)?));
        }
        Ok(())
    });
    serve.await?
}

fn apply(fake: &DiscordFake, order: &Value) -> Value {
    let text = |key: &str| order.get(key).and_then(Value::as_str);
    let id = |key: &str| text(key).and_then(|text| text.parse::<u64>().ok());
    let person = Person::new(7, "ann");
    let channel = id("channel").unwrap_or_else(|| fake.direct_channel(&person));
    if let Some(parent) = id("thread") {
        return json!({"thread": fake.start_thread(parent).to_string()});
    }
    if let Some(name) = text("command") {
        return pushed(Some(fake.use_command(
            channel,
            &person,
            name,
            text("arguments"),
        )));
    }
    if let Some(label) = text("press") {
        return pushed(
            id("message").and_then(|message| fake.press(channel, message, &person, label)),
        );
    }
    if let Some(name) = text("order") {
        let code = order
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        fake.order(match name {
            "reconnect" => Order::Reconnect,
            "invalidate" => Order::Invalidate { resumable: false },
            "stall" => Order::Stall,
            "close" => Order::Close(code.unwrap_or(4000)),
            _ => Order::HangUp,
        });
        return json!({});
    }
    if let Some(method) = text("fault") {
        let seconds = order.get("retry_after").and_then(Value::as_f64);
        fake.fail_next(
            method,
            seconds.map_or_else(Fault::unavailable, Fault::retry_after),
        );
        return json!({});
    }
    if let Some(content) = text("text") {
        let mut incoming = Incoming::in_channel(channel, &person, content);
        if let Some(original) = id("reply_to") {
            incoming = incoming.replying_to(original);
        }
        if let Some(file) = text("file") {
            incoming = incoming.with_file("p.png", "image/png", file.to_owned());
        }
        return pushed(Some(fake.push(incoming)));
    }
    seen(fake)
}

fn pushed(pushed: Option<Pushed>) -> Value {
    let told = |pushed: Pushed| {
        json!({
            "message": pushed.message_id.to_string(), "channel": pushed.channel_id.to_string(), "number": pushed.number,
        })
    };
    pushed.map_or_else(|| json!({}), told)
}

fn seen(fake: &DiscordFake) -> Value {
    let sent = fake.sent().into_iter().map(|sent| {
        let files = sent.files.iter().map(|file| json!({"name": file.name, "size": file.bytes.len()}));
        json!({
            "channel": sent.channel_id.to_string(), "message": sent.message_id.to_string(), "text": sent.text,
            "history": sent.history, "reply_to": sent.reply_to.map(|id| id.to_string()),
            "files": files.collect::<Value>(), "buttons": sent.buttons, "pings": sent.pings, "deleted": sent.is_deleted,
        })
    });
    let answers = fake.answers().into_iter();
    let answers = answers.map(
        |answer| json!({"kind": answer.kind, "private": answer.is_private(), "data": answer.data}),
    );
    json!({
        "sent": sent.collect::<Value>(), "answers": answers.collect::<Value>(), "commands": fake.commands(),
        "identifies": fake.identifies(), "resumes": fake.resumes(), "complaints": fake.complaints(),
    })
}
