//! Catch-up: messages that were posted while there was no session.

use nanobot_channel::{Admission, Notes as _};
use nanobot_channel_discord_fake::{CHANNELS, DiscordFake, Fault, Incoming, Order, Person};
use serde_json::json;

use crate::support::{Program, Running, ann, in_server, mallory};

#[tokio::test]
async fn messages_between_runs_are_fetched_in_order_and_once() {
    let room = CHANNELS[0];
    let program = Program::first(&json!({})).await;
    let thread = program.fake.start_thread(room);
    let before = [
        Incoming::direct(&ann(), "direct"),
        Incoming::in_channel(room, &ann(), "in the room"),
        Incoming::in_channel(thread, &ann(), "in the thread"),
    ];
    for incoming in before {
        program.fake.push(incoming);
    }
    program.assistant.message(3).await.unwrap();
    assert_eq!(
        program.fake.calls_of("getMessages"),
        [],
        "the first start fetches nothing"
    );
    let (fake, assistant) = program.stop().await;
    let away = [
        Incoming::direct(&ann(), "1").with_file("cat.png", "image/png", "PNG"),
        Incoming::in_channel(room, &ann(), "2"),
        Incoming::in_channel(thread, &ann(), "3"),
        Incoming::in_channel(room, &mallory(), "let me in"),
        Incoming::direct(&ann(), "4"),
        // Nobody talked to the assistant there before.
        Incoming::in_channel(CHANNELS[1], &ann(), "elsewhere"),
    ];
    for incoming in away {
        fake.push(incoming);
    }
    let program = Program::start(fake, assistant, &json!({})).await;
    program.fake.push(Incoming::direct(&ann(), "live"));
    program.assistant.message(8).await.unwrap();
    let seen = program.assistant.seen();
    let direct = program.fake.direct_channel(&ann());
    let cat = "1\n[attachment: /media/cat.png]";
    program
        .expect_texts(direct, &["direct", cat, "4", "live"])
        .await;
    program.expect_texts(thread, &["in the thread", "3"]).await;
    program.expect_texts(room, &["in the room", "2"]).await;
    let of = |text: &str| {
        seen.arrived
            .iter()
            .find(|(message, _)| message.content == text)
            .unwrap()
    };
    let (fetched, arrival) = of("3");
    assert_eq!(
        fetched.session_key().as_str(),
        format!("discord:{room}:thread:{thread}")
    );
    assert_eq!(
        fetched.metadata["guild_id"],
        of("in the room").0.metadata["guild_id"]
    );
    assert_eq!(*arrival, in_server(&[room], false));
    assert_eq!(of("2").1, in_server(&[], false));
    let (fake, assistant) = program.stop().await;
    let program = Program::start(fake, assistant, &json!({})).await;
    program
        .fake
        .push(Incoming::direct(&ann(), "nothing was missed"));
    let last = program.assistant.message(9).await.unwrap();
    assert_eq!(last.content, "nothing was missed");
    program.stop().await;
}

#[tokio::test]
async fn live_event_waits_only_for_its_own_channel() {
    let (keys, room) = (json!({"requestTimeout": 600}), CHANNELS[0]);
    let program = Program::first(&keys).await;
    program.fake.push(Incoming::direct(&ann(), "direct"));
    program
        .fake
        .push(Incoming::in_channel(room, &ann(), "room"));
    program.assistant.message(2).await.unwrap();
    let (fake, assistant) = program.stop().await;
    fake.push(Incoming::direct(&ann(), "missed"));
    fake.push(Incoming::in_channel(room, &ann(), "missed too"));
    // The room, where something was said last, comes first, and is never answered for.
    fake.fail_next("getMessages", Fault::Hang);
    let program = Program::start(fake, assistant, &keys).await;
    program.fake.wait_for_calls("getMessages", 1).await.unwrap();
    program.fake.push(Incoming::in_channel(
        CHANNELS[1],
        &ann(),
        "where nobody talked before",
    ));
    program.fake.push(Incoming::direct(&ann(), "live"));
    let direct = program.fake.direct_channel(&ann());
    program
        .expect_texts(direct, &["direct", "missed", "live"])
        .await;
    program
        .expect_texts(CHANNELS[1], &["where nobody talked before"])
        .await;
    program.expect_texts(room, &["room"]).await;
    program.stop().await;
}

#[tokio::test]
async fn messages_between_sessions_are_fetched() {
    for order in [Order::Invalidate { resumable: false }, Order::Close(4009)] {
        let running = Running::start(json!({})).await;
        running.hello().await;
        running.fake.order(order);
        running.fake.push(Incoming::direct(&ann(), "in between"));
        running.fake.wait_for_identifies(2).await.unwrap();
        running.fake.push(Incoming::direct(&ann(), "again"));
        running.assistant.message(3).await.unwrap();
        let direct = running.fake.direct_channel(&ann());
        running
            .expect_texts(direct, &["hello", "in between", "again"])
            .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn unstored_message_is_fetched_at_the_next_start() {
    let program = Program::first(&json!({})).await;
    program.assistant.will_answer([Admission::ShuttingDown]);
    program
        .fake
        .push(Incoming::direct(&ann(), "do not lose this"));
    program.assistant.message(1).await.unwrap();
    let (fake, assistant) = program.stop().await;
    let program = Program::start(fake, assistant, &json!({})).await;
    program.assistant.message(2).await.unwrap();
    let seen = program.assistant.seen();
    assert_eq!(
        [0, 1].map(|index: usize| seen.arrived[index].0.content.as_str()),
        ["do not lose this"; 2]
    );
    assert_eq!(seen.arrived[0].0.id, seen.arrived[1].0.id);
    program.stop().await;
}

#[tokio::test]
async fn long_absence_fetches_the_newest_of_the_last_day() {
    let program = Program::first(&json!({})).await;
    program.fake.push(Incoming::direct(&ann(), "hello"));
    program.assistant.message(1).await.unwrap();
    let direct = program.fake.direct_channel(&ann());
    let (fake, assistant) = program.stop().await;
    let old = json!("2020-01-01T00:00:00.000000+00:00");
    fake.push(Incoming::direct(&ann(), "long ago").with_field("timestamp", old));
    fake.push(Incoming::direct(&ann(), "today"));
    let program = Program::start(fake, assistant, &json!({})).await;
    program.expect_texts(direct, &["hello", "today"]).await;
    let (fake, assistant) = program.stop().await;
    for number in 0..350 {
        fake.push(Incoming::direct(&ann(), &number.to_string()));
    }
    let program = Program::start(fake, assistant, &json!({})).await;
    program.assistant.message(302).await.unwrap();
    program.fake.push(Incoming::direct(&ann(), "end"));
    program.assistant.message(303).await.unwrap();
    let numbers = (50..350).map(|number| number.to_string());
    let expected: Vec<_> = ["hello", "today"]
        .map(str::to_owned)
        .into_iter()
        .chain(numbers)
        .chain(["end".to_owned()])
        .collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    program.expect_texts(direct, &expected).await;
    program.stop().await;
}

#[tokio::test]
async fn gone_channel_is_dropped_and_failed_fetch_is_retried() {
    let program = Program::first(&json!({})).await;
    program
        .fake
        .push(Incoming::in_channel(CHANNELS[0], &ann(), "room"));
    program.fake.push(Incoming::direct(&ann(), "direct"));
    program.assistant.message(2).await.unwrap();
    let direct = program.fake.direct_channel(&ann());
    let (fake, assistant) = program.stop().await;
    fake.push(Incoming::in_channel(CHANNELS[0], &ann(), "gone"));
    fake.push(Incoming::direct(&ann(), "kept"));
    // The direct chat, where something was said last, comes first.
    fake.fail_next("getMessages", Fault::retry_after(0.1));
    fake.fail_next("getMessages", Fault::unavailable());
    fake.fail_next(
        "getMessages",
        Fault::Status(403, 50_001, "Missing Access".to_owned()),
    );
    let program = Program::start(fake, assistant, &json!({"reconnectPause": 0.01})).await;
    program.expect_texts(direct, &["direct", "kept"]).await;
    // What comes live waits until it is known what was missed there.
    program
        .fake
        .push(Incoming::in_channel(CHANNELS[0], &ann(), "here again"));
    program
        .expect_texts(CHANNELS[0], &["room", "here again"])
        .await;
    let (fake, assistant) = program.stop().await;
    fake.push(Incoming::in_channel(CHANNELS[0], &ann(), "still there"));
    fake.push(Incoming::direct(&ann(), "kept, too"));
    let program = Program::start(fake, assistant, &json!({})).await;
    program
        .expect_texts(CHANNELS[0], &["room", "here again", "still there"])
        .await;
    program
        .expect_texts(direct, &["direct", "kept", "kept, too"])
        .await;
    program.stop().await;
}

#[tokio::test]
async fn general_failure_ends_the_wait_of_live_events() {
    const PEOPLE: u64 = 12;
    // One channel has its turn, and eight with an event are fetched before theirs.
    const REQUESTS: usize = 9;
    let keys = json!({"requestTimeout": 600});
    let people = (100..100 + PEOPLE).map(|id| Person::new(id, "someone"));
    let people: Vec<_> = people.collect();
    let everyone_says = |fake: &DiscordFake, text: &str| {
        for person in &people {
            fake.push(Incoming::direct(person, text));
        }
    };
    let program = Program::first(&keys).await;
    everyone_says(&program.fake, "hello");
    program.assistant.message(people.len()).await.unwrap();
    let (fake, assistant) = program.stop().await;
    for _ in 1..REQUESTS {
        fake.fail_next("getMessages", Fault::Hang);
    }
    fake.fail_next("getMessages", Fault::retry_after(3600.0));
    let program = Program::start(fake, assistant, &keys).await;
    program.fake.wait_for_calls("getMessages", 1).await.unwrap();
    everyone_says(&program.fake, "live");
    let answered = people.len() - (REQUESTS - 1);
    program
        .assistant
        .message(people.len() + answered)
        .await
        .unwrap();
    assert_eq!(program.fake.calls_of("getMessages").len(), REQUESTS);
    program.stop().await;
}

#[tokio::test]
async fn kill_loses_no_messages_of_noted_channels() {
    let program = Program::first(&json!({})).await;
    program.fake.push(Incoming::direct(&ann(), "hello"));
    program.assistant.message(1).await.unwrap();
    // Nothing is handed over from where the note does not know of.
    let notes = program.assistant.notes();
    let as_noted = notes.read("seen").await.unwrap().unwrap();
    let (fake, assistant) = program.stop().await;
    assistant.notes().write("seen", &as_noted).await.unwrap();
    fake.push(Incoming::direct(&ann(), "away"));
    let program = Program::start(fake, assistant, &json!({})).await;
    let all = program
        .assistant
        .wait_until("what was said meanwhile", |seen| {
            seen.arrived
                .iter()
                .any(|(message, _)| message.content == "away")
        });
    let mut ids: Vec<_> = all
        .await
        .unwrap()
        .arrived
        .into_iter()
        .map(|(message, _)| message.id)
        .collect();
    // What the note did not know yet comes again under the same id.
    ids.dedup();
    assert_eq!(ids.len(), 2);
    program.stop().await;
}
