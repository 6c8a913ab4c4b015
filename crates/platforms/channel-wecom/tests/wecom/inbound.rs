//! Messages: chats, contents, quotes, strangers, repetitions.

use nanobot_channel::{Admission, Arrival, ChatKind};
use nanobot_channel_wecom_fake::Incoming;
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory, part};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

#[tokio::test]
async fn groups_are_chats_of_their_own() {
    let running = Running::start(json!({})).await;
    let direct = running.hello().await;
    // WeCom does not deliver this one.
    running.fake.push(Incoming::to(ROOM, &ann(), "among us"));
    let group = Incoming::to(ROOM, &ann(), "/new").mentioning_bot();
    let group = running.receive(group, 2).await;
    assert_eq!(
        (direct.chat_id.as_str(), group.chat_id.as_str()),
        ("ann", ROOM)
    );
    assert_eq!(
        (group.sender_id.as_str(), group.content.as_str()),
        ("ann", "/new")
    );
    let arrivals: Vec<Arrival> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(_, arrival)| arrival)
        .collect();
    assert_eq!(arrivals, [Arrival::direct(), Arrival::group(true)]);
    assert_eq!(arrivals[1].kind, ChatKind::Group);
    running
        .channel
        .send(&part(&group, 0, "done"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(ROOM), ["done"]);
    running.stop().await;
}

#[tokio::test]
async fn every_kind_of_content_arrives() {
    let running = Running::start(json!({})).await;
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let table = [
        (direct(" trimmed \n"), "trimmed"),
        (
            direct("").with_image("cat.png", PNG),
            "[image: /media/cat.png]",
        ),
        (
            direct("look").with_mixed_image("cat.png", PNG),
            "look\n[image: /media/cat.png]",
        ),
        (direct("").with_voice("spoken"), "[transcription: spoken]"),
        (
            direct("").with_video("film.mp4", "film"),
            "[video: /media/film.mp4]",
        ),
        (direct("").with_file("a.txt", "x"), "[file: /media/a.txt]"),
        (
            direct("").of_kind("of_tomorrow", json!({"x": 1})),
            "[of_tomorrow]",
        ),
        (direct(""), "[empty message]"),
    ];
    for (number, (incoming, text)) in (1..).zip(table) {
        let message = running.receive(incoming, number).await;
        assert_eq!(message.content, text);
        assert_eq!(
            message.media.len(),
            usize::from(text.contains("image")),
            "{text}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn quoted_message_precedes_the_text() {
    let running = Running::start(json!({})).await;
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let table = [
        (direct("an /old text"), "[Reply to: an /old text]"),
        (
            direct("").with_image("cat.png", PNG),
            "[Reply to: [image: /media/cat.png]]",
        ),
        (
            direct("").with_file("a.txt", "x"),
            "[Reply to: [file: /media/a.txt]]",
        ),
    ];
    for (number, (quoted, shown)) in (1..).zip(table) {
        let quoted = running.fake.push_silently(quoted).message_id;
        let message = direct("/what is this").quoting(&quoted);
        let message = running.receive(message, number).await;
        assert_eq!(message.content, format!("{shown}\n/what is this"));
    }
    running.stop().await;
}

#[tokio::test]
async fn strangers_in_groups_notice_nothing() {
    let running = Running::start(json!({})).await;
    running.assistant.will_pair_strangers("who are you?");
    let file = || Incoming::direct(&mallory(), "").with_file("a.txt", "x");
    let quoted = running.fake.push_silently(file()).message_id;
    for incoming in [
        Incoming::to(ROOM, &mallory(), "see")
            .quoting(&quoted)
            .mentioning_bot(),
        Incoming::to(ROOM, &mallory(), "look")
            .with_mixed_image("a.png", PNG)
            .mentioning_bot(),
    ] {
        running.fake.push(incoming);
    }
    running.hello_in_room().await;
    assert_eq!((running.texts(), running.fake.downloads()), (Vec::new(), 0));
    // In a private chat they are asked, still without a download.
    running.fake.push(file());
    running.shown("who are you?").await;
    assert_eq!(running.fake.downloads(), 0);
    assert_eq!(running.arrived(), ["hello"]);
    running.stop().await;
}

#[tokio::test]
async fn repeated_message_is_recognised() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "once"));
    running.assistant.message(1).await.unwrap();
    running.fake.repeat(&pushed);
    running.receive(Incoming::direct(&ann(), "next"), 2).await;
    assert_eq!(running.arrived(), ["once", "next"]);
    running.stop().await;
}

#[tokio::test]
async fn unstored_message_is_kept_in_order() {
    let running = Running::start(json!({})).await;
    running.assistant.will_answer([Admission::TryLater; 2]);
    running.fake.push(Incoming::direct(&ann(), "first"));
    running.receive(Incoming::direct(&ann(), "second"), 4).await;
    assert_eq!(running.arrived(), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn message_without_a_connection_is_lost_at_wecom() {
    let fake = nanobot_channel_wecom_fake::WeComFake::start()
        .await
        .unwrap();
    let missed = fake.push(Incoming::direct(&ann(), "into the void"));
    let running = Running::at(fake, &json!({}));
    running.fake.wait_for_subscribed().await.unwrap();
    running.hello().await;
    assert_eq!(running.fake.deliveries(&missed), 0);
    assert_eq!(running.arrived(), ["hello"]);
    running.stop().await;
}
