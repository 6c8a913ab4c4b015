//! Runs the fake of the WhatsApp bridge for clients in other languages.
//!
//! It takes its token from `BRIDGE_TOKEN` and prints the line of a bridge that listens. Then it
//! reads what happens at WhatsApp from standard input, one JSON object a line, and answers each
//! with one line. The objects are described in `scripts/check_whatsapp_bridge.py`: the bridge's
//! stand-in for WhatsApp reads the same ones.
//!
//! It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_channel_whatsapp_fake::{Fault, Incoming, Person, TOKEN, WhatsAppFake};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let token = std::env::var("BRIDGE_TOKEN").unwrap_or_else(|_| TOKEN.to_owned());
    let mut phone = Phone {
        fake: WhatsAppFake::start_with_token(&token).await?,
        people: Vec::new(),
    };
    println!("{}", phone.listening());
    loop {
        // Reading standard input blocks, so it must not run on the threads that serve the fake.
        let line = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let Some(line) = line.transpose()? else {
            return Ok(());
        };
        let order = Order(serde_json::from_str(&line)?);
        println!("{}", phone.apply(&order)?);
    }
}

/// A line of the input.
struct Order(Value);

impl Order {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    fn needed(&self, key: &str) -> anyhow::Result<&str> {
        self.text(key).with_context(|| format!("no {key}"))
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }
}

/// The people at WhatsApp.
struct Phone {
    fake: WhatsAppFake,
    people: Vec<Person>,
}

impl Phone {
    fn listening(&self) -> Value {
        json!({"listening": self.fake.url(), "protocol": 2})
    }

    fn apply(&mut self, order: &Order) -> anyhow::Result<Value> {
        let fake = &self.fake;
        match order.needed("phone")? {
            "person" => self.add_person(order)?,
            "group" => fake.add_group(order.needed("id")?, order.flag("member")),
            "says" => return self.say(order),
            // The bridge passes on none of this, so the fake has nothing to do.
            "noise" => {}
            "refuses" => {
                let code = order.needed("code")?;
                let seconds = order.0.get("retryAfter").and_then(Value::as_u64);
                let fault = seconds.map_or_else(|| Fault::error(code), Fault::RateLimitedFor);
                fake.fail_next("send", fault);
            }
            "loses" => {
                let fault = Fault::ErrorAfterEffect("unknown_outcome".to_owned());
                fake.fail_next("send", fault);
            }
            "offline" => fake.disconnect("the phone is offline", true),
            "online" => fake.reconnect(),
            "replace" => fake.replace(),
            "unlink" => fake.unlink(),
            "link" => fake.link(),
            "restart" => {
                fake.restart();
                return Ok(self.listening());
            }
            "seen" => return Ok(self.seen()),
            other => anyhow::bail!("no order {other}"),
        }
        Ok(json!({}))
    }

    fn add_person(&mut self, order: &Order) -> anyhow::Result<()> {
        let person = Person {
            number: order.needed("number")?.to_owned(),
            lid_number: order.needed("lid")?.to_owned(),
            name: order.needed("name")?.to_owned(),
        };
        self.fake.add_person(&person);
        self.people.push(person);
        Ok(())
    }

    fn say(&self, order: &Order) -> anyhow::Result<Value> {
        let from = order.needed("from")?;
        let person = self.people.iter().find(|person| person.number == from);
        let person = person.context("no such person")?;
        let direct = person.direct();
        let text = match order.0.get("special") {
            Some(special) => special_text(special)?,
            None => order.text("text").unwrap_or_default().to_owned(),
        };
        let mut incoming = Incoming::to(order.text("chat").unwrap_or(&direct), person, &text);
        if order.flag("byLid") {
            incoming = incoming.by_lid();
        }
        if order.flag("mention") {
            incoming = incoming.mentioning_bot();
        }
        if let Some(id) = order.text("quote") {
            incoming = incoming.quoting(id);
        }
        if let Some(file) = order.0.get("file") {
            let file = Order(file.clone());
            let bytes = STANDARD.decode(file.needed("data")?)?;
            let (kind, name) = (file.needed("kind")?, file.needed("name")?);
            incoming = incoming.with_media(kind, name, file.needed("mime")?, bytes);
        }
        Ok(json!({"id": self.fake.push(incoming).message_id}))
    }

    /// Reports what people see, and the complaints.
    fn seen(&self) -> Value {
        let sent = self.fake.sent().into_iter();
        let messages: Vec<Value> = sent
            .map(|sent| {
                let file = sent.files.first().map(|file| {
                    json!({
                        "kind": file.kind, "mime": file.mime, "name": file.name,
                        "data": STANDARD.encode(&file.bytes),
                    })
                });
                json!({
                    "id": sent.id, "chat": sent.to, "text": sent.text, "file": file,
                    "quote": sent.quote.get("id"),
                })
            })
            .collect();
        json!({
            "messages": messages, "reactions": self.fake.reactions(), "read": self.fake.read(),
            "typing": self.fake.typing(), "complaints": self.fake.complaints(),
        })
    }
}

/// Returns the line in brackets for a message of another kind.
fn special_text(special: &Value) -> anyhow::Result<String> {
    let text = |key| special.get(key).and_then(Value::as_str);
    if let Some(place) = special.get("location").and_then(Value::as_array) {
        let numbers: Vec<String> = place.iter().map(Value::to_string).collect();
        Ok(format!("[Location: {}]", numbers.join(", ")))
    } else if let Some(name) = text("contact") {
        Ok(format!("[Contact: {name}]"))
    } else if let Some(question) = text("poll") {
        Ok(format!("[Poll: {question}]"))
    } else {
        anyhow::bail!("no such kind of message: {special}")
    }
}
