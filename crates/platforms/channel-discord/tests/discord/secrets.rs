//! Errors and logs hide the token.

use nanobot_channel::{ChannelError, ChannelFactory as _, RawConfig};
use nanobot_channel_discord::DiscordFactory;
use nanobot_channel_discord_fake::{DiscordFake, Fault, Incoming, Order, TOKEN};
use nanobot_testkit::log::Log;
use serde_json::json;

use crate::support::{Running, ann, channel, reply};

#[tokio::test]
async fn errors_and_logs_hide_the_token() {
    let log = Log::capture().unwrap();
    let running = Running::start(json!({"readReceiptEmoji": "👀"})).await;
    let inbound = running.hello().await;
    let mut texts = Vec::new();
    let signature = TOKEN.rsplit_once('.').unwrap().1;
    for fault in [
        Fault::Drop,
        Fault::DropAfterEffect,
        Fault::Page(502),
        Fault::Status(400, 50_035, format!("{TOKEN} is odd")),
        Fault::Status(400, 50_035, format!("{signature} is odd")),
    ] {
        running.fake.fail_next("createMessage", fault);
        let error = running
            .channel
            .send(&reply(&inbound, "x"))
            .await
            .unwrap_err();
        texts.push(format!("{error} {error:?}"));
    }
    running.fake.fail_next("download", Fault::Drop);
    running
        .fake
        .push(Incoming::direct(&ann(), "see").with_file("a.jpg", "image/jpeg", "JPEG"));
    running.assistant.message(2).await.unwrap();
    running
        .fake
        .order(Order::Raw(format!("{{\"token\": \"{TOKEN}\"")));
    running
        .fake
        .use_command(running.fake.direct_channel(&ann()), &ann(), "new", None);
    running.assistant.message(3).await.unwrap();
    texts.push(format!("{:?} {:#?}", running.channel, running.channel));
    running.fake.revoke_token();
    let (_, error) = running.end().await;
    texts.push(format!("{error} {error:?}"));
    let fake = DiscordFake::start().await.unwrap();
    let nowhere = channel(&fake, &json!({"apiBase": "http://127.0.0.1:9/api/v10"}));
    let error = nowhere.send(&reply(&inbound, "x")).await.unwrap_err();
    texts.push(format!("{error} {error:?}"));
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    texts.push(log.text());
    assert!(
        texts.last().unwrap().contains("receiving from Discord"),
        "the log was collected"
    );
    for text in texts {
        assert!(!text.contains(signature), "{text}");
        assert!(!text.contains("interaction-token-"), "{text}");
    }
}

#[tokio::test]
async fn invalid_configuration_is_rejected_before_connecting() {
    let table = [
        (
            json!({"token": ""}),
            "token: is empty: put the token here that the bot's page in the developer portal shows",
        ),
        (
            json!({"token": TOKEN, "apiBase": "discord"}),
            "apiBase: is no address; write one like https://discord.com/api/v10",
        ),
        (
            json!({"token": TOKEN, "proxy": "http://me:s3cret@"}),
            "proxy: is no address of a proxy; write one like http://host:3128 or socks5://host:1080, or \"\" for none",
        ),
    ];
    for (section, text) in table {
        let error = DiscordFactory::new()
            .create("discord".into(), &RawConfig::new(section))
            .unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
