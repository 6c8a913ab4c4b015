//! Inbound messages.

use nanobot_channel::{
    Admission, Arrival, DeliveryContext, InboundMessage, MediaRef, MessageId, OutboundKey,
    OutboundKind, OutboundMessage, SessionKey,
};
use nanobot_channel_telegram_fake::{
    BOT_ID, BOT_USERNAME, Fault, FileKind, Incoming, Person, Pushed, TelegramFake,
};
use serde_json::json;

use crate::support::{GROUP, Running, ann, mallory, reply};

/// The text of the end mark of [`arrivals`].
const LAST: &str = "that was all";

/// Pushes messages, and returns those that arrive, in the order of sending. One more message marks
/// the end: once it is confirmed, all earlier updates are. Chats do not wait for each other, so
/// messages of several chats may arrive in any order.
async fn arrivals(
    running: &Running,
    messages: impl IntoIterator<Item = Incoming>,
) -> Vec<InboundMessage> {
    let before = running.assistant.seen().arrived.len();
    let last = Incoming::private(&ann(), LAST);
    let pushed: Vec<_> = messages
        .into_iter()
        .chain([last])
        .map(|message| running.fake.push(message))
        .collect();
    running
        .fake
        .wait_for_acknowledged(*pushed.last().unwrap())
        .await
        .unwrap();
    let place = |message: &InboundMessage| {
        let is_it = |pushed: &Pushed| {
            message.chat_id == pushed.chat_id.to_string().as_str().into()
                && message.id == Some(pushed.message_id.to_string().as_str().into())
        };
        pushed.iter().position(is_it)
    };
    let mut arrived: Vec<_> = since(running, before)
        .into_iter()
        .map(|(message, _)| message)
        .collect();
    arrived.sort_by_key(place);
    arrived
}

/// Returns the messages after the first `before`, without the end mark of [`arrivals`].
fn since(running: &Running, before: usize) -> Vec<(InboundMessage, Arrival)> {
    let arrived = running.assistant.seen().arrived.into_iter().skip(before);
    arrived
        .filter(|(message, _)| message.content != LAST)
        .collect()
}

#[tokio::test]
async fn private_message_arrives_with_all_fields() {
    let running = Running::start(json!({})).await;
    let message = running.hello().await;
    let mut expected = InboundMessage::text("telegram", "7|ann_x", "7", "hello");
    expected.id = Some("1".into());
    expected.timestamp = message.timestamp;
    expected.delivery = DeliveryContext {
        reply_to: Some("1".into()),
        ..DeliveryContext::default()
    };
    let metadata = json!({
        "message_id": 1, "user_id": 7, "username": "ann_x", "first_name": "Ann", "is_group": false,
        "message_thread_id": null, "is_forum": false, "reply_to_message_id": null,
    });
    expected.metadata = metadata.as_object().unwrap().clone();
    assert_eq!(message, expected);
    assert_eq!(running.assistant.seen().arrived[0].1, Arrival::direct());
    let nameless = Person {
        id: 8,
        first_name: "Bo".to_owned(),
        username: None,
    };
    let arrived = arrivals(&running, [Incoming::private(&nameless, "hi")]).await;
    assert_eq!(arrived[0].sender_id, "8".into());
    running.stop().await;
}

#[tokio::test]
async fn topic_has_its_own_session_and_delivery_target() {
    let running = Running::start(json!({})).await;
    let group = |text: &str| Incoming::group(GROUP, &ann(), text);
    let arrived = arrivals(
        &running,
        [group("in a topic").in_topic(5), group("in no topic")],
    )
    .await;
    let keys: Vec<SessionKey> = arrived.iter().map(InboundMessage::session_key).collect();
    let expected = [
        format!("telegram:{GROUP}:topic:5"),
        format!("telegram:{GROUP}"),
    ];
    assert_eq!(keys, expected.map(SessionKey::from));
    let threads: Vec<_> = arrived
        .iter()
        .map(|message| message.delivery.thread.as_deref())
        .collect();
    assert_eq!(threads, [Some("5"), None]);
    assert_eq!(
        (
            &arrived[0].metadata["message_thread_id"],
            &arrived[0].metadata["is_forum"]
        ),
        (&json!(5), &json!(true))
    );
    running
        .channel
        .send(&reply(&arrived[0], "back"))
        .await
        .unwrap();
    assert_eq!(running.fake.sent()[0].thread_id, Some(5));
    running.stop().await;
}

#[tokio::test]
async fn group_messages_address_the_bot_only_by_name_or_reply() {
    let running = Running::start(json!({})).await;
    let group = |text: &str| Incoming::group(GROUP, &ann(), text);
    let bot_s = {
        let inbound = arrivals(&running, [group(&format!("@{BOT_USERNAME} begin"))])
            .await
            .remove(0);
        let sent = running
            .channel
            .send(&reply(&inbound, "I said"))
            .await
            .unwrap();
        sent.message_id.unwrap().as_str().parse::<i64>().unwrap()
    };
    let person_s = running.fake.push(group("somebody said")).message_id;
    let text_mention = |id: i64| {
        let user = json!({"id": id, "is_bot": true, "first_name": "nanobot"});
        json!({"type": "text_mention", "offset": 0, "length": 4, "user": user})
    };
    let table = [
        (group("just talking"), Some(false)),
        (
            group(&format!("😀 @{BOT_USERNAME} after an emoji")),
            Some(true),
        ),
        (
            group(&format!("hi @{}!", BOT_USERNAME.to_uppercase())),
            Some(true),
        ),
        (group("@another_bot hi"), Some(false)),
        (group(&format!("mail me@{BOT_USERNAME}.test")), Some(true)),
        (group(&format!("@{BOT_USERNAME}2 hi")), Some(false)),
        (
            group("nano, hi").with_entity(text_mention(BOT_ID)),
            Some(true),
        ),
        (group("nano, ho").with_entity(text_mention(5)), Some(false)),
        (group("an answer").replying_to(bot_s), Some(true)),
        (
            group("an answer to a person").replying_to(person_s),
            Some(false),
        ),
        (group("/new"), Some(true)),
        (group(&format!("/stop@{BOT_USERNAME}")), Some(true)),
        (group("/new@another_bot"), None),
        (group("/unknown"), Some(false)),
        (
            group(&format!("see @{BOT_USERNAME}")).with_file(
                FileKind::Document,
                "a.txt",
                "text/plain",
                "a",
            ),
            Some(true),
        ),
        (
            group("not for you").with_file(FileKind::Document, "a.txt", "text/plain", "a"),
            Some(false),
        ),
    ];
    for (incoming, addressed) in table {
        let shown = format!("{incoming:?}");
        let before = running.assistant.seen().arrived.len();
        arrivals(&running, [incoming]).await;
        let arrival = since(&running, before).pop().map(|(_, arrival)| arrival);
        assert_eq!(arrival, addressed.map(Arrival::group), "{shown}");
    }
    running.stop().await;
}

#[tokio::test]
async fn commands_arrive_without_the_bot_name() {
    let running = Running::start(json!({})).await;
    let table = ["/new", "/NEW", "/reset", "/stop", "/start"];
    let messages =
        table.map(|command| Incoming::private(&ann(), format!("{command}@{BOT_USERNAME}")));
    let contents: Vec<_> = arrivals(&running, messages)
        .await
        .into_iter()
        .map(|message| message.content)
        .collect();
    assert_eq!(contents, table);
    running.stop().await;
}

#[tokio::test]
async fn strangers_are_ignored_or_get_the_pairing_text() {
    let running = Running::start(json!({})).await;
    let file =
        |incoming: Incoming| incoming.with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
    let messages = [
        Incoming::private(&mallory(), "let me in"),
        Incoming::private(&mallory(), "/start"),
        file(Incoming::private(&mallory(), "a picture")),
        Incoming::group(-42, &mallory(), "in a group"),
    ];
    assert_eq!(arrivals(&running, messages.clone()).await, []);
    assert_eq!(
        (running.fake.sent(), running.fake.calls_of("getFile")),
        (Vec::new(), Vec::new())
    );
    assert!(
        running
            .assistant
            .seen()
            .asked
            .iter()
            .any(|(sender, ..)| *sender == "66|mallory_x".into())
    );
    running
        .assistant
        .will_pair_strangers("Tell the owner ABCD <1>");
    assert_eq!(arrivals(&running, messages).await, []);
    let told: Vec<_> = running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.chat_id, sent.text))
        .collect();
    assert_eq!(told, vec![(66, "Tell the owner ABCD <1>".to_owned()); 3]);
    running.stop().await;
}

#[tokio::test]
async fn replies_include_the_quoted_message() {
    let running = Running::start(json!({})).await;
    let first = running.hello().await;
    let sent = running
        .channel
        .send(&reply(&first, "I am here"))
        .await
        .unwrap()
        .message_id
        .unwrap();
    let long = running
        .fake
        .push(Incoming::private(&ann(), "字".repeat(4001)))
        .message_id;
    let nameless = Person {
        id: 7,
        first_name: "Bo".to_owned(),
        username: None,
    };
    let bo_s = running
        .fake
        .push(Incoming::private(&nameless, "I am Bo"))
        .message_id;
    let photo =
        Incoming::private(&ann(), "").with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
    let photo = running.fake.push(photo).message_id;
    let table = [
        (
            sent.as_str().parse().unwrap(),
            "[Reply to bot: I am here]\nso".to_owned(),
        ),
        (1, "[Reply to @ann_x: hello]\nso".to_owned()),
        (
            long,
            format!("[Reply to @ann_x: {}...]\nso", "字".repeat(4000)),
        ),
        (bo_s, "[Reply to Bo: I am Bo]\nso".to_owned()),
        (
            photo,
            "[Reply to @ann_x: [image: /media/image.jpg]]\nso".to_owned(),
        ),
    ];
    arrivals(&running, []).await;
    for (original, content) in table {
        let message = arrivals(
            &running,
            [Incoming::private(&ann(), "so").replying_to(original)],
        )
        .await
        .remove(0);
        assert_eq!(message.content, content);
        assert_eq!(message.metadata["reply_to_message_id"], json!(original));
        assert_eq!(message.media.len(), usize::from(original == photo));
    }
    // A command stays one.
    let stop = arrivals(
        &running,
        [Incoming::private(&ann(), "/stop").replying_to(long)],
    )
    .await
    .remove(0);
    assert_eq!(stop.content, "/stop");
    running.stop().await;
}

#[tokio::test]
async fn files_are_stored_and_named_in_the_text() {
    let running = Running::start(json!({})).await;
    let file = |kind, name: &str, mime: &str, text: &str| {
        Incoming::private(&ann(), text).with_file(kind, name, mime, format!("bytes of {name}"))
    };
    let table = [
        (
            file(FileKind::Photo, "x.jpg", "", "see"),
            "see\n[image: /media/image.jpg]",
            Some("image/jpeg"),
        ),
        (
            file(FileKind::Voice, "x.ogg", "audio/ogg", ""),
            "[voice: /media/voice.ogg]",
            None,
        ),
        (
            file(FileKind::Audio, "song.mp3", "audio/mpeg", ""),
            "[audio: /media/song.mp3]",
            None,
        ),
        (
            file(FileKind::Video, "film.mp4", "video/mp4", ""),
            "[video: /media/film.mp4]",
            None,
        ),
        (
            file(FileKind::Animation, "cat.gif.mp4", "video/mp4", ""),
            "[animation: /media/cat.gif.mp4]",
            None,
        ),
        (
            file(FileKind::Document, "notes.txt", "text/plain", ""),
            "[file: /media/notes.txt]",
            None,
        ),
        (
            file(FileKind::Document, "scan.png", "image/png", ""),
            "[image: /media/scan.png]",
            Some("image/png"),
        ),
    ];
    for (incoming, content, image) in table {
        let message = arrivals(&running, [incoming]).await.remove(0);
        let location = content.rsplit(": ").next().unwrap().trim_end_matches(']');
        let media = image.map(|mime| MediaRef {
            location: location.to_owned(),
            mime: Some(mime.to_owned()),
        });
        assert_eq!(
            (message.content.as_str(), message.media),
            (content, media.into_iter().collect())
        );
    }
    let kept = running.assistant.seen().kept;
    assert_eq!(kept[5].name, "notes.txt");
    assert_eq!(kept[5].bytes, b"bytes of notes.txt");
    running.stop().await;
}

#[tokio::test]
async fn failed_download_is_stated_in_the_text() {
    let running = Running::start(json!({})).await;
    let file = |bytes: Vec<u8>| {
        Incoming::private(&ann(), "see").with_file(FileKind::Document, "a.txt", "text/plain", bytes)
    };
    let message = arrivals(&running, [file(vec![0; 1001])]).await.remove(0);
    assert_eq!(
        (
            message.content.as_str(),
            running.fake.calls_of("getFile").len()
        ),
        ("see\n[file: download failed]", 0)
    );
    let refusal = || Fault::Status(400, "Bad Request: file is too big".to_owned());
    running.fake.fail_next("getFile", refusal());
    let message = arrivals(&running, [file(vec![0; 9])]).await.remove(0);
    assert_eq!(message.content, "see\n[file: download failed]");
    running.fake.fail_next("getFile", Fault::bad_gateway());
    let message = arrivals(&running, [file(vec![0; 9])]).await.remove(0);
    assert_eq!(
        message.content, "see\n[file: /media/a.txt]",
        "what passes is tried again"
    );
    running.stop().await;
}

#[tokio::test]
async fn an_album_is_one_message() {
    let running = Running::start(json!({})).await;
    let photo = |text: &str| {
        Incoming::private(&ann(), text)
            .with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG")
            .in_album("9")
    };
    let first = running.fake.push(photo("our trip"));
    let last = running.fake.push(photo(""));
    running.fake.push(Incoming::private(&ann(), "between"));
    let straggler = running.fake.push(photo("the end"));
    running.fake.wait_for_acknowledged(straggler).await.unwrap();
    let arrived = arrivals(&running, []).await;
    assert!(arrived.is_empty());
    let seen = running.assistant.seen().arrived;
    let contents: Vec<_> = seen
        .iter()
        .map(|(message, _)| message.content.as_str())
        .collect();
    let image = "[image: /media/image.jpg]";
    let album = format!("our trip\nthe end\n{image}\n{image}\n{image}");
    assert_eq!(contents, [album.as_str(), "between", "that was all"]);
    assert_eq!(
        seen[0].0.id,
        Some(MessageId::from(first.message_id.to_string()))
    );
    assert_eq!(seen[0].0.media.len(), 3);
    assert!(running.fake.is_acknowledged(last));
    running.stop().await;
}

#[tokio::test]
async fn edits_are_ignored_with_one_notice() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    for text in ["hello!", "hello?"] {
        running.fake.edit(7, 1, text).unwrap();
    }
    assert_eq!(arrivals(&running, []).await, []);
    assert_eq!(
        running.fake.texts_in(7),
        ["Edited messages are ignored; send a new one."]
    );
    let strange = running.fake.push(Incoming::private(&mallory(), "x"));
    let group = running
        .fake
        .push(Incoming::group(-42, &ann(), format!("@{BOT_USERNAME} x")));
    running.fake.edit(66, strange.message_id, "y").unwrap();
    running.fake.edit(-42, group.message_id, "y").unwrap();
    assert_eq!(arrivals(&running, []).await.len(), 1);
    assert_eq!(
        running.fake.sent().len(),
        1,
        "neither strangers nor groups are told"
    );
    running.stop().await;
}

#[tokio::test]
async fn message_has_a_reaction_until_its_turn_ends() {
    let running = Running::start(json!({"reactEmoji": "👀"})).await;
    let inbound = running.hello().await;
    running
        .fake
        .wait_for_calls("setMessageReaction", 1)
        .await
        .unwrap();
    assert_eq!(running.fake.reactions(7, 1), ["👀"]);
    running
        .channel
        .send(&reply(&inbound, "not the last word"))
        .await
        .unwrap();
    let key = OutboundKey {
        turn: "turn".into(),
        position: 0,
    };
    let kind = OutboundKind::TurnEnd { unfinished: 0 };
    let end = OutboundMessage::in_reply_to(&inbound, key, kind, String::new());
    running
        .channel
        .turn_ends()
        .unwrap()
        .ended(&end)
        .await
        .unwrap();
    let calls = running
        .fake
        .wait_for_calls("setMessageReaction", 2)
        .await
        .unwrap();
    assert_eq!(calls.len(), 2, "the reply leaves it where it is");
    assert_eq!(running.fake.reactions(7, 1), Vec::<String>::new());
    running.assistant.will_answer([Admission::Duplicate]);
    arrivals(&running, [Incoming::private(&ann(), "again")]).await;
    assert_eq!(running.fake.reactions(7, 3), Vec::<String>::new());
    running.stop().await;
}

#[tokio::test]
async fn locations_and_contacts_are_described() {
    let fake = TelegramFake::start().await.unwrap();
    let running = Running::at(fake, &json!({}));
    running.hello().await;
    let message = |content: serde_json::Value| {
        let mut message = json!({
            "message_id": 50, "date": 1, "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": 7, "type": "private", "first_name": "Ann"},
        });
        message
            .as_object_mut()
            .unwrap()
            .extend(content.as_object().unwrap().clone());
        message
    };
    let sent = json!({"location": {"latitude": 48.5, "longitude": 9.25}});
    running.fake.push_raw("message", message(sent));
    running.fake.push_raw(
        "message",
        message(json!({"contact": {"phone_number": "+1", "first_name": "Bo"}})),
    );
    running
        .fake
        .push_raw("message", message(json!({"delete_chat_photo": true})));
    let contents: Vec<_> = arrivals(&running, [])
        .await
        .into_iter()
        .map(|message| message.content)
        .collect();
    assert_eq!(contents, ["[location: 48.5, 9.25]", "[contact: Bo +1]"]);
    running.stop().await;
}

#[tokio::test]
async fn anonymous_chats_are_senders_and_bots_are_ignored() {
    let running = Running::start(json!({})).await;
    let channel = -1_001_000_000_777;
    let messages = [
        Incoming::group(GROUP, &ann(), "/new").anonymously(),
        Incoming::post(channel, "/stop"),
    ];
    let arrived = arrivals(&running, messages).await;
    let shown: Vec<_> = arrived
        .iter()
        .map(|message| (message.content.as_str(), message.sender_id.as_str()))
        .collect();
    let (group_id, channel_id) = (GROUP.to_string(), channel.to_string());
    assert_eq!(
        shown,
        [("/new", group_id.as_str()), ("/stop", channel_id.as_str())]
    );
    let posted = since(&running, 0)
        .into_iter()
        .find(|(message, _)| message.chat_id == channel_id.as_str().into());
    assert_eq!(posted.unwrap().1, Arrival::group(true));
    let message = |from: serde_json::Value, more: serde_json::Value| {
        let mut message = json!({
            "message_id": 60, "date": 1, "text": "/new", "from": from,
            "chat": {"id": GROUP, "type": "supergroup", "title": "Group"},
        });
        message
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        message
    };
    let bot = json!({"id": 8, "is_bot": true, "first_name": "Robot"});
    running.fake.push_raw("message", message(bot, json!({})));
    // What a channel posts is copied into the group that talks about it, also what the bot posted.
    let stand_in = json!({"id": 777_000, "is_bot": false, "first_name": "Telegram"});
    let origin = json!({"id": channel, "type": "channel", "title": "News"});
    let forward = json!({
        "sender_chat": origin, "is_automatic_forward": true,
        "forward_origin": {"type": "channel", "date": 1, "chat": origin, "message_id": 1},
    });
    running.fake.push_raw("message", message(stand_in, forward));
    assert_eq!(arrivals(&running, []).await, []);
    running.stop().await;
}

#[tokio::test]
async fn private_chat_topic_has_its_own_session() {
    let running = Running::start(json!({})).await;
    let arrived = arrivals(
        &running,
        [Incoming::private(&ann(), "in a topic").in_topic(5)],
    )
    .await;
    assert_eq!(arrived[0].session_key(), "telegram:7:topic:5".into());
    running
        .channel
        .send(&reply(&arrived[0], "back"))
        .await
        .unwrap();
    assert_eq!(running.fake.sent()[0].thread_id, Some(5));
    running.stop().await;
}

#[tokio::test]
async fn stickers_video_notes_and_polls_arrive() {
    let running = Running::start(json!({})).await;
    let file = |kind, name: &str, mime: &str| {
        Incoming::private(&ann(), "").with_file(kind, name, mime, "bytes")
    };
    let table = [
        (
            file(FileKind::VideoNote, "note.mp4", "video/mp4"),
            "[video: /media/video.mp4]",
            0,
        ),
        (
            file(FileKind::Sticker, "s.webp", "image/webp"),
            "[image: /media/sticker.webp]\n[sticker: 👍]",
            1,
        ),
    ];
    for (incoming, content, images) in table {
        let message = arrivals(&running, [incoming]).await.remove(0);
        assert_eq!(
            (message.content.as_str(), message.media.len()),
            (content, images)
        );
    }
    let poll = json!({
        "message_id": 70, "date": 1, "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 7, "type": "private", "first_name": "Ann"},
        "poll": {
            "id": "1", "question": "Where?", "is_closed": false, "total_voter_count": 0, "is_anonymous": true,
            "type": "regular", "allows_multiple_answers": false,
            "options": [{"text": "Here", "voter_count": 0}, {"text": "There", "voter_count": 0}],
        },
    });
    running.fake.push_raw("message", poll);
    let contents: Vec<_> = arrivals(&running, [])
        .await
        .into_iter()
        .map(|message| message.content)
        .collect();
    assert_eq!(contents, ["[poll: Where? (Here / There)]"]);
    running.stop().await;
}

#[tokio::test]
async fn voice_message_is_transcribed() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe("  what Ann said ");
    let file = |kind, name: &str, mime: &str| {
        Incoming::private(&ann(), "").with_file(kind, name, mime, "bytes")
    };
    let table = [
        (
            file(FileKind::Voice, "x.ogg", "audio/ogg"),
            "[transcription: what Ann said]",
        ),
        (
            file(FileKind::Audio, "song.mp3", "audio/mpeg"),
            "[audio: /media/song.mp3]",
        ),
        (
            file(FileKind::Video, "film.mp4", "video/mp4"),
            "[video: /media/film.mp4]",
        ),
    ];
    for (incoming, content) in table {
        assert_eq!(
            arrivals(&running, [incoming]).await.remove(0).content,
            content
        );
    }
    running.stop().await;
}
