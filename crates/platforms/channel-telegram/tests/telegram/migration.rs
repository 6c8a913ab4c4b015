//! Groups that become supergroups.

use nanobot_channel::InboundMessage;
use nanobot_channel_telegram_fake::Incoming;
use serde_json::json;

use crate::support::{GROUP, Running, ann, reply};

/// The group, before it became [`GROUP`].
const OLD: i64 = -42;

/// Sends a message from Ann, and returns it as it arrived.
async fn push_and_wait(running: &Running, chat: i64, text: &str) -> InboundMessage {
    let before = running.assistant.seen().arrived.len();
    running.fake.push(Incoming::group(chat, &ann(), text));
    running.assistant.message(before + 1).await.unwrap()
}

/// Returns the chat and the text of each message that the bot sent.
fn sent_chats(running: &Running) -> Vec<(i64, String)> {
    running
        .fake
        .sent()
        .into_iter()
        .map(|sent| (sent.chat_id, sent.text))
        .collect()
}

#[tokio::test]
async fn migrated_group_keeps_its_session() {
    let running = Running::start(json!({"replyToMessage": true})).await;
    let before = push_and_wait(&running, OLD, "before").await;
    assert_eq!(before.session_key(), "telegram:-42".into());
    running.fake.migrate(OLD, GROUP);
    running.fake.push_raw(
        "message",
        json!({
            "message_id": 2, "date": 1, "migrate_to_chat_id": GROUP, "chat": {"id": OLD, "type": "group", "title": "G"},
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        }),
    );
    let group = json!({"id": GROUP, "type": "supergroup", "title": "G"});
    running.fake.push_raw(
        "message",
        json!({
            "message_id": 1, "date": 1, "migrate_from_chat_id": OLD, "chat": group, "sender_chat": group,
            "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot"},
        }),
    );
    let after = push_and_wait(&running, GROUP, "after").await;
    assert_eq!(
        (after.content.as_str(), after.session_key()),
        ("after", "telegram:-42".into()),
        "no move is a message"
    );
    assert_eq!(after.chat_id, GROUP.to_string().as_str().into());
    let arrival = running.assistant.seen().arrived.pop().unwrap().1;
    assert_eq!(arrival.parents, ["-42".into()], "rules for the old id hold");
    running.channel.send(&reply(&before, "late")).await.unwrap();
    running
        .channel
        .send(&reply(&after, "in time"))
        .await
        .unwrap();
    assert_eq!(
        sent_chats(&running),
        [(GROUP, "late".to_owned()), (GROUP, "in time".to_owned())]
    );
    let quoted: Vec<_> = running
        .fake
        .calls_of("sendMessage")
        .iter()
        .map(|call| call.params["reply_parameters"].clone())
        .collect();
    assert_eq!(quoted[0], json!(null), "what is quoted is not there");
    assert_ne!(quoted[1], json!(null));
    let running = running.restart(&json!({})).await;
    assert_eq!(
        push_and_wait(&running, GROUP, "later").await.session_key(),
        "telegram:-42".into()
    );
    running
        .channel
        .send(&reply(&before, "very late"))
        .await
        .unwrap();
    assert_eq!(
        running.fake.calls_of("sendMessage").len(),
        3,
        "nothing is sent to where nobody is"
    );
    running
        .fake
        .push(Incoming::group(GROUP, &ann(), "in a topic").in_topic(5));
    let topic = running.assistant.message(4).await.unwrap();
    assert_eq!(
        topic.session_key(),
        format!("telegram:{GROUP}:topic:5").into()
    );
    running.stop().await;
}

#[tokio::test]
async fn migration_learned_by_sending_is_stored() {
    let running = Running::start(json!({})).await;
    let before = push_and_wait(&running, OLD, "before").await;
    running.fake.migrate(OLD, GROUP);
    running
        .channel
        .send(&reply(&before, "an answer"))
        .await
        .unwrap();
    let running = running.restart(&json!({})).await;
    assert_eq!(
        push_and_wait(&running, GROUP, "after").await.session_key(),
        "telegram:-42".into()
    );
    running
        .channel
        .send(&reply(&before, "another"))
        .await
        .unwrap();
    assert_eq!(
        sent_chats(&running),
        [
            (GROUP, "an answer".to_owned()),
            (GROUP, "another".to_owned())
        ]
    );
    assert_eq!(running.fake.calls_of("sendMessage").len(), 3);
    running.stop().await;
}
