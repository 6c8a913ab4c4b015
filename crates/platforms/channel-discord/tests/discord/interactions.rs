//! Commands of the menu, and buttons.

use nanobot_channel::{Arrival, Button};
use nanobot_channel_discord_fake::CHANNELS;
use serde_json::json;

use crate::support::{Running, ann, in_server, mallory, reply, with};

#[tokio::test]
async fn command_menu_lists_the_assistants_commands() {
    let running = Running::start(json!({})).await;
    running.fake.wait_for_calls("setCommands", 1).await.unwrap();
    let commands = running.fake.commands();
    let shown: Vec<_> = commands
        .as_array()
        .unwrap()
        .iter()
        .map(|command| {
            (
                command["name"].clone(),
                command["description"].clone(),
                command["options"][0]["description"].clone(),
            )
        })
        .collect();
    let expected = [
        (json!("new"), json!("Begin anew"), json!(null)),
        (json!("model"), json!("Choose a model"), json!("[NAME]")),
    ];
    assert_eq!(shown, expected);
    running.stop().await;
    let running = Running::start(json!({"slashCommands": false})).await;
    running.hello().await;
    assert_eq!(running.fake.calls_of("setCommands"), []);
    running.stop().await;
}

#[tokio::test]
async fn command_gets_an_ephemeral_response_and_arrives_as_text() {
    let running = Running::start(json!({})).await;
    let thread = running.fake.start_thread(CHANNELS[0]);
    let direct = running.fake.direct_channel(&ann());
    let commands = [
        (direct, "new", None, "/new"),
        (CHANNELS[0], "model", Some("large one"), "/model large one"),
        (thread, "new", Some(" "), "/new"),
    ];
    for (number, (channel, name, arguments, text)) in (1..).zip(commands) {
        let used = running.fake.use_command(channel, &ann(), name, arguments);
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(
            (message.content.as_str(), message.chat_id.as_str()),
            (text, channel.to_string().as_str())
        );
        assert_eq!(
            message.id.clone().unwrap().as_str(),
            used.message_id.to_string()
        );
        let answers = running.fake.wait_for_answers(number).await.unwrap();
        let answer = answers.last().unwrap();
        assert_eq!((answer.kind, answer.is_private()), (4, true));
        running
            .channel
            .send(&reply(&message, &format!("done with {number}")))
            .await
            .unwrap();
        assert_eq!(
            running.fake.texts_in(channel),
            [format!("done with {number}")]
        );
    }
    let seen = running.assistant.seen();
    let arrivals: Vec<_> = seen
        .arrived
        .into_iter()
        .map(|(_, arrival)| arrival)
        .collect();
    assert_eq!(
        arrivals,
        [
            Arrival::direct(),
            in_server(&[], true),
            in_server(&[CHANNELS[0]], true)
        ]
    );
    running.stop().await;
}

#[tokio::test]
async fn command_is_acknowledged_while_messages_wait() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.assistant.hold(true);
    running
        .fake
        .push(nanobot_channel_discord_fake::Incoming::direct(
            &ann(),
            "slow",
        ));
    running.assistant.message(2).await.unwrap();
    running
        .fake
        .use_command(running.fake.direct_channel(&ann()), &ann(), "new", None);
    running.fake.wait_for_answers(1).await.unwrap();
    assert_eq!(running.assistant.seen().arrived.len(), 2);
    running.assistant.hold(false);
    assert_eq!(running.assistant.message(3).await.unwrap().content, "/new");
    running.stop().await;
}

#[tokio::test]
async fn strangers_command_gets_only_the_pairing_text() {
    let running = Running::start(json!({})).await;
    let theirs = running.fake.direct_channel(&mallory());
    running.fake.use_command(theirs, &mallory(), "new", None);
    running
        .fake
        .use_command(CHANNELS[0], &mallory(), "new", None);
    running.hello().await;
    running
        .assistant
        .will_pair_strangers("Pairing code: K7QX2M");
    running
        .fake
        .use_command(CHANNELS[0], &mallory(), "new", None);
    running.fake.use_command(theirs, &mallory(), "new", None);
    let answers = running.fake.wait_for_answers(1).await.unwrap();
    assert_eq!(answers[0].data["content"], json!("Pairing code: K7QX2M"));
    running
        .fake
        .push(nanobot_channel_discord_fake::Incoming::direct(
            &ann(),
            "bye",
        ));
    running.assistant.message(2).await.unwrap();
    assert_eq!(
        (running.fake.answers().len(), running.fake.sent()),
        (1, vec![])
    );
    running.stop().await;
}

#[tokio::test]
async fn button_press_sends_its_label_once() {
    let running = Running::start(json!({})).await;
    let inbound = running.hello().await;
    let question = with(reply(&inbound, "really?"), |message| {
        message.buttons = vec![vec![
            Button {
                label: "Yes".to_owned(),
            },
            Button {
                label: "No".to_owned(),
            },
        ]];
    });
    running.channel.send(&question).await.unwrap();
    let (chat, message) = (
        running.fake.sent()[0].channel_id,
        running.fake.sent()[0].message_id,
    );
    running.fake.press(chat, message, &mallory(), "No").unwrap();
    running.fake.press(chat, message, &ann(), "Yes").unwrap();
    assert_eq!(running.assistant.message(2).await.unwrap().content, "Yes");
    assert_eq!(running.fake.wait_for_answers(1).await.unwrap()[0].kind, 7);
    assert_eq!(running.fake.sent()[0].buttons, Vec::<Vec<String>>::new());
    assert_eq!(running.fake.press(chat, message, &ann(), "Yes"), None);
    running.stop().await;
}
