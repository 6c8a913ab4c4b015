//! Messages: chats, senders, quotes, confirmations, repetitions.

use nanobot_channel::{Admission, Arrival};
use nanobot_channel_whatsapp_fake::{Incoming, Person};
use nanobot_testkit::ChannelRun;
use serde_json::json;

use crate::support::{ROOM, Running, ann, channel, mallory, part, user};

#[tokio::test]
async fn people_are_named_by_number_and_lid() {
    let running = Running::start(json!({})).await;
    let number = user(&ann().direct());
    let both = format!("{number}|{}", user(&ann().lid()));
    let hidden = user(&ann().lid());
    let direct = || Incoming::direct(&ann(), "hello");
    let room = || Incoming::to(ROOM, &ann(), "hello");
    let table = [
        (direct(), number.as_str(), ann().direct()),
        (direct().by_lid(), both.as_str(), ann().lid()),
        (direct().without_number(), hidden.as_str(), ann().lid()),
        (room(), both.as_str(), ROOM.to_owned()),
        (room().without_number(), hidden.as_str(), ROOM.to_owned()),
    ];
    for (count, (incoming, sender, chat)) in (1..).zip(table) {
        let message = running.receive(incoming, count).await;
        assert_eq!(message.sender_id.as_str(), sender);
        assert_eq!(message.chat_id.as_str(), chat);
    }
    running.stop().await;
}

#[tokio::test]
async fn mention_and_reply_address_the_assistant() {
    let running = Running::start(json!({})).await;
    let hello = running.hello_in_room().await;
    running.channel.send(&part(&hello, 0, "hi")).await.unwrap();
    let own = running.fake.sent()[0].id.clone();
    let said = running
        .fake
        .push_silently(Incoming::to(ROOM, &mallory(), "/new"));
    let room = |text: &str| Incoming::to(ROOM, &ann(), text);
    let table = [
        (room("/status").mentioning_bot(), "/status", true),
        (room("among us"), "among us", false),
        (room("and?").quoting(&own), "[Reply to: hi]\nand?", true),
        (room("see").quoting(&said.message_id), "see", false),
    ];
    for (count, (incoming, text, is_addressed)) in (2..).zip(table) {
        let message = running.receive(incoming, count).await;
        let arrival = running.assistant.seen().arrived.last().unwrap().1.clone();
        assert_eq!(arrival, Arrival::group(is_addressed), "{text}");
        assert!(message.content.ends_with(text), "{}", message.content);
        let is_command = message.content.starts_with('/');
        assert_eq!(is_command, text.starts_with('/'), "{}", message.content);
    }
    running.stop().await;
}

#[tokio::test]
async fn strangers_notice_nothing() {
    let running = Running::start(json!({"reactEmoji": "👀"})).await;
    let file = Incoming::direct(&mallory(), "look").with_file("a.txt", "text/plain", "x");
    let pushed = running.fake.push(file);
    // It is refused for good, so that the bridge can forget it.
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    running.assistant.will_pair_strangers("who are you?");
    let room = Incoming::to(ROOM, &mallory(), "hi").mentioning_bot();
    running
        .fake
        .wait_for_acknowledged(&running.fake.push(room))
        .await
        .unwrap();
    assert_eq!((running.texts(), running.fake.downloads()), (Vec::new(), 0));
    assert!(running.fake.read().is_empty() && running.fake.reactions().is_empty());
    running
        .fake
        .push(Incoming::direct(&mallory(), "again").by_lid());
    running.fake.wait_for_sent(1).await.unwrap();
    assert_eq!(running.texts(), ["who are you?"]);
    assert!(running.arrived().is_empty() && running.fake.read().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn message_is_confirmed_after_it_was_stored() {
    let running = Running::start(json!({})).await;
    running.assistant.hold(true);
    let pushed = running.fake.push(Incoming::direct(&ann(), "precious"));
    running.assistant.message(1).await.unwrap();
    assert!(!running.fake.is_acknowledged(&pushed));
    assert!(running.fake.read().is_empty());
    // A restart in between loses nothing.
    let fake = running.stop().await;
    let next = Running::at(fake, &json!({}));
    next.assistant.message(1).await.unwrap();
    next.fake.wait_for_acknowledged(&pushed).await.unwrap();
    next.fake.wait_for_calls("read", 1).await.unwrap();
    assert_eq!(next.fake.read(), [pushed.message_id]);
    assert_eq!(next.arrived(), ["precious"]);
    next.stop().await;
}

#[tokio::test]
async fn refused_storage_is_retried_in_order() {
    let running = Running::start(json!({})).await;
    running.assistant.will_answer([Admission::TryLater; 2]);
    let pushed = running.fake.push(Incoming::direct(&ann(), "first"));
    running.receive(Incoming::direct(&ann(), "second"), 4).await;
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    assert_eq!(running.arrived(), ["first", "first", "first", "second"]);
    running.stop().await;
}

#[tokio::test]
async fn cut_before_the_confirmation_repeats_no_message() {
    let running = Running::start(json!({})).await;
    running.assistant.hold(true);
    let pushed = running.fake.push(Incoming::direct(&ann(), "once"));
    running.assistant.message(1).await.unwrap();
    running.fake.cut();
    running.fake.wait_for_readies(2).await.unwrap();
    running.fake.wait_for_deliveries(&pushed, 2).await.unwrap();
    running.assistant.hold(false);
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    running.receive(Incoming::direct(&ann(), "next"), 2).await;
    assert_eq!(running.arrived(), ["once", "next"]);
    running.stop().await;
}

#[tokio::test]
async fn same_id_of_another_sender_is_another_message() {
    let running = Running::start(json!({"markRead": false})).await;
    let bob = Person::new("4915222222222", "Bob");
    running.fake.add_person(&bob);
    let first = running.fake.push(Incoming::to(ROOM, &bob, "bob"));
    running.assistant.message(1).await.unwrap();
    let same = Incoming::to(ROOM, &ann(), "ann").with_member("id", json!(first.message_id));
    running.receive(same, 2).await;
    assert_eq!(running.arrived(), ["bob", "ann"]);
    running.stop().await;
}

#[tokio::test]
async fn dropped_messages_are_no_obstacle() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let fake = running.stop().await;
    fake.limit_journal(2, 1 << 20);
    for text in ["one", "two", "three"] {
        fake.push(Incoming::direct(&ann(), text));
    }
    let next = Running::at(fake, &json!({}));
    next.assistant.message(2).await.unwrap();
    assert_eq!(next.arrived(), ["two", "three"]);
    next.stop().await;
}

#[tokio::test]
async fn reads_are_reported_only_if_wanted() {
    let running = Running::start(json!({"markRead": false})).await;
    running.hello().await;
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    let fake = running.stop().await;
    assert!(fake.calls_of("read").is_empty());
}

#[tokio::test]
async fn second_client_reports_a_conflict() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let rival = channel(&running.fake, &json!({}));
    let rival = ChannelRun::start(rival, &running.assistant, &[]);
    let error = rival.end().await.unwrap();
    let text = error.to_string();
    assert!(text.contains("another program is connected"), "{text}");
    running
        .receive(Incoming::direct(&ann(), "still there"), 2)
        .await;
    running.stop_with(&["auth: a second client"]).await;
}
