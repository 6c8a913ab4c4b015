//! Hostile documents, read by the built program: they break only a helper process.

use std::fs;

use nanobot_channel_email_fake::{self as mail, MailFake};
use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::http::{Response, Server};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, finish, until};

/// Starts a server with a page for each path.
async fn pages() -> Server {
    Server::start(|request| async move {
        let page = match request.path() {
            "/deep" => format!("<html><body>{}text", "<div>".repeat(2_400)),
            "/scripts" => format!("<html><body>{}", "<script>".repeat(16_000)),
            _ => format!(
                "<html><head><title>Tea</title></head><body><article><h2>Water</h2><p>{}</p></article></body></html>",
                "Boil it, let it cool a little, pour it over the leaves. ".repeat(12)
            ),
        };
        Response::bytes(200, "text/html", page)
    })
    .await
    .unwrap()
}

fn settings(model: &ModelServer, channels: &Value) -> Value {
    json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "tools": {"ssrfWhitelist": ["127.0.0.0/8"]},
        "channels": channels,
    })
}

fn fetch(server: &Server, path: &str) -> Reply {
    Reply::call(
        "web_fetch",
        &json!({"url": format!("{}{path}", server.url())}),
    )
}

#[tokio::test]
async fn helper_process_parses_a_page() {
    let server = pages().await;
    let model = ModelServer::scripted([fetch(&server, "/tea"), Reply::text("It is about tea.")])
        .await
        .unwrap();
    let home = Home::new();
    home.configure(&settings(&model, &json!({})));
    let run = home.run(&["agent", "-m", "what is on that page?"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(&run.stdout, &["It is about tea."]);
    let requests = model.requests();
    let results = requests.last().unwrap().tool_results();
    assert_says(
        results.last().unwrap(),
        &["# Tea", "Boil it, let it cool a little", "readability"],
    );
}

/// A program that was copied without the other programs of its package.
#[tokio::test]
async fn missing_reader_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("nanobot");
    let built = env!("CARGO_BIN_EXE_nanobot");
    fs::hard_link(built, &program)
        .or_else(|_other_disk| fs::copy(built, &program).map(drop))
        .unwrap();
    let server = pages().await;
    let model = ModelServer::scripted([fetch(&server, "/tea"), Reply::text("I cannot.")])
        .await
        .unwrap();
    let home = Home::new();
    home.configure(&settings(&model, &json!({})));
    let run = async |arguments: &[&str]| {
        let mut command = home.of(&program);
        command.env("PATH", "/usr/bin:/bin").args(arguments);
        finish(command, b"").await
    };
    run(&["agent", "-m", "what is on that page?"]).await;
    let results = model.requests().last().unwrap().tool_results();
    assert_says(
        results.last().unwrap(),
        &["nanobot-documents", "install it"],
    );
    let report = run(&["doctor"]).await;
    assert_says(
        &report.stdout,
        &[
            "nanobot-documents, which is not there",
            "Copy nanobot-documents",
        ],
    );
}

/// The pages overflow the stack of their parser, or keep it busy for minutes.
#[tokio::test]
async fn hostile_page_is_a_tool_error_and_gateway_survives() {
    let server = pages().await;
    let model = ModelServer::scripted([
        fetch(&server, "/deep"),
        Reply::text("That page cannot be read."),
        fetch(&server, "/scripts"),
        Reply::text("Nor that one."),
        fetch(&server, "/tea"),
        Reply::text("It is about tea."),
    ])
    .await
    .unwrap();
    let (telegram, home) = (TelegramFake::start().await.unwrap(), Home::new());
    let channel = json!({"enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"]});
    home.configure(&settings(&model, &json!({"telegram": channel})));
    let gateway = Running::start(&home).await;
    let ann = Person::new(7, "Ann", "ann_x");
    for (question, answer) in [
        ("read it", "That page cannot be read."),
        ("and that", "Nor that one."),
        ("tea?", "It is about tea."),
    ] {
        telegram.push(Incoming::private(&ann, question));
        until(answer, async || {
            telegram.texts_in(7).contains(&answer.to_owned())
        })
        .await;
    }
    // Every second request carries the result of a call.
    let results: Vec<String> = model
        .requests()
        .iter()
        .skip(1)
        .step_by(2)
        .flat_map(|asked| asked.tool_results())
        .collect();
    assert_eq!(results.len(), 3, "{results:?}");
    assert_says(&results[0], &["the reader ran out of"]);
    assert_says(&results[2], &["Boil it, let it cool a little"]);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Returns a home whose assistant reads this mailbox.
fn reading(mailbox: &MailFake, model: &ModelServer) -> Home {
    let home = Home::new();
    let channel = json!({
        "enabled": true, "consentGranted": true, "allowFrom": ["ann@people.test"],
        "imapHost": "127.0.0.1", "imapPort": mailbox.imap_port(), "imapUsername": mail::USER,
        "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
        "smtpHost": "127.0.0.1", "smtpPort": mailbox.smtp_port(), "smtpUsername": mail::USER,
        "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>",
        "pollIntervalSeconds": 5, "requestTimeout": 60, "maxMessageSize": 30_000_000, "authservId": "mx.bot.test",
    });
    home.configure(&settings(model, &json!({"email": channel})));
    home
}

/// The first header lines of Ann's mails.
const ENVELOPE: &str = "Authentication-Results: mx.bot.test; dkim=pass header.d=people.test; spf=pass \
                        smtp.mailfrom=people.test\r\nFrom: ann@people.test\r\nTo: bot@bot.test\r\n";

/// Nested mails whose nesting a search of the text does not find, and endless parameters.
#[tokio::test]
async fn hostile_mail_is_flagged_and_next_mail_answered() {
    let mailbox = MailFake::start().await.unwrap();
    let model = ModelServer::answering(|_| Reply::text("Good morning, Ann."))
        .await
        .unwrap();
    let home = reading(&mailbox, &model);
    let envelope = format!("{ENVELOPE}Subject: x\r\n");
    let nested = "Content-Type:(;)message/rfc822\r\n\r\n".repeat(550_000);
    let hostile = mailbox.push(format!("{envelope}{nested}"));
    let harmless = mailbox.push(format!(
        "{envelope}Message-ID: <2@people.test>\r\n\r\nGood morning!\r\n"
    ));
    let gateway = Running::start(&home).await;
    let sent = mailbox.wait_for_sent(1).await.unwrap();
    assert_says(&sent[0].raw, &["Good morning, Ann."]);
    mailbox.wait_for_flag(harmless, r"\Seen").await.unwrap();
    assert!(
        mailbox.has_flag(hostile, r"\Flagged"),
        "a person finds it in the mailbox"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Size of a mail with nested mails, in bytes.
const SIZE: usize = 3_300_000;

/// Mails of 3.3 MB are within every limit on size. The helper reads each, even if only the parser
/// sees the nesting.
#[tokio::test]
async fn deeply_nested_mail_is_answered() {
    let mailbox = MailFake::start().await.unwrap();
    let model = ModelServer::answering(|_| Reply::text("Good morning, Ann."))
        .await
        .unwrap();
    let home = reading(&mailbox, &model);
    let nested = |header: &str| {
        let part = format!("{header}message/rfc822\r\n\r\n");
        format!("{}Hello\r\n", part.repeat(SIZE / part.len()))
    };
    let multiparts: String = (0..38_000)
        .map(|depth| {
            format!("Content-Type: multipart/mixed; boundary=b{depth:08}\r\n\r\n--b{depth:08}\r\n")
        })
        .collect();
    let within =
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n".repeat(40_000);
    let all = ["Content- Type : ", ":Content-Type: ", "Content-Type: (a)"];
    let all = all
        .map(|header| format!("{header}message/rfc822\r\n\r\n"))
        .concat();
    let mails = [
        ("messages", nested("Content-Type: ")),
        ("multiparts", multiparts),
        ("within", within),
        ("comment", nested("Content-Type: (a)")),
        ("semicolon", nested("Content-Type:(;)")),
        ("blank", nested("Con tent-Type : ")),
        ("tab", nested("Content-Type\t: ")),
        ("colon", nested(":Content-Type: ")),
        ("all", all.repeat(SIZE / all.len())),
    ];
    let gateway = Running::start(&home).await;
    for (name, body) in mails {
        let uid = mailbox.push(format!("{ENVELOPE}Subject: {name}\r\n{body}"));
        let is_answered = || {
            mailbox
                .sent()
                .iter()
                .any(|mail| mail.raw.contains(&format!("Subject: Re: {name}")))
        };
        until(name, async || {
            is_answered() || mailbox.has_flag(uid, r"\Flagged")
        })
        .await;
        assert_eq!(
            (is_answered(), mailbox.has_flag(uid, r"\Flagged")),
            (true, false),
            "{name}"
        );
        // The next mail is also read.
        let next = format!("after {name}");
        mailbox.push(format!(
            "{ENVELOPE}Subject: {next}\r\n\r\nGood morning!\r\n"
        ));
        let next_answer = format!("Subject: Re: {next}");
        until(&next, async || {
            mailbox
                .sent()
                .iter()
                .any(|mail| mail.raw.contains(&next_answer))
        })
        .await;
    }
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
