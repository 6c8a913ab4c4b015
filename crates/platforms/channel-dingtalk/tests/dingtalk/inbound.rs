//! Messages of people: groups, content of every type, quotations, files, strangers.

use nanobot_channel::{ChatKind, SessionKey};
use nanobot_channel_dingtalk_fake::{Fault, Incoming, Person};
use nanobot_testkit::Watched;
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory, part, room};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[tokio::test]
async fn groups_are_one_session_or_one_for_each_member() {
    for (isolation, session) in [
        (false, "dingtalk:group:cidRoom=="),
        (true, "dingtalk:group:cidRoom==:ann"),
    ] {
        let running = Running::start(json!({"groupUserIsolation": isolation})).await;
        running
            .fake
            .push(Incoming::to(ROOM, &ann(), "a question").mentioning_robot());
        let message = running.assistant.message(1).await.unwrap();
        assert_eq!(message.content, "a question");
        assert_eq!(message.chat_id.as_str(), room());
        assert_eq!(message.session_key(), SessionKey::from(session));
        running
            .channel
            .send(&part(&message, 0, "an answer"))
            .await
            .unwrap();
        assert_eq!(running.fake.texts_in(ROOM), ["an answer"]);
        // A private chat stays a session of its own.
        running.fake.push(Incoming::direct(&ann(), "in private"));
        let message = running.assistant.message(2).await.unwrap();
        assert_eq!(message.session_key(), SessionKey::from("dingtalk:ann"));
        running.stop().await;
    }
}

#[tokio::test]
async fn disabled_private_chats_are_answered_with_a_notice() {
    let running = Running::start(json!({"disablePrivateChat": true})).await;
    let pushed = running
        .push_and_wait(Incoming::direct(&ann(), "hello"))
        .await;
    running
        .push_and_wait(Incoming::direct(&mallory(), "hello"))
        .await;
    running.fake.repeat(&pushed);
    running
        .push_and_wait(Incoming::to(ROOM, &ann(), "hello").mentioning_robot())
        .await;
    let (message, arrival) = running.assistant.seen().arrived.pop().unwrap();
    assert_eq!(
        (message.content.as_str(), arrival.kind),
        ("hello", ChatKind::Group)
    );
    let notice = "Private chats are disabled for this assistant. Please mention it in a group.";
    assert_eq!(running.texts(), [notice]);
    assert_eq!(running.fake.texts_in(&ann().direct()), [notice]);
    running.stop().await;
}

#[tokio::test]
async fn person_from_outside_is_known_by_the_other_id() {
    let running = Running::start(json!({})).await;
    let ben = Person::external("ben", "Ben");
    running
        .fake
        .push(Incoming::to(ROOM, &ben, "from outside").mentioning_robot());
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.sender_id.as_str(), ben.sender_id);
    running
        .channel
        .send(&part(&message, 0, "welcome"))
        .await
        .unwrap();
    assert_eq!(running.fake.texts_in(ROOM), ["welcome"]);
    running.stop().await;
}

#[tokio::test]
async fn every_kind_of_content_arrives() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe(" transcribed ");
    let direct = |text: &str| Incoming::direct(&ann(), text);
    let items = json!([{"text": "see "}, {"text": "this", "type": "bold"}]);
    let table = [
        (direct(" trimmed \n"), "trimmed"),
        (
            direct("").with_picture("image/png", PNG),
            "[image: /media/image.jpg]",
        ),
        // A lie: what the model is shown depends on the stored bytes.
        (
            direct("").with_picture("image/png", "<html>"),
            "[image: /media/image.jpg]",
        ),
        (
            direct("").with_audio(Some("spoken"), 900, "#!AMR"),
            "[transcription: spoken]",
        ),
        (
            direct("").with_audio(None, 900, "#!AMR"),
            "[transcription: transcribed]",
        ),
        (
            direct("").with_video(3, "film"),
            "[video: /media/video.mp4]",
        ),
        (
            direct("").with_file("a.txt", "text/plain", "x"),
            "[file: /media/a.txt]",
        ),
        (direct("").with_rich_text(&items), "see **this**"),
        (
            direct("look").with_rich_picture("image/png", PNG),
            "look\n[image: /media/image.jpg]",
        ),
        (
            direct("").of_kind("unknownType", json!({"x": 1})),
            "[unknownType]",
        ),
        (direct(""), "[empty message]"),
    ];
    for (number, (incoming, text)) in (1..).zip(table) {
        running.push_and_wait(incoming).await;
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(message.content, text);
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
            direct("").with_picture("image/png", PNG),
            "[Reply to: [image: /media/image.jpg]]",
        ),
        (
            direct("").with_file("a.txt", "text/plain", "x"),
            "[Reply to: [file: /media/a.txt]]",
        ),
    ];
    for (number, (quoted, shown)) in (1..).zip(table) {
        let quoted = running.fake.push_silently(quoted).message_id;
        running.fake.push(direct("/what is this").quoting(&quoted));
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(message.content, format!("{shown}\n/what is this"));
    }
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_fetched_for_strangers() {
    let running = Running::start(json!({})).await;
    let file = || Incoming::direct(&mallory(), "").with_file("a.txt", "text/plain", "x");
    let quoted = running.fake.push_silently(file()).message_id;
    for incoming in [
        file(),
        Incoming::direct(&mallory(), "see").quoting(&quoted),
        Incoming::to(ROOM, &mallory(), "look")
            .with_rich_picture("image/png", PNG)
            .mentioning_robot(),
    ] {
        running.push_and_wait(incoming).await;
    }
    let calls = running.fake.calls().into_iter().map(|call| call.method);
    let other: Vec<_> = calls.filter(|method| method != "connection.open").collect();
    assert_eq!((other, running.fake.downloads()), (Vec::<String>::new(), 0));
    assert!(running.assistant.seen().arrived.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn failed_downloads_lose_no_message() {
    let running = Running::start(json!({})).await;
    let file = || Incoming::direct(&ann(), "").with_file("a.txt", "text/plain", "x");
    let picture = || Incoming::direct(&ann(), "").with_picture("image/png", PNG);
    let page = json!({"downloadUrl": "file:///etc/passwd"});
    let table = [
        ("file.url", Fault::error("downloadCode.invalid"), file()),
        ("file.url", Fault::Answer(200, page), file()),
        ("file.url", Fault::Answer(200, json!({})), file()),
        ("file.get", Fault::Status(403), file()),
        (
            "file.get",
            Fault::Redirect("http://127.0.0.1:9/".to_owned()),
            file(),
        ),
        ("file.get", Fault::Truncated, file()),
        // An error of the storage in place of the picture.
        ("file.get", Fault::WebPage, picture()),
    ];
    for (number, (method, fault, incoming)) in (1..).zip(table) {
        running.fake.fail_next(method, fault.clone());
        running.push_and_wait(incoming).await;
        let message = running.assistant.message(number).await.unwrap();
        let expected = if number == 7 {
            "[image: download failed]"
        } else {
            "[file: a.txt: download failed]"
        };
        assert_eq!(message.content, expected, "{fault:?}");
        assert!(message.media.is_empty());
    }
    running.stop().await;
}

#[tokio::test]
async fn private_addresses_are_refused_without_a_connection() {
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
    for (number, host) in (1..).zip(hosts) {
        let address = format!("http://{host}:{port}/x");
        let answer = Fault::Answer(200, json!({"downloadUrl": address}));
        running.fake.fail_next("file.url", answer);
        let file = Incoming::direct(&ann(), "").with_file("a.txt", "text/plain", "x");
        running.push_and_wait(file).await;
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(
            message.content, "[file: a.txt: download failed]",
            "{address}"
        );
    }
    assert_eq!(asked.read(|asked| *asked), 0);
    running.stop().await;
}
