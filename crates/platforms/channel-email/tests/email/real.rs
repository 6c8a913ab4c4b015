//! The channel against dovecot and a real server for sending, which
//! `scripts/install-test-servers.sh` installs. Where they are missing the tests say so and pass,
//! unless `NANOBOT_REQUIRE_TEST_SERVERS` is set.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use async_imap::Session;
use futures_util::TryStreamExt as _;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use nanobot_channel::{Channel, ChannelError, ChannelFactory as _, MediaRef, RawConfig};
use nanobot_channel_email::EmailFactory;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::{Running, news, played, reply, shown, with};

const BOT: &str = "bot@mail.test";
const ANN: &str = "ann@mail.test";

/// Running servers, ended when dropped.
struct Servers {
    child: Child,
    at: Places,
}

#[derive(Deserialize)]
struct Places {
    host: String,
    imap: u16,
    imaps: u16,
    smtp: u16,
    smtps: u16,
    password: String,
    token_url: String,
    client_id: String,
    refresh_token: String,
    ca_file: PathBuf,
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Starts them, if they are installed.
async fn servers() -> Option<Servers> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let python = root.join(".cache/mail-venv/bin/python");
    let is_installed = python.exists() && Command::new("dovecot").arg("--version").output().is_ok();
    if !is_installed {
        let is_required = std::env::var_os("NANOBOT_REQUIRE_TEST_SERVERS").is_some();
        assert!(
            !is_required,
            "dovecot or aiosmtpd is missing: scripts/install-test-servers.sh installs them"
        );
        eprintln!(
            "SKIPPED: dovecot or aiosmtpd is missing: scripts/install-test-servers.sh installs them"
        );
        return None;
    }
    let start = move || {
        let script = root.join("scripts/mail_servers.py");
        let mut command = Command::new(python);
        let mut child = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let at = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Servers { child, at }
    };
    Some(tokio::task::spawn_blocking(start).await.unwrap())
}

impl Servers {
    /// A channel that begins unencrypted and asks for encryption, with these keys besides.
    fn channel(&self, keys: &Value) -> Arc<dyn Channel> {
        let at = &self.at;
        let mut section = json!({
            "enabled": true, "consentGranted": true, "caFile": at.ca_file, "idleSeconds": 5,
            "imapHost": at.host, "imapPort": at.imap, "imapUsername": BOT, "imapPassword": at.password,
            "imapUseSsl": false, "imapUseTls": true,
            "smtpHost": at.host, "smtpPort": at.smtp, "smtpUsername": BOT, "smtpPassword": at.password,
            "authservId": "mx.mail.test",
        });
        section
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        EmailFactory::new(Arc::new(nanobot_testkit::InProcess))
            .create("email".into(), &RawConfig::new(section))
            .unwrap()
    }

    /// The keys for connections that are encrypted from their beginning.
    fn implicit(&self) -> Value {
        json!({"imapPort": self.at.imaps, "imapUseSsl": true, "smtpPort": self.at.smtps, "smtpUseSsl": true})
    }

    /// Ann writes a mail to the assistant, in her own name or in somebody else's.
    async fn ann_writes(&self, from: &str, id: &str, text: &str) {
        let mail = lettre::Message::builder()
            .from(from.parse().unwrap())
            .to(BOT.parse().unwrap())
            .subject("Question")
            .message_id(Some(format!("<{id}@mail.test>")))
            .body(text.to_owned())
            .unwrap();
        let authority = Certificate::from_pem(&std::fs::read(&self.at.ca_file).unwrap()).unwrap();
        let trust = TlsParameters::builder(self.at.host.clone())
            .add_root_certificate(authority)
            .build()
            .unwrap();
        let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.at.host)
            .port(self.at.smtp)
            .tls(Tls::Required(trust))
            .credentials(Credentials::new(ANN.to_owned(), self.at.password.clone()))
            .build();
        transport.send(mail).await.unwrap();
    }

    /// Returns the flags and the content of each mail of a mailbox.
    async fn mails(&self, user: &str, mailbox: &str) -> Vec<(Vec<String>, String)> {
        let stream = TcpStream::connect(("127.0.0.1", self.at.imap))
            .await
            .unwrap();
        let mut client = async_imap::Client::new(stream);
        client.read_response().await.unwrap();
        let mut session: Session<TcpStream> = client
            .login(user, &self.at.password)
            .await
            .map_err(|(error, _)| error)
            .unwrap();
        if session.examine(mailbox).await.unwrap().exists == 0 {
            return Vec::new();
        }
        let fetched = session.fetch("1:*", "(FLAGS BODY.PEEK[])").await.unwrap();
        let fetched: Vec<_> = fetched.try_collect().await.unwrap();
        let flags = |fetch: &async_imap::types::Fetch| -> Vec<String> {
            let flags = fetch.flags().map(|flag| format!("{flag:?}"));
            flags.filter(|flag| flag != "Recent").collect()
        };
        let text = |fetch: &async_imap::types::Fetch| {
            String::from_utf8(fetch.body().unwrap().to_vec()).unwrap()
        };
        fetched
            .iter()
            .map(|fetch| (flags(fetch), text(fetch)))
            .collect()
    }
}

/// A whole conversation. The mailbox is marked when the next message has come.
async fn converse(servers: &Servers, keys: &Value) {
    let running = Running::of(servers.channel(keys), played());
    assert_eq!(running.channel.probe().unwrap().probe().await.unwrap(), BOT);
    servers.ann_writes(ANN, "1", "What is 6 * 7?").await;
    let inbound = running.assistant.message(1).await.unwrap();
    assert!(
        inbound.content.ends_with("What is 6 * 7?"),
        "{}",
        inbound.content
    );
    assert_eq!(inbound.sender_id.as_str(), ANN);
    running
        .channel
        .send(&reply(&inbound, "42, né?"))
        .await
        .unwrap();
    servers
        .ann_writes("boss@mail.test", "2", "I am the boss")
        .await;
    servers.ann_writes(ANN, "3", "Thanks").await;
    assert!(
        running
            .assistant
            .message(2)
            .await
            .unwrap()
            .content
            .ends_with("Thanks"),
        "nobody vouches for the boss"
    );
    running.stop().await;
    let answers = servers.mails(ANN, "INBOX").await;
    let [(_, answer)] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    assert_eq!(shown(answer).text, "42, né?");
    for line in [
        "Subject: Re: Question",
        "In-Reply-To: <1@mail.test>",
        "Auto-Submitted: auto-replied",
    ] {
        assert!(
            answer.contains(&format!("{line}\r\n")),
            "{line} in {answer}"
        );
    }
}

#[tokio::test]
async fn conversation_over_starttls() {
    let Some(servers) = servers().await else {
        return;
    };
    converse(&servers, &json!({})).await;
    let flags: Vec<_> = servers
        .mails(BOT, "INBOX")
        .await
        .into_iter()
        .map(|(flags, _)| flags)
        .collect();
    assert_eq!(
        flags[..2],
        [vec!["Seen".to_owned()], Vec::new()],
        "what is not proven stays unread"
    );
}

#[tokio::test]
async fn conversation_over_implicit_tls_moves_handled_mails() {
    let Some(servers) = servers().await else {
        return;
    };
    let mut keys = servers.implicit();
    keys["postAction"] = json!("move");
    keys["postActionMoveMailbox"] = json!("Done");
    converse(&servers, &keys).await;
    assert!(
        servers.mails(BOT, "Done").await[0]
            .1
            .contains("What is 6 * 7?")
    );
    assert!(
        servers.mails(BOT, "INBOX").await[0]
            .1
            .contains("I am the boss")
    );
}

#[tokio::test]
async fn waiting_mails_are_handled_together() {
    let Some(servers) = servers().await else {
        return;
    };
    for number in 1..=5 {
        let text = format!("mail {number}");
        servers.ann_writes(ANN, &number.to_string(), &text).await;
    }
    let keys = json!({"postAction": "move", "postActionMoveMailbox": "Done"});
    let running = Running::of(servers.channel(&keys), played());
    for number in 1..=5 {
        let message = running.assistant.message(number).await.unwrap();
        let text = format!("mail {number}");
        assert!(message.content.ends_with(&text), "{}", message.content);
    }
    // The next look comes after they were moved.
    let alive = running.assistant.seen().alive;
    running
        .assistant
        .wait_until("the next look", |seen| seen.alive > alive + 1)
        .await
        .unwrap();
    running.stop().await;
    assert_eq!(servers.mails(BOT, "INBOX").await, []);
    let moved = servers.mails(BOT, "Done").await;
    assert_eq!(moved.len(), 5);
    assert!(
        moved.iter().all(|(flags, _)| *flags == ["Seen"]),
        "{moved:?}"
    );
}

#[tokio::test]
async fn conversation_with_oauth_tokens() {
    let Some(servers) = servers().await else {
        return;
    };
    let at = &servers.at;
    let keys = json!({
        "auth": "oauth2", "imapPassword": null, "smtpPassword": null, "oauthTokenUrl": at.token_url,
        "oauthClientId": at.client_id, "oauthRefreshToken": at.refresh_token,
    });
    // Each token that the provider gives ends the one before it.
    let other = servers
        .channel(&keys)
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap();
    assert_eq!(other, BOT);
    converse(&servers, &keys).await;
    let channel = servers.channel(&keys);
    let probe = channel.probe().unwrap();
    probe.probe().await.unwrap();
    servers
        .channel(&keys)
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap();
    assert_eq!(
        probe.probe().await.unwrap(),
        BOT,
        "the token that had ended was replaced"
    );
    servers
        .channel(&keys)
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap();
    channel.send(&news(ANN, "one more")).await.unwrap();
    let mut wrong = keys;
    wrong["oauthRefreshToken"] = json!("another one");
    let error = servers
        .channel(&wrong)
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn unread_mails_get_a_keyword_and_large_mails_are_refused() {
    let Some(servers) = servers().await else {
        return;
    };
    let channel = servers.channel(&json!({"markSeen": false}));
    for number in ["1", "2"] {
        let running = Running::of(Arc::clone(&channel), played());
        servers.ann_writes(ANN, number, number).await;
        assert!(
            running
                .assistant
                .message(1)
                .await
                .unwrap()
                .content
                .ends_with(number)
        );
        // The next look comes after the mark.
        let alive = running.assistant.seen().alive;
        running
            .assistant
            .wait_until("the next look", |seen| seen.alive > alive + 1)
            .await
            .unwrap();
        running.stop().await;
    }
    let flags: Vec<_> = servers
        .mails(BOT, "INBOX")
        .await
        .into_iter()
        .map(|(flags, _)| flags)
        .collect();
    assert_eq!(
        flags,
        vec![vec![r#"Custom("NanobotHandled")"#.to_owned()]; 2]
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bin");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(2_000_000)
        .unwrap();
    let part = with(news(ANN, "see"), |message| {
        message.media = vec![MediaRef::new(path.to_string_lossy())];
    });
    let error = channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::TooLarge(_)), "{error:?}");
}

#[tokio::test]
async fn untrusted_server_gets_no_password() {
    let Some(servers) = servers().await else {
        return;
    };
    for keys in [json!({"caFile": null}), servers.implicit()] {
        let mut keys = keys;
        keys["caFile"] = Value::Null;
        let channel = servers.channel(&keys);
        let receiving = Running::of(Arc::clone(&channel), played()).end().await;
        let sending = channel.send(&news(ANN, "x")).await.unwrap_err();
        for error in [receiving, sending] {
            assert!(
                matches!(error, ChannelError::Unavailable(_))
                    && error.to_string().contains("certificate"),
                "{error}"
            );
        }
    }
    let wrong = servers.channel(&json!({"imapPassword": "wrong-one", "smtpPassword": "wrong-one"}));
    let sending = wrong.send(&news(ANN, "x")).await.unwrap_err();
    let probing = wrong.probe().unwrap().probe().await.unwrap_err();
    for error in [Running::of(wrong, played()).end().await, sending, probing] {
        assert!(
            matches!(error, ChannelError::Auth(_)) && !error.to_string().contains("wrong-one"),
            "{error}"
        );
    }
}
