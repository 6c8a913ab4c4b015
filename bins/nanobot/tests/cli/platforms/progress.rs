//! Intermediate thoughts: shown where a platform can carry them, unless they are turned off.

use std::collections::BTreeSet;

use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use serde_json::json;

use super::{World, answer, answer_to, token};

const THOUGHT: &str = "let me look around";

/// The platforms that show thoughts by default, as `docs/channels/README.md` has it.
const SHOWING: [&str; 6] = [
    "telegram",
    "discord",
    "slack",
    "matrix",
    "feishu",
    "websocket",
];

async fn model() -> ModelServer {
    let model = ModelServer::answering(|request| {
        let messages = request.messages();
        if messages
            .last()
            .is_some_and(|message| message["role"] == "tool")
        {
            return answer(request);
        }
        let call = ScriptedCall::new("list_dir", &json!({"path": "."}));
        Reply::text(THOUGHT).and_calls([call])
    });
    model.await.unwrap()
}

/// Returns the platforms whose direct chats showed a thought.
async fn platforms_with_thoughts(send_progress: Option<bool>) -> BTreeSet<&'static str> {
    let mut world = World::new(model().await, |channels| {
        if let Some(send_progress) = send_progress {
            channels["sendProgress"] = send_progress.into();
        }
    })
    .await;
    let gateway = world.start().await;
    let chats = world.direct_chats();
    for (number, place) in chats.iter().enumerate() {
        world.say(*place, &token(number));
    }
    for (number, place) in chats.iter().enumerate() {
        world.sees(*place, &answer_to(&token(number))).await;
    }
    world.end(gateway).await;
    let is_showing = |text: &String| text.contains(THOUGHT);
    chats
        .into_iter()
        .filter(|place| world.shown(*place).iter().any(is_showing))
        .map(|place| place.platform)
        .collect()
}

#[tokio::test]
async fn thoughts_are_shown_where_they_can_be() {
    assert_eq!(platforms_with_thoughts(None).await, BTreeSet::from(SHOWING));
    // Homes of the Python program have this key with its default.
    assert_eq!(
        platforms_with_thoughts(Some(true)).await,
        BTreeSet::from(SHOWING)
    );
    assert_eq!(platforms_with_thoughts(Some(false)).await, BTreeSet::new());
}
