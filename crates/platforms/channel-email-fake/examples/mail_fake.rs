//! Runs the mail server fakes for clients in other languages.
//!
//! Prints its ports and credentials as one line of JSON. Then it reads commands from standard
//! input, one JSON object a line, and answers each with one line: `{"mail": …}` adds a mail to the
//! mailbox, `{"fault": command, "answer": …}` scripts a fault. Every answer has the mails sent, the
//! flags of the mails, and the protocol violations. It exits at the end of its input.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use nanobot_channel_email_fake::{
    CLIENT_ID, CLIENT_SECRET, MailFake, MailFault, PASSWORD, REFRESH_TOKEN, USER,
};
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
    // Reading standard input blocks, so it must not run on the threads that serve the fake.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            println!("{}", apply(&fake, &serde_json::from_str(&line?)?));
        }
        Ok(())
    });
    serve.await?
}

fn apply(fake: &MailFake, order: &Value) -> Value {
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
