//! Servers that are reached through a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, ChannelFactory as _, ChannelName, RawConfig, Value};
use nanobot_channel_email::EmailFactory;
use nanobot_channel_email_fake::{MailFake, PASSWORD, USER};
use nanobot_testkit::Proxy;
use serde_json::json;

use crate::support::{ANN, Running, news, note, played};

/// A channel for servers whose names resolve nowhere: only a proxy can deal with them.
fn channel(own: &Value, shared: Option<String>) -> Arc<dyn Channel> {
    let section = json!({
        "enabled": true, "consentGranted": true, "proxy": own,
        "imapHost": "imap.invalid", "imapPort": 143, "imapUsername": USER, "imapPassword": PASSWORD,
        "imapUseSsl": false, "imapUseTls": false,
        "smtpHost": "smtp.invalid", "smtpPort": 25, "smtpUsername": USER, "smtpPassword": PASSWORD,
        "smtpUseTls": false, "fromAddress": "bot@bot.test", "authservId": "mx.bot.test",
    });
    let config = RawConfig {
        proxy: shared,
        ..RawConfig::new(section)
    };
    EmailFactory::new(Arc::new(nanobot_testkit::InProcess))
        .create(ChannelName::from("email"), &config)
        .unwrap()
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[tokio::test]
async fn imap_and_smtp_work_through_every_proxy_kind() {
    let fake = MailFake::start().await.unwrap();
    for scheme in ["http", "socks5h"] {
        let number = fake.sent().len() + 1;
        // A proxy of the tests leads to one server, whatever it is asked for.
        let mailbox = Proxy::with_password(at(fake.imap_port()), "me", "p@ss")
            .await
            .unwrap();
        let sending = Proxy::with_password(at(fake.smtp_port()), "me", "p@ss")
            .await
            .unwrap();
        let address = |proxy: &Proxy| format!("{scheme}://me:p%40ss@{}", proxy.address());
        let receiver = channel(
            &json!(address(&mailbox)),
            Some("http://nowhere.invalid:1".to_owned()),
        );
        let running = Running::of(receiver, played());
        fake.push(note(ANN, &format!("{number}@friend.test"), "hi"));
        running.assistant.message(1).await.unwrap();
        running.stop().await;
        channel(&Value::Null, Some(address(&sending)))
            .send(&news(ANN, "yes"))
            .await
            .unwrap();
        assert_eq!(fake.sent().len(), number);
        assert_eq!(
            (mailbox.asked(), sending.asked()),
            (
                vec!["imap.invalid:143".to_owned()],
                vec!["smtp.invalid:25".to_owned()]
            )
        );
    }
}

#[tokio::test]
async fn refusing_proxy_is_reported_without_its_password() {
    let fake = MailFake::start().await.unwrap();
    let proxy = Proxy::with_password(at(fake.smtp_port()), "me", "right-one")
        .await
        .unwrap();
    for (scheme, why) in [
        ("http", "it wants a name and a password"),
        ("socks5h", "it does not take the name"),
    ] {
        let own = json!(format!("{scheme}://me:wrong-one@{}", proxy.address()));
        let error = channel(&own, None).send(&news(ANN, "x")).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("the proxy {}: {why}", proxy.address())),
            "{text}"
        );
        assert!(!text.contains("wrong-one"), "{text}");
    }
    assert_eq!(proxy.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn local_proxy_does_not_make_the_server_local() {
    let fake = MailFake::start().await.unwrap();
    let proxy = Proxy::start(at(fake.imap_port())).await.unwrap();
    let section = json!({
        "enabled": true, "consentGranted": true, "proxy": format!("socks5h://{}", proxy.address()),
        "imapHost": "imap.invalid", "imapPort": 143, "imapUsername": USER, "imapPassword": PASSWORD, "imapUseSsl": false,
        "smtpHost": "smtp.invalid", "smtpUsername": USER, "smtpPassword": PASSWORD,
    });
    let channel = EmailFactory::new(Arc::new(nanobot_testkit::InProcess))
        .create(ChannelName::from("email"), &RawConfig::new(section))
        .unwrap();
    let error = Running::of(channel, played()).end().await;
    assert!(
        matches!(error, ChannelError::Config { ref key, .. } if key == "imapUseTls"),
        "{error}"
    );
    assert!(
        !fake.commands().iter().any(|command| command == "LOGIN"),
        "{:?}",
        fake.commands()
    );
}
