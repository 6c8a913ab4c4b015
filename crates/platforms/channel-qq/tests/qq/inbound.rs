//! Messages of people: chats of every kind, content, quotations, files, strangers.

use std::sync::Arc;

use nanobot_channel::{ChatKind, DeliveryContext, SessionKey};
use nanobot_channel_qq_fake::{ChatKind as Place, Fault, Incoming};
use nanobot_testkit::http::{Response, Server};
use nanobot_testkit::log::Log;
use nanobot_testkit::{Assistant, Watched};
use serde_json::json;

use crate::support::{ROOM, Running, ann, fake, mallory, reply, with};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[tokio::test]
async fn sessions_have_the_ids_of_older_ones() {
    let running = Running::start(json!({})).await;
    running.fake.deliver_group_messages(true);
    let person = ann();
    let table = [
        (
            Incoming::direct(&person, "in private"),
            (
                person.openid.clone(),
                person.openid.clone(),
                ChatKind::Direct,
                true,
            ),
        ),
        (
            Incoming::to_group(ROOM, &person, "a question").mentioning_bot(),
            (
                ROOM.to_owned(),
                person.member_openid.clone(),
                ChatKind::Group,
                true,
            ),
        ),
        (
            Incoming::to_group(ROOM, &person, "overheard"),
            (
                ROOM.to_owned(),
                person.member_openid.clone(),
                ChatKind::Group,
                false,
            ),
        ),
        (
            Incoming::guild_direct(&person, "from a guild"),
            (
                person.user_id.clone(),
                person.user_id.clone(),
                ChatKind::Direct,
                true,
            ),
        ),
    ];
    for (count, (incoming, (chat, sender, kind, is_addressed))) in (1..).zip(table) {
        running.fake.push(incoming);
        let message = running.assistant.message(count).await.unwrap();
        let (_, arrival) = running.assistant.seen().arrived.pop().unwrap();
        assert_eq!(
            message.session_key(),
            SessionKey::from(format!("qq:{chat}"))
        );
        assert_eq!(message.sender_id.as_str(), sender);
        assert_eq!((arrival.kind, arrival.addressed), (kind, is_addressed));
    }
    running.stop().await;
}

#[tokio::test]
async fn every_kind_of_content_arrives() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe(" transcribed ");
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let spoken =
        json!([{"content_type": "voice", "url": "//x.test/a", "asr_refer_text": "spoken"}]);
    let quoted = json!([{"content": "/new", "author": {"username": "Ben"}}]);
    let table = [
        (direct(" trimmed \n"), "trimmed"),
        (
            direct("hi <faceType=4,faceId=\"\",ext=\"eyJ0ZXh0IjoiW+a7oeWktOmXruWPt10ifQ==\">"),
            "hi [face: 满头问号]",
        ),
        (direct("a &lt;b&gt; &amp;amp;"), "a <b> &amp;"),
        (
            direct("").with_file("cat.png", "image/png", PNG),
            "[image: /media/cat.png]",
        ),
        (
            direct("look").with_file("a.png", "image/png", PNG),
            "look\n[image: /media/a.png]",
        ),
        // A lie: what the model is shown depends on the stored bytes.
        (
            direct("").with_file("a.png", "image/png", "<html>"),
            "[image: /media/a.png]",
        ),
        (
            direct("").with_file("talk.amr", "voice", "#!AMR"),
            "[transcription: transcribed]",
        ),
        (
            direct("").with_member("attachments", spoken),
            "[transcription: spoken]",
        ),
        (
            direct("").with_file("film.mp4", "video/mp4", "film"),
            "[video: /media/film.mp4]",
        ),
        (
            direct("").with_file("a.txt", "file", "x"),
            "[file: /media/a.txt]",
        ),
        (
            direct("why?").with_member("msg_elements", quoted),
            "[Reply to Ben: /new]\nwhy?",
        ),
        (
            direct("").with_member("ark_data", json!({"prompt": "a map"})),
            "[card: a map]",
        ),
        (direct(""), "[empty message]"),
    ];
    for (count, (incoming, expected)) in (1..).zip(table) {
        running.fake.push(incoming);
        let message = running.assistant.message(count).await.unwrap();
        assert_eq!(message.content, expected);
    }
    running.stop().await;
}

#[tokio::test]
async fn broken_and_foreign_downloads_are_marked() {
    let running = Running::start(json!({})).await;
    let elsewhere = |url: &str| {
        let file = json!([{"content_type": "file", "filename": "a]b", "url": url}]);
        Incoming::direct(&ann(), "").with_member("attachments", file)
    };
    let picture = || Incoming::direct(&ann(), "").with_file("a.png", "image/png", PNG);
    let table = [
        (
            picture(),
            Some(Fault::Status(404)),
            "[image: download failed]",
        ),
        (
            picture(),
            Some(Fault::Truncated),
            "[image: download failed]",
        ),
        (
            picture(),
            Some(Fault::Redirect("http://127.0.0.1:9/".to_owned())),
            "[image: download failed]",
        ),
        (
            elsewhere("file:///etc/passwd"),
            None,
            "[file: a b: download failed]",
        ),
    ];
    for (count, (incoming, fault, expected)) in (1..).zip(table) {
        if let Some(fault) = fault {
            running.fake.fail_next("file.get", fault);
        }
        running.fake.push(incoming);
        let message = running.assistant.message(count).await.unwrap();
        assert_eq!(message.content, expected);
    }
    running.stop().await;
}

#[tokio::test]
async fn private_addresses_are_refused_without_a_connection() {
    let log = Log::capture().unwrap();
    let running = Running::start(json!({})).await;
    let asked = Watched::new(0);
    let counted = asked.clone();
    let private = Server::start(move |_| {
        counted.change(|asked| *asked += 1);
        async { Response::bytes(200, "text/plain", "secret") }
    });
    let private = private.await.unwrap();
    let port = private.address().port();
    let hosts = ["127.0.0.1", "localhost", "0x7f000001", "[::ffff:7f00:1]"];
    let addresses = hosts.map(|host| format!("http://{host}:{port}/x"));
    let addresses = addresses
        .into_iter()
        .chain(["http://10.20.30.40/x".to_owned()]);
    for (count, address) in (1..).zip(addresses) {
        let file = json!([{"content_type": "file", "filename": "a", "url": address}]);
        let incoming = Incoming::direct(&ann(), "").with_member("attachments", file);
        running.fake.push(incoming);
        let message = running.assistant.message(count).await.unwrap();
        assert_eq!(message.content, "[file: a: download failed]", "{address}");
    }
    assert_eq!(asked.read(|asked| *asked), 0);
    let text = log.text();
    let warnings = text.lines().filter(|line| line.contains("10.20.30.40"));
    let warnings: Vec<_> = warnings.filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    running.stop().await;
}

#[tokio::test]
async fn strangers_cause_nothing() {
    let running = Running::start(json!({"ackMessage": "⏳"})).await;
    let file = Incoming::direct(&mallory(), "/new").with_file("a.png", "image/png", PNG);
    running.push_and_wait(file).await;
    let in_room = Incoming::to_group(ROOM, &mallory(), "hello").mentioning_bot();
    running.push_and_wait(in_room).await;
    assert_eq!(
        (running.fake.downloads(), running.fake.sent().len()),
        (0, 0)
    );
    // With pairing, a notice in reply to the message, in private only.
    running.assistant.will_pair_strangers("who are you?");
    let pushed = running
        .push_and_wait(Incoming::direct(&mallory(), "hello"))
        .await;
    let in_room = Incoming::to_group(ROOM, &mallory(), "hello").mentioning_bot();
    running.push_and_wait(in_room).await;
    let sent = running.fake.sent();
    let replies: Vec<_> = sent
        .iter()
        .map(|sent| (sent.text.as_str(), sent.msg_id.as_deref()))
        .collect();
    assert_eq!(
        replies,
        [("who are you?", Some(pushed.message_id.as_str()))]
    );
    assert!(running.arrived().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn later_notice_reaches_a_stranger_of_a_guild() {
    let assistant = Arc::new(Assistant::new(mallory().user_id));
    let running = Running::with(fake().await, &json!({}), assistant);
    running.fake.wait_for_ready(1).await.unwrap();
    running.assistant.will_pair_strangers("who are you?");
    let hello = Incoming::guild_direct(&mallory(), "hello");
    running.push_and_wait(hello).await;
    let known = running.hello().await;
    // The notice of the approval has the id of the chat, and nothing else.
    let approved = with(reply(&known, "approved"), |message| {
        message.chat_id = mallory().user_id.as_str().into();
        message.delivery = DeliveryContext::default();
    });
    running.channel.send(&approved).await.unwrap();
    let sent = running.fake.sent();
    let places: Vec<_> = sent
        .iter()
        .map(|sent| (sent.text.as_str(), sent.chat_kind, sent.chat_id.as_str()))
        .collect();
    let guild = mallory().dms();
    let expected = ["who are you?", "approved"].map(|text| (text, Place::Dms, guild.as_str()));
    assert_eq!(places, expected);
    running.stop().await;
}

#[tokio::test]
async fn repeated_message_is_recognised() {
    let running = Running::start(json!({})).await;
    let pushed = running
        .push_and_wait(Incoming::direct(&ann(), "once"))
        .await;
    running.fake.repeat(&pushed);
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    running
        .push_and_wait(Incoming::direct(&ann(), "next"))
        .await;
    assert_eq!(running.arrived(), ["once", "next"]);
    running.stop().await;
}
