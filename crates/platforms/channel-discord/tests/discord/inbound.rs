//! Inbound messages.

use nanobot_channel::{Arrival, Map, MediaRef, SessionKey};
use nanobot_channel_discord_fake::{BOT_ID, CHANNELS, Fault, GUILD, Incoming, Person};
use serde_json::json;

use crate::support::{Running, ann, in_server, mallory, reply};

fn keys(value: &serde_json::Value) -> Map {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn direct_message_has_sender_and_chat() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(Incoming::direct(&ann(), "hello"));
    let message = running.assistant.message(1).await.unwrap();
    let id = pushed.message_id.to_string();
    let expected = keys(&json!({
        "message_id": id, "guild_id": null, "reply_to": null, "username": "ann", "is_group": false,
    }));
    assert_eq!(message.metadata, expected);
    assert_eq!(
        (message.sender_id.as_str(), message.content.as_str()),
        ("7", "hello")
    );
    assert_eq!(
        message.chat_id.as_str(),
        running.fake.direct_channel(&ann()).to_string()
    );
    assert_eq!(
        (
            message.id.clone().unwrap().as_str(),
            message.session_key_override
        ),
        (id.as_str(), None)
    );
    assert_eq!(message.delivery.reply_to, message.id);
    assert_eq!(running.assistant.seen().arrived[0].1, Arrival::direct());
    running.stop().await;
}

#[tokio::test]
async fn mentions_and_replies_address_the_assistant_in_a_server() {
    let running = Running::start(json!({})).await;
    let room = CHANNELS[0];
    let say = |text: &str| Incoming::in_channel(room, &ann(), text);
    running.fake.push(say("not for you"));
    running.fake.push(say(&format!("<@{BOT_ID}> for you")));
    let inbound = running.assistant.message(2).await.unwrap();
    running
        .channel
        .send(&reply(&inbound, "yes?"))
        .await
        .unwrap();
    let ours = running.fake.wait_for_sent(1).await.unwrap()[0].message_id;
    let theirs = running.fake.push(say("between us")).message_id;
    running.fake.push(say("an answer to you").replying_to(ours));
    running
        .fake
        .push(say("an answer to her").replying_to(theirs));
    running.fake.push(say("/new").replying_to(theirs));
    let last = running.assistant.message(6).await.unwrap();
    let seen = running.assistant.seen();
    let arrived: Vec<_> = seen
        .arrived
        .iter()
        .map(|(m, arrival)| (m.content.as_str(), arrival.clone()))
        .collect();
    let named = format!("<@{BOT_ID}> for you");
    let expected = [
        ("not for you", in_server(&[], false)),
        (named.as_str(), in_server(&[], true)),
        ("between us", in_server(&[], false)),
        (
            "[Reply to bot: yes?]\nan answer to you",
            in_server(&[], true),
        ),
        (
            "[Reply to @ann: between us]\nan answer to her",
            in_server(&[], false),
        ),
        ("/new", in_server(&[], false)),
    ];
    assert_eq!(arrived, expected);
    assert_eq!(last.metadata["guild_id"], json!(GUILD.to_string()));
    assert_eq!(last.metadata["reply_to"], json!(theirs.to_string()));
    assert_eq!(
        last.session_key(),
        SessionKey::from(format!("discord:{room}").as_str())
    );
    running.stop().await;
}

#[tokio::test]
async fn thread_is_a_separate_session_of_its_channel() {
    let running = Running::start(json!({})).await;
    let room = CHANNELS[0];
    let thread = running.fake.start_thread(room);
    running
        .fake
        .push(Incoming::in_channel(thread, &ann(), "in the thread"));
    let inbound = running.assistant.message(1).await.unwrap();
    assert_eq!(
        inbound.session_key(),
        SessionKey::from(format!("discord:{room}:thread:{thread}").as_str())
    );
    assert_eq!(inbound.chat_id.as_str(), thread.to_string());
    assert_eq!(inbound.delivery.thread, Some(thread.to_string()));
    for (key, value) in [
        ("parent_channel_id", room),
        ("context_chat_id", thread),
        ("thread_id", thread),
    ] {
        assert_eq!(inbound.metadata[key], json!(value.to_string()), "{key}");
    }
    assert_eq!(
        running.assistant.seen().arrived[0].1,
        in_server(&[room], false)
    );
    running
        .channel
        .send(&reply(&inbound, "here"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(thread), ["here"]);
    running
        .fake
        .push(Incoming::in_channel(thread, &ann(), "more"));
    running
        .fake
        .push(Incoming::in_channel(room, &ann(), "outside"));
    running
        .fake
        .push(Incoming::in_channel(room, &ann(), "outside again"));
    running.assistant.message(4).await.unwrap();
    assert_eq!(
        running.fake.calls_of("getChannel").len(),
        2,
        "a channel is looked up once"
    );
    running.stop().await;
}

#[tokio::test]
async fn only_allowed_channels_and_their_threads_are_received() {
    let running = Running::start(json!({"allowChannels": [CHANNELS[0]]})).await;
    let thread = running.fake.start_thread(CHANNELS[0]);
    let other = running.fake.start_thread(CHANNELS[1]);
    for (channel, text) in [
        (CHANNELS[1], "no"),
        (other, "no"),
        (CHANNELS[0], "one"),
        (thread, "two"),
    ] {
        running
            .fake
            .push(Incoming::in_channel(channel, &ann(), text));
    }
    running.fake.push(Incoming::direct(&ann(), "three"));
    running.assistant.message(3).await.unwrap();
    let direct = running.fake.direct_channel(&ann());
    for (chat, text) in [(CHANNELS[0], "one"), (thread, "two"), (direct, "three")] {
        running.expect_texts(chat, &[text]).await;
    }
    assert_eq!(
        running.assistant.seen().asked.len(),
        3,
        "nobody is asked about the others"
    );
    running.stop().await;
}

#[tokio::test]
async fn bots_webhooks_and_system_messages_are_ignored() {
    let robot = Person::bot(9, "robot");
    for (allow_bots, expected) in [(false, vec!["end"]), (true, vec!["beep", "end"])] {
        let running = Running::start(json!({"allowBots": allow_bots})).await;
        let itself = Person {
            id: BOT_ID,
            name: "nanobot".to_owned(),
            is_bot: true,
        };
        running
            .fake
            .push(Incoming::in_channel(CHANNELS[0], &itself, "me"));
        running
            .fake
            .push(Incoming::in_channel(CHANNELS[0], &ann(), "hook").by_webhook());
        running
            .fake
            .push(Incoming::in_channel(CHANNELS[0], &ann(), "").with_field("type", json!(7)));
        running
            .fake
            .push(Incoming::in_channel(CHANNELS[0], &robot, "beep"));
        running
            .fake
            .push(Incoming::in_channel(CHANNELS[0], &ann(), "end"));
        running.assistant.message(expected.len()).await.unwrap();
        let texts: Vec<_> = running
            .assistant
            .seen()
            .arrived
            .into_iter()
            .map(|(message, _)| message.content)
            .collect();
        assert_eq!(texts, expected);
        running.stop().await;
    }
}

#[tokio::test]
async fn files_are_stored_and_named_in_the_text() {
    let running = Running::start(json!({})).await;
    let incoming = Incoming::direct(&ann(), "look")
        .with_file("cat.png", "image/png", "PNG")
        .with_file("notes.txt", "text/plain", "text")
        .with_file_of_declared_size("huge.bin", "", "small", 1001)
        .with_file_of_declared_size("liar.bin", "", vec![0; 1001], 5);
    running.fake.push(incoming);
    let message = running.assistant.message(1).await.unwrap();
    let expected = "look\n[attachment: /media/cat.png]\n[attachment: /media/notes.txt]\n\
                    [attachment: huge.bin - too large]\n[attachment: liar.bin - too large]";
    assert_eq!(message.content, expected);
    let image = MediaRef {
        location: "/media/cat.png".to_owned(),
        mime: Some("image/png".to_owned()),
    };
    assert_eq!(message.media, [image]);
    assert_eq!(running.fake.calls_of("download").len(), 3);
    running.fake.fail_next("download", Fault::Page(404));
    running
        .fake
        .push(Incoming::direct(&ann(), "").with_file("gone.txt", "text/plain", "x"));
    assert_eq!(
        running.assistant.message(2).await.unwrap().content,
        "[attachment: gone.txt - download failed]"
    );
    let elsewhere = json!([{
        "id": "5", "filename": "x", "size": 1, "url": "http://192.0.2.1/x", "proxy_url": "http://192.0.2.1/x",
    }]);
    running
        .fake
        .push(Incoming::direct(&ann(), "").with_field("attachments", elsewhere));
    assert_eq!(
        running.assistant.message(3).await.unwrap().content,
        "[attachment: x - download failed]"
    );
    running.stop().await;
}

#[tokio::test]
async fn voice_message_is_transcribed() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe("what Ann said");
    running.fake.push(
        Incoming::direct(&ann(), "")
            .with_file("voice.ogg", "audio/ogg", "OGG")
            .as_voice_message(),
    );
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.content, "[transcription: what Ann said]");
    assert_eq!(
        running.assistant.seen().recordings[0].location,
        "/media/voice.ogg"
    );
    running.assistant.will_transcribe(" \n");
    running.fake.push(
        Incoming::direct(&ann(), "")
            .with_file("silence.ogg", "audio/ogg", "OGG")
            .as_voice_message(),
    );
    let silence = running.assistant.message(2).await.unwrap();
    assert_eq!(
        silence.content, "[attachment: /media/silence.ogg]",
        "without words it stays a file"
    );
    running.stop().await;
}

#[tokio::test]
async fn non_text_content_is_described() {
    let running = Running::start(json!({})).await;
    running
        .fake
        .push(Incoming::direct(&ann(), "").forwarding("what he said"));
    let sticker = json!([{"id": "3", "name": "wave", "format_type": 1}]);
    running
        .fake
        .push(Incoming::direct(&ann(), "").with_field("sticker_items", sticker));
    running.fake.push(Incoming::direct(&ann(), ""));
    running
        .fake
        .push(Incoming::direct(&ann(), "plain").with_field("embeds", json!([{"type": 7}])));
    running
        .fake
        .push(Incoming::direct(&ann(), &format!("<@{BOT_ID}> /stop")));
    running.assistant.message(5).await.unwrap();
    let texts: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(message, _)| message.content)
        .collect();
    assert_eq!(
        texts,
        [
            "[forwarded: what he said]",
            "[sticker: wave]",
            "[empty message]",
            "plain",
            "/stop"
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn stranger_gets_the_pairing_text_only_in_direct_chats() {
    let running = Running::start(json!({})).await;
    running
        .assistant
        .will_pair_strangers("Pairing code: K7QX2M");
    running.fake.push(Incoming::in_channel(
        CHANNELS[0],
        &mallory(),
        &format!("<@{BOT_ID}> hi"),
    ));
    running
        .fake
        .push(Incoming::direct(&mallory(), "hi").with_file("x.png", "image/png", "PNG"));
    let sent = running.fake.wait_for_sent(1).await.unwrap();
    let theirs = running.fake.direct_channel(&mallory());
    assert_eq!(
        (sent[0].channel_id, sent[0].text.as_str()),
        (theirs, "Pairing code: K7QX2M")
    );
    running.hello().await;
    assert_eq!(running.fake.sent().len(), 1);
    assert_eq!(running.fake.calls_of("download"), []);
    running.stop().await;
}
