//! Strangers on every platform: the code, the approval, the notice.

use nanobot_testkit::ModelServer;

use super::{World, answer, answer_to, token};

/// The platform whose clients have a token of the owner instead of a code.
const WITHOUT_PAIRING: &str = "websocket";

#[tokio::test]
async fn stranger_is_paired_on_every_platform() {
    let model = ModelServer::answering(answer);
    let mut world = World::new(model.await.unwrap(), |channels| {
        for (name, section) in channels.as_object_mut().unwrap() {
            if name != WITHOUT_PAIRING {
                section.as_object_mut().unwrap().remove("allowFrom");
            }
        }
    })
    .await;
    let gateway = world.start().await;
    let mut chats = world.direct_chats();
    chats.retain(|place| place.platform != WITHOUT_PAIRING);
    for place in &chats {
        world.say(*place, "q-9999");
    }
    for (number, place) in chats.iter().enumerate() {
        let told = world.sees(*place, "I do not know you yet").await;
        let mut words = told.split_whitespace();
        let code = words.find(|word| word.len() == 9 && word.as_bytes()[4] == b'-');
        let approved = world
            .home
            .run(&["pairing", "approve", code.expect("a code")])
            .await;
        assert_eq!(approved.code, 0, "{}", approved.stderr);
        world.sees(*place, "You were let in").await;
        world.say(*place, &token(number));
        world.sees(*place, &answer_to(&token(number))).await;
    }
    world.end(gateway).await;
    let requests = world.model.requests();
    assert_eq!(requests.len(), chats.len(), "one request for each answer");
    for request in requests {
        assert!(!request.json.to_string().contains("q-9999"));
    }
}
