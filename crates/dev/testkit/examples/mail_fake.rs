//! Runs the fake of mail servers for clients in other languages.
//!
//! Prints its ports and who may log in as one line of JSON, then obeys one line of JSON at a time from
//! standard input and answers each with one: `{"mail": …}` lets a mail arrive, `{"fault": command, "answer": …}`
//! scripts a fault, and every answer tells what was sent, the flags of the mails, and what no client should
//! have said. It ends with its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use nanobot_testkit::MailFake;
use nanobot_testkit::mail::{CLIENT_ID, CLIENT_SECRET, MailFault, PASSWORD, REFRESH_TOKEN, USER};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fake = MailFake::start().await?;
    let provider = fake.token_server().await?;
    let where_it_is = json!({
        "imap": fake.imap_port(), "smtp": fake.smtp_port(), "user": USER, "password": PASSWORD,
        "token_url": format!("{}/token", provider.url()), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET,
        "refresh_token": REFRESH_TOKEN,
    });
    println!("{where_it_is}");
    // Waiting for the terminal must not hold up the servers, which live on the other threads.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            println!("{}", obey(&fake, &serde_json::from_str(&line?)?));
        }
        Ok(())
    });
    serve.await?
}

fn obey(fake: &MailFake, order: &Value) -> Value {
    let text = |key: &str| order.get(key).and_then(Value::as_str);
    let uid = text("mail").map(|mail| fake.push(mail));
    if let (Some(command), Some(answer)) = (text("fault"), text("answer")) {
        fake.fail_next(command, MailFault::Answer(answer.to_owned()));
    }
    let sent = fake
        .sent()
        .into_iter()
        .map(|mail| json!({"from": mail.from, "to": mail.to, "raw": mail.raw}));
    let mails = fake
        .mails()
        .into_iter()
        .map(|mail| json!({"uid": mail.uid, "flags": mail.flags, "copies": mail.copies}));
    json!({
        "uid": uid, "sent": sent.collect::<Value>(), "mails": mails.collect::<Value>(), "violations": fake.violations(),
    })
}
