//! Errors and logs hide the token.

use nanobot_channel::{ChannelFactory as _, RawConfig};
use nanobot_channel_telegram::TelegramFactory;
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming, TOKEN, TelegramFake};
use nanobot_testkit::log::Log;
use serde_json::json;

use crate::drafts::{delta, shown};
use crate::support::{Running, ann, channel, reply};

#[tokio::test]
async fn errors_and_logs_hide_the_token() {
    let log = Log::capture().unwrap();
    let running = Running::start(json!({"reactEmoji": "👀"})).await;
    let inbound = running.hello().await;
    let mut texts = Vec::new();
    let key = TOKEN.split_once(':').unwrap().1;
    for fault in [
        Fault::Drop,
        Fault::DropAfterEffect,
        Fault::bad_gateway(),
        Fault::Status(400, format!("Bad Request: bot{TOKEN} is odd")),
        Fault::Status(400, format!("Bad Request: {key} is odd")),
    ] {
        running.fake.fail_next("sendMessage", fault);
        let error = running
            .channel
            .send(&reply(&inbound, "x"))
            .await
            .unwrap_err();
        texts.push(format!("{error} {error:?}"));
    }
    let text = format!("Bad Request: bot{TOKEN} shows no drafts");
    running
        .fake
        .fail_next("sendMessageDraft", Fault::Status(400, text));
    delta(running.channel.as_ref(), &inbound, "s", "begun").await;
    shown(&running, "begun").await;
    running.fake.fail_next("getFile", Fault::Drop);
    running
        .fake
        .push(Incoming::private(&ann(), "see").with_file(
            FileKind::Photo,
            "a.jpg",
            "image/jpeg",
            "JPEG",
        ));
    running.assistant.message(2).await.unwrap();
    texts.push(format!("{:?}", running.channel));
    running.fake.revoke_token();
    running
        .fake
        .push(Incoming::private(&ann(), "wakes the poll"));
    let (_, error) = running.end().await;
    texts.push(format!("{error} {error:?}"));
    let nowhere = json!({"apiBase": "http://127.0.0.1:9"});
    let fake = TelegramFake::start().await.unwrap();
    let error = channel(&fake, &nowhere)
        .send(&reply(&inbound, "x"))
        .await
        .unwrap_err();
    texts.push(format!("{error} {error:?}"));
    assert!(
        matches!(error, nanobot_channel::ChannelError::Unavailable(_)),
        "{error}"
    );
    texts.push(log.text());
    assert!(
        texts.last().unwrap().contains("receiving from Telegram"),
        "the log was collected"
    );
    assert!(texts.last().unwrap().contains("shows no drafts"));
    for text in texts {
        assert!(!text.contains(key), "{text}");
    }
}

#[tokio::test]
async fn invalid_configuration_is_rejected_before_connecting() {
    let table = [
        (
            json!({"token": ""}),
            "token: is empty: put the token here that @BotFather gave for the bot",
        ),
        (
            json!({"token": TOKEN, "apiBase": "telegram"}),
            "apiBase: is no address; write one like https://api.telegram.org",
        ),
        (
            json!({"token": TOKEN, "proxy": "http://me:s3cret@"}),
            "proxy: is no address of a proxy; write one like http://host:3128 or socks5://host:1080, or \"\" for none",
        ),
    ];
    for (section, text) in table {
        let error = TelegramFactory::new()
            .create("telegram".into(), &RawConfig::new(section))
            .unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
