//! Inbound messages, files, button presses and slash commands.

use nanobot_channel::{
    Admission, Arrival, Button, DeliveryContext, InboundMessage, MediaRef, MessageId, OutboundKey,
    OutboundKind, OutboundMessage, SessionKey,
};
use nanobot_channel_slack_fake::{BOT_USER, Fault, Incoming, Person};
use serde_json::json;

use crate::support::{ROOM, Running, ann, mallory, reply, with};

/// Returns the fields of a message other than its time and metadata.
fn essence(message: &InboundMessage) -> (&str, SessionKey, Option<&str>, Option<&MessageId>) {
    let DeliveryContext {
        thread, reply_to, ..
    } = &message.delivery;
    (
        &message.content,
        message.session_key(),
        thread.as_deref(),
        reply_to.as_ref(),
    )
}

#[tokio::test]
async fn mention_becomes_one_message_in_its_own_thread() {
    let running = Running::start(json!({})).await;
    let text = format!("<@{BOT_USER}> is 1 &lt; 2, <https://x.test/a|see>?");
    let pushed = running.fake.push(Incoming::to(ROOM, &ann(), &text));
    let message = running.assistant.message(1).await.unwrap();
    running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    let ts = pushed.ts.as_str();
    let id = MessageId::from(ts);
    let key = SessionKey::from(format!("slack:{ROOM}:{ts}"));
    assert_eq!(
        essence(&message),
        (
            "is 1 < 2, [see](https://x.test/a)?",
            key,
            Some(ts),
            Some(&id)
        )
    );
    let event = json!({"type": "app_mention", "user": "U0ANN", "channel": ROOM, "ts": ts, "thread_ts": null, "text": text});
    let metadata = json!({"slack": {"event": event, "thread_ts": ts, "channel_type": "channel"}});
    assert_eq!(
        (message.id.as_ref(), json!(message.metadata)),
        (Some(&id), metadata)
    );
    let seen = running.assistant.seen();
    assert_eq!(
        (seen.arrived.len(), seen.asked.len(), &seen.arrived[0].1),
        (1, 1, &Arrival::group(true))
    );
    running
        .fake
        .wait_for_reactions(ROOM, ts, &["eyes"])
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn threads_are_sessions_and_replies_to_the_bot_address_it() {
    let running = Running::start(json!({"replyInThread": false})).await;
    let direct = running.hello().await;
    let chat = ann().direct();
    let root = direct.id.clone().unwrap();
    assert_eq!(
        essence(&direct),
        (
            "hello",
            SessionKey::from(format!("slack:{chat}")),
            None,
            Some(&root)
        )
    );
    running
        .fake
        .push(Incoming::direct(&ann(), "on that").in_thread(root.as_str()));
    let threaded = running.assistant.message(2).await.unwrap();
    assert_eq!(
        threaded.session_key(),
        SessionKey::from(format!("slack:{chat}:{root}"))
    );
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "nobody in particular"));
    let message = running.assistant.message(3).await.unwrap();
    assert_eq!(
        (message.session_key(), message.delivery.thread.clone()),
        (SessionKey::from(format!("slack:{ROOM}")), None)
    );
    let said = running
        .channel
        .send(&reply(&message, "did you know?"))
        .await
        .unwrap()
        .message_id
        .unwrap();
    running
        .fake
        .push(Incoming::to(ROOM, &ann(), "no").in_thread(said.as_str()));
    running.assistant.message(4).await.unwrap();
    let arrivals: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(_, arrival)| arrival)
        .collect();
    assert_eq!(
        arrivals,
        [
            Arrival::direct(),
            Arrival::direct(),
            Arrival::group(false),
            Arrival::group(true)
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn thread_context_is_added_once() {
    let running = Running::start(json!({"threadContextLimit": 2})).await;
    let say = |person: &Person, text: &str, thread: Option<&str>| {
        let incoming = Incoming::to(ROOM, person, text);
        running
            .fake
            .push(thread.into_iter().fold(incoming, Incoming::in_thread))
            .ts
    };
    let root = say(&mallory(), "too old", None);
    say(&mallory(), "it broke", Some(&root));
    say(&mallory(), "&lt;again&gt;", Some(&root));
    say(&ann(), &format!("<@{BOT_USER}> why?"), Some(&root));
    let context = "[Earlier in this thread:\n<@U0MALLORY>: it broke\n<@U0MALLORY>: <again>]\nwhy?";
    assert_eq!(running.assistant.message(1).await.unwrap().content, context);
    say(&ann(), "and now?", Some(&root));
    assert_eq!(
        running.assistant.message(2).await.unwrap().content,
        "and now?"
    );
    let own = say(&ann(), "a thread of mine", None);
    running.assistant.message(3).await.unwrap();
    say(&ann(), "goes on", Some(&own));
    assert_eq!(
        running.assistant.message(4).await.unwrap().content,
        "goes on"
    );
    // A thread that cannot be fetched keeps nothing back.
    let other = say(&mallory(), "lost", None);
    running
        .fake
        .fail_next("conversations.replies", Fault::error("missing_scope"));
    say(&ann(), "hm", Some(&other));
    assert_eq!(running.assistant.message(5).await.unwrap().content, "hm");
    assert_eq!(running.fake.calls_of("conversations.replies").len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn thread_context_is_not_repeated_after_a_restart() {
    let running = Running::start(json!({})).await;
    let root = running
        .fake
        .push(Incoming::to(ROOM, &mallory(), "it broke"))
        .ts;
    let ask = |text: &str| Incoming::to(ROOM, &ann(), text).in_thread(&root);
    // What cannot be stored comes again, and all of it.
    running.assistant.will_answer([Admission::ShuttingDown]);
    let question = running.fake.push(ask("why?"));
    let context = "[Earlier in this thread:\n<@U0MALLORY>: it broke]\nwhy?";
    assert_eq!(running.assistant.message(1).await.unwrap().content, context);
    let running = running.restart(&json!({}), |_| {}).await;
    assert_eq!(running.assistant.message(2).await.unwrap().content, context);
    running.fake.wait_for_acknowledged(&question).await.unwrap();
    let running = running.restart(&json!({}), |_| {}).await;
    running.push_and_wait(ask("and now?")).await;
    assert_eq!(
        running.assistant.message(3).await.unwrap().content,
        "and now?"
    );
    running.stop().await;
}

#[tokio::test]
async fn slash_commands_arrive_as_commands() {
    let running = Running::start(json!({})).await;
    let table = [
        ("/new", "", "/new"),
        ("/nanobot", "model gpt", "/model gpt"),
        ("/nanobot", "how are you?", "how are you?"),
        ("/nanobot", "", "/help"),
    ];
    for (count, (command, text, content)) in (1..).zip(table) {
        let pushed = running.fake.slash(ROOM, &ann(), command, text);
        let message = running.assistant.message(count).await.unwrap();
        assert_eq!(
            essence(&message),
            (
                content,
                SessionKey::from(format!("slack:{ROOM}")),
                None,
                None
            )
        );
        assert_eq!(message.id, Some(MessageId::from(pushed.ts.as_str())));
        running.fake.wait_for_acknowledged(&pushed).await.unwrap();
    }
    running.fake.slash(&ann().direct(), &ann(), "/reset", "");
    running.assistant.message(5).await.unwrap();
    let arrivals: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .map(|(_, arrival)| arrival)
        .skip(3)
        .collect();
    assert_eq!(arrivals, [Arrival::group(true), Arrival::direct()]);
    running.stop().await;
}

#[tokio::test]
async fn button_press_is_a_message_and_works_once() {
    let running = Running::start(json!({})).await;
    running.fake.push(Incoming::to(
        ROOM,
        &ann(),
        &format!("<@{BOT_USER}> delete it"),
    ));
    let inbound = running.assistant.message(1).await.unwrap();
    let rows = vec![vec![
        Button {
            label: "Yes & no".to_owned(),
        },
        Button {
            label: "No".to_owned(),
        },
    ]];
    let question = with(reply(&inbound, "*really?*"), |message| {
        message.buttons = rows;
    });
    let asked = running
        .channel
        .send(&question)
        .await
        .unwrap()
        .message_id
        .unwrap();
    assert_eq!(
        running.fake.press(ROOM, asked.as_str(), &ann(), "Maybe"),
        None
    );
    // A stranger's press does nothing.
    let stranger = running
        .fake
        .press(ROOM, asked.as_str(), &mallory(), "No")
        .unwrap();
    running.fake.wait_for_acknowledged(&stranger).await.unwrap();
    let pressed = running
        .fake
        .press(ROOM, asked.as_str(), &ann(), "Yes & no")
        .unwrap();
    let message = running.assistant.message(2).await.unwrap();
    assert_eq!(
        essence(&message),
        (
            "Yes & no",
            inbound.session_key(),
            inbound.delivery.thread.as_deref(),
            None
        )
    );
    assert_eq!(
        (message.id, message.sender_id),
        (Some(MessageId::from(pressed.ts.as_str())), "U0ANN".into())
    );
    let blocks = json!([
        {"type": "section", "text": {"type": "mrkdwn", "text": "*really?*"}},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": ":heavy_check_mark: Yes &amp; no"}]},
    ]);
    let is_shown =
        |sent: &[nanobot_channel_slack_fake::SentMessage]| (sent[0].blocks == blocks).then_some(());
    running.fake.wait_for("the choice", is_shown).await.unwrap();
    assert_eq!(running.fake.press(ROOM, asked.as_str(), &ann(), "No"), None);
    running.stop().await;
}

#[tokio::test]
async fn recording_without_words_stays_a_file() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe(" ");
    running
        .fake
        .push(Incoming::direct(&ann(), "hear").with_file("talk.m4a", "audio/mp4", "M4A"));
    let message = running.assistant.message(1).await.unwrap();
    assert!(
        message.content.contains("/media/talk.m4a]"),
        "{}",
        message.content
    );
    assert!(
        !message.content.contains("transcription"),
        "{}",
        message.content
    );
    running.stop().await;
}

#[tokio::test]
async fn files_are_fetched_only_from_slack() {
    let running = Running::start(json!({})).await;
    running.assistant.will_transcribe("words of Ann");
    running.fake.push(
        Incoming::direct(&ann(), "see")
            .with_file("a b.png", "image/png", "PNG")
            .with_file("talk.m4a", "audio/mp4", "M4A")
            .with_file("page.html", "text/html", "<html>mine</html>"),
    );
    let message = running.assistant.message(1).await.unwrap();
    let content =
        "see\n[image: /media/a b.png]\n[transcription: words of Ann]\n[file: /media/page.html]";
    let image = MediaRef {
        location: "/media/a b.png".to_owned(),
        mime: Some("image/png".to_owned()),
    };
    assert_eq!(
        (message.content.as_str(), message.media),
        (content, vec![image])
    );
    assert_eq!(
        running.assistant.seen().recordings[0].location,
        "/media/talk.m4a"
    );
    // The scope `files:read` is missing, a redirect leads elsewhere, the size is a lie.
    for fault in [
        Fault::WebPage,
        Fault::Redirect("http://127.0.0.1:9/steal".to_owned()),
    ] {
        running.fake.fail_next("download", fault);
        running
            .fake
            .push(Incoming::direct(&ann(), "").with_file("b.txt", "text/plain", "text"));
    }
    let large = Incoming::direct(&ann(), "")
        .with_file("c.txt", "text/plain", vec![7; 2000])
        .lying_about_size(1);
    running.fake.push(large);
    let mut external =
        json!({"type": "message", "channel_type": "im", "subtype": "file_share", "user": "U0ANN"});
    external["channel"] = json!(ann().direct());
    external["ts"] = json!("1900000000.000001");
    external["files"] = json!([
        {"id": "F1", "name": "d.txt", "is_external": true, "url_private": "http://127.0.0.1:9/doc"}, {"id": 7},
    ]);
    running.fake.push_event(&external);
    running.assistant.message(5).await.unwrap();
    let contents: Vec<_> = running
        .assistant
        .seen()
        .arrived
        .into_iter()
        .skip(1)
        .map(|(message, _)| message.content)
        .collect();
    let failed = |name: &str| format!("[file: {name}: download failed]");
    let expected = ["b.txt", "b.txt", "c.txt"]
        .map(failed)
        .into_iter()
        .chain([failed("d.txt") + "\n" + &failed("file")]);
    assert_eq!(contents, expected.collect::<Vec<_>>());
    assert_eq!(running.assistant.seen().kept.len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn turn_end_updates_reactions_of_the_conversation() {
    let running = Running::start(json!({"doneEmoji": "ok"})).await;
    let first = running.hello().await;
    running.fake.push(Incoming::direct(&ann(), "and more"));
    let second = running.assistant.message(2).await.unwrap();
    let chat = ann().direct();
    let ids = [first, second.clone()].map(|message| message.id.unwrap().to_string());
    for id in &ids {
        running
            .fake
            .wait_for_reactions(&chat, id, &["eyes"])
            .await
            .unwrap();
    }
    let key = OutboundKey {
        turn: "turn".into(),
        position: 9,
    };
    let end = OutboundMessage::in_reply_to(
        &second,
        key,
        OutboundKind::TurnEnd { unfinished: 0 },
        String::new(),
    );
    running
        .channel
        .turn_ends()
        .unwrap()
        .ended(&end)
        .await
        .unwrap();
    for id in &ids {
        assert_eq!(running.fake.reactions(&chat, id), ["ok"]);
    }
    // After a restart only the message that was answered is known; doing it again does no harm.
    running
        .channel
        .turn_ends()
        .unwrap()
        .ended(&end)
        .await
        .unwrap();
    assert_eq!(running.fake.reactions(&chat, &ids[1]), ["ok"]);
    running.stop().await;
    let quiet = Running::start(json!({"reactEmoji": "", "doneEmoji": ""})).await;
    quiet.hello().await;
    assert!(quiet.channel.turn_ends().is_none());
    quiet.stop().await;
}
