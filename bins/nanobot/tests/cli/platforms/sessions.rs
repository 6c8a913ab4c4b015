//! Sessions that the Python program began on each platform.

use std::collections::BTreeSet;

use nanobot_chat_fakes::PLATFORMS;
use nanobot_testkit::ModelServer;

use super::{World, answer, answer_to, token};

/// Chats of the fakes: the platform, its name of the chat there, and the Python program's key of
/// the session. Chats in which every mention begins a thread are not among them.
const CHATS: [(&str, &str, &str); 22] = [
    ("telegram", "7", "telegram:7"),
    ("telegram", "8", "telegram:8"),
    ("telegram", "-1001234567890", "telegram:-1001234567890"),
    ("discord", "direct", "discord:1000000007"),
    ("discord", "room", "discord:700000000000000001"),
    ("slack", "direct", "slack:D0ANN"),
    ("matrix", "direct", "matrix:!direct-ann:fake.test"),
    ("matrix", "!room:fake.test", "matrix:!room:fake.test"),
    ("feishu", "direct", "feishu:ou_ann"),
    ("dingtalk", "direct", "dingtalk:ann"),
    ("dingtalk", "cidGroup==", "dingtalk:group:cidGroup=="),
    ("qq", "direct", "qq:00000000000000000000000000616E6E"),
    (
        "qq",
        "0123456789ABCDEF0123456789ABCDEF",
        "qq:0123456789ABCDEF0123456789ABCDEF",
    ),
    ("wecom", "direct", "wecom:ann"),
    ("wecom", "wrGroup", "wecom:wrGroup"),
    ("mochat", "direct", "mochat:session_ann"),
    ("mochat", "panel1", "mochat:panel1"),
    (
        "whatsapp",
        "direct",
        "whatsapp:4915112345678@s.whatsapp.net",
    ),
    (
        "whatsapp",
        "120363041234567890@g.us",
        "whatsapp:120363041234567890@g.us",
    ),
    ("email", "ann@people.test", "email:ann@people.test"),
    ("email", "bob@people.test", "email:bob@people.test"),
    ("websocket", "room-0", "websocket:room-0"),
];

/// Returns the file of a session, as the Python program names it.
pub(super) fn file_of(key: &str) -> String {
    format!("workspace/sessions/{}.jsonl", key.replace(':', "_"))
}

/// Returns what the Python program wrote of a session.
pub(super) fn old_session(key: &str) -> String {
    format!(
        concat!(
            r#"{{"_type": "metadata", "key": "{key}", "created_at": "2026-03-01T10:00:00.000000", "updated_at": "2026-03-01T10:00:05.000000", "metadata": {{}}, "last_consolidated": 0}}"#,
            "\n",
            r#"{{"role": "user", "content": "my cat of {key} is Mimi", "timestamp": "2026-03-01T10:00:02.000000"}}"#,
            "\n",
            r#"{{"role": "assistant", "content": "Noted.", "timestamp": "2026-03-01T10:00:03.000000"}}"#,
            "\n",
        ),
        key = key
    )
}

#[tokio::test]
async fn chats_of_every_platform_continue_their_sessions() {
    let model = ModelServer::answering(answer);
    let mut world = World::new(model.await.unwrap(), |_| {}).await;
    for (_, _, key) in CHATS {
        world.home.write(&file_of(key), &old_session(key));
    }
    let gateway = world.start().await;
    for (number, (platform, chat, _)) in CHATS.into_iter().enumerate() {
        let (place, token) = (world.place(platform, chat), token(number));
        world.say(place, &token);
        world.sees(place, &answer_to(&token)).await;
    }
    world.end(gateway).await;
    for (number, (_, _, key)) in CHATS.into_iter().enumerate() {
        let token = token(number);
        let mut requests = world.model.requests().into_iter();
        let request = requests.find(|request| request.last_user_text().contains(&token));
        let request = request.unwrap().json.to_string();
        let said = format!("my cat of {key} is Mimi");
        assert!(request.contains(&said), "{key}: {request}");
        let text = world.home.read(&file_of(key));
        let added = text.strip_prefix(&old_session(key));
        let added = added.expect("the old content is unchanged, byte for byte");
        assert!(added.contains(&token), "{key}: {added}");
    }
    let sessions = world.home.names("workspace/sessions");
    assert_eq!(sessions.len(), CHATS.len(), "{sessions:?}");
    let platforms: BTreeSet<_> = CHATS.iter().map(|(platform, ..)| *platform).collect();
    assert_eq!(platforms, BTreeSet::from(PLATFORMS));
}
