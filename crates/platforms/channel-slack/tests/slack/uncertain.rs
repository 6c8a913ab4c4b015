//! Parts that an earlier process may have sent before it ended.

use nanobot_channel::{
    Button, ChannelError, InboundMessage, MediaRef, OutboundMessage, OutboundPart,
};
use nanobot_channel_slack_fake::{Fault, Incoming};
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, reply, with};

/// The same part, which may have arrived.
fn in_doubt(part: &OutboundPart) -> OutboundPart {
    OutboundPart {
        in_doubt: true,
        ..part.clone()
    }
}

/// A reply with a file and a picture of the web, and with buttons that are a message of their own.
fn with_everything(inbound: &InboundMessage, file: &str) -> OutboundPart {
    with(
        reply(inbound, &"long ".repeat(1000)),
        |message: &mut OutboundMessage| {
            message.media = vec![
                MediaRef::new(file),
                MediaRef::new("https://pictures.test/cat.png"),
            ];
            message.buttons = vec![vec![Button {
                label: "yes".to_owned(),
            }]];
        },
    )
}

#[tokio::test]
async fn part_sent_before_a_crash_is_not_resent() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::to(ROOM, &ann(), "a question"));
    let threaded = running.assistant.message(1).await.unwrap();
    running.fake.push(Incoming::direct(&ann(), "hello"));
    let direct = running.assistant.message(2).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.png");
    std::fs::write(&file, "PNG").unwrap();
    let parts = [
        reply(&threaded, "in a thread"),
        with_everything(&direct, file.to_str().unwrap()),
    ];
    for part in parts {
        let sent = running.channel.send(&part).await.unwrap();
        let shown = running.fake.sent().len();
        let restarted = channel(&running.fake, &json!({}));
        assert_eq!(restarted.send(&in_doubt(&part)).await.unwrap(), sent);
        assert_eq!(running.fake.sent().len(), shown);
    }
    // Only what was said since the question is looked through, however long ago that was.
    let looks = running.fake.calls_of("conversations.history");
    let asked = direct.id.unwrap();
    let second = asked.as_str().split('.').next().unwrap();
    assert_eq!(looks[0].params["oldest"], format!("{second}.000000"));
    running.stop().await;
}

#[tokio::test]
async fn unsent_and_partial_parts_are_completed_after_a_crash() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let never = reply(&hello, "never seen");
    channel(&running.fake, &json!({}))
        .send(&in_doubt(&never))
        .await
        .unwrap();
    let begun = with(reply(&hello, "the text"), |message| {
        message.key.position = 1;
        message.media = vec![
            MediaRef::new("https://pictures.test/1.png"),
            MediaRef::new("https://pictures.test/2.png"),
        ];
    });
    let one = with(begun.clone(), |message| message.media.truncate(1));
    running.fake.fail_next(
        "chat.postMessage",
        Fault::ErrorAfterEffect("internal_error".to_owned()),
    );
    running
        .channel
        .send(&OutboundPart {
            text: String::new(),
            plain: String::new(),
            ..one
        })
        .await
        .unwrap();
    channel(&running.fake, &json!({}))
        .send(&in_doubt(&begun))
        .await
        .unwrap();
    let expected = [
        "never seen",
        "<https://pictures.test/1.png>",
        "<https://pictures.test/2.png>",
        "the text",
    ];
    assert_eq!(running.fake.texts_in(&ann().direct()), expected);
    running.stop().await;
}

#[tokio::test]
async fn inconclusive_search_sends_nothing_until_forced() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.png");
    std::fs::write(&file, "PNG").unwrap();
    // A file that may be there without its text.
    let part = with_everything(&hello, file.to_str().unwrap());
    let restarted = channel(&running.fake, &json!({}));
    let error = restarted.send(&in_doubt(&part)).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    // Where the app may not look.
    let text = with(reply(&hello, "text"), |message| message.key.position = 1);
    running
        .fake
        .fail_next("conversations.history", Fault::error("missing_scope"));
    let error = restarted.send(&in_doubt(&text)).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    assert_eq!(running.fake.sent().len(), 0);
    // Somebody decided that it is to be sent all the same.
    restarted.send(&text).await.unwrap();
    assert_eq!(running.fake.texts_in(&ann().direct()), ["text"]);
    running.stop().await;
}
