//! Events of different channels at once, and what the gateway and the notes learn of it.

use std::sync::Arc;

use nanobot_channel::Notes as _;
use nanobot_channel_discord_fake::{CHANNELS, DiscordFake, Fault, Incoming, Order};
use serde_json::{Value, json};

use crate::support::{Program, Running, ann, channel};

const ROOM: u64 = CHANNELS[0];

/// No request ends by itself, and handled messages get a reaction.
fn keys() -> Value {
    json!({"requestTimeout": 600, "readReceiptEmoji": "👀"})
}

fn with_cat(text: &str) -> Incoming {
    Incoming::direct(&ann(), text).with_file("cat.png", "image/png", "PNG")
}

const CAT: &str = "look\n[attachment: /media/cat.png]";

/// Sends a message with a file that is never delivered, and a later one in the same chat. Returns
/// the chat.
async fn stall_direct_chat(fake: &DiscordFake) -> u64 {
    let downloads = fake.calls_of("download").len();
    fake.fail_next("download", Fault::Hang);
    fake.push(with_cat("look"));
    fake.push(Incoming::direct(&ann(), "after it"));
    fake.wait_for_calls("download", downloads + 1)
        .await
        .unwrap();
    fake.direct_channel(&ann())
}

/// Sends a message in the room and waits until it is handled.
async fn pass_room(fake: &DiscordFake, text: &str) {
    let pushed = fake.push(Incoming::in_channel(ROOM, &ann(), text));
    fake.wait_for_reactions(pushed.message_id, &["👀"])
        .await
        .unwrap();
}

#[tokio::test]
async fn stalled_download_delays_only_its_own_chat() {
    let fake = DiscordFake::start().await.unwrap();
    fake.set_heartbeat_interval(50);
    let channel = channel(&fake, &keys());
    let running = Running::of(fake, channel).ready().await;
    let direct = stall_direct_chat(&running.fake).await;
    let command = running.fake.use_command(ROOM, &ann(), "new", None);
    let thread = running.fake.start_thread(ROOM);
    running
        .fake
        .push(Incoming::in_channel(thread, &ann(), "in the thread"));
    pass_room(&running.fake, "in the room").await;
    running.fake.wait_for_answers(1).await.unwrap();
    running.assistant.message(3).await.unwrap();
    running.expect_texts(ROOM, &["/new", "in the room"]).await;
    running.expect_texts(thread, &["in the thread"]).await;
    running.expect_texts(direct, &[]).await;
    let alive = running.assistant.seen().alive;
    running
        .assistant
        .wait_until("heartbeats to go on", |seen| seen.alive > alive + 2)
        .await
        .unwrap();
    assert!(!running.fake.is_acknowledged(command));
    running.stop().await;
}

#[tokio::test]
async fn next_run_repeats_only_what_was_under_way() {
    let fake = DiscordFake::start().await.unwrap();
    fake.set_heartbeat_interval(50);
    let channel = channel(&fake, &keys());
    let running = Running::of(fake, Arc::clone(&channel)).ready().await;
    let direct = stall_direct_chat(&running.fake).await;
    running.fake.use_command(ROOM, &ann(), "new", None);
    pass_room(&running.fake, "in the room").await;
    let running = Running::of(running.stop().await, channel);
    running.expect_texts(direct, &[CAT, "after it"]).await;
    pass_room(&running.fake, "later").await;
    // The command and the message before it were handled.
    running.expect_texts(ROOM, &["later"]).await;
    let last = running.fake.push(Incoming::direct(&ann(), "last"));
    running.fake.wait_for_acknowledged(last).await.unwrap();
    assert_eq!(running.fake.identifies(), 1);
    running.stop().await;
}

#[tokio::test]
async fn next_process_fetches_only_what_was_under_way() {
    let program = Program::first(&keys()).await;
    let direct = stall_direct_chat(&program.fake).await;
    pass_room(&program.fake, "in the room").await;
    let (fake, assistant) = program.stop().await;
    assert_eq!(assistant.seen().arrived.len(), 1);
    let program = Program::start(fake, assistant, &keys()).await;
    program.expect_texts(direct, &[CAT, "after it"]).await;
    pass_room(&program.fake, "later").await;
    program.expect_texts(ROOM, &["in the room", "later"]).await;
    program.stop().await;
}

#[tokio::test]
async fn kill_during_a_stalled_download_loses_nothing() {
    let program = Program::first(&keys()).await;
    let direct = stall_direct_chat(&program.fake).await;
    pass_room(&program.fake, "in the room").await;
    let as_noted = program.assistant.notes().all();
    let (fake, assistant) = program.stop().await;
    // A killed process writes nothing more.
    for (name, text) in as_noted {
        assistant.notes().write(name, &text).await.unwrap();
    }
    let program = Program::start(fake, assistant, &keys()).await;
    pass_room(&program.fake, "later").await;
    program.expect_texts(direct, &[CAT, "after it"]).await;
    // The note may be older than the last message that was handled, which keeps its id.
    let seen = program.assistant.seen();
    let arrived = seen.arrived.into_iter();
    let mut ids: Vec<_> = arrived.filter_map(|(message, _)| message.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    program.stop().await;
}

#[tokio::test]
async fn missed_message_with_a_stalled_download_delays_no_other_chat() {
    let program = Program::first(&keys()).await;
    pass_room(&program.fake, "hello").await;
    program.fake.push(Incoming::direct(&ann(), "hello"));
    program.assistant.message(2).await.unwrap();
    let (fake, assistant) = program.stop().await;
    fake.fail_next("download", Fault::Hang);
    fake.push(with_cat("look"));
    fake.push(Incoming::in_channel(ROOM, &ann(), "missed"));
    // The direct chat, where something was said last, comes first.
    let program = Program::start(fake, assistant, &keys()).await;
    program.fake.wait_for_calls("download", 1).await.unwrap();
    program.expect_texts(ROOM, &["hello", "missed"]).await;
    program.stop().await;
}

#[tokio::test]
async fn chat_with_a_stalled_download_does_not_hold_up_the_catch_up_of_others() {
    let running = Running::start(keys()).await;
    pass_room(&running.fake, "hello").await;
    let direct = stall_direct_chat(&running.fake).await;
    running.fake.order(Order::Invalidate { resumable: false });
    running
        .fake
        .push(Incoming::in_channel(ROOM, &ann(), "in between"));
    running.fake.wait_for_identifies(2).await.unwrap();
    running.fake.wait_for_calls("getMessages", 1).await.unwrap();
    running.expect_texts(ROOM, &["hello", "in between"]).await;
    running.expect_texts(direct, &[]).await;
    running.stop().await;
}

/// More messages than are handled at once.
#[tokio::test]
async fn flood_in_one_chat_keeps_its_order_while_another_is_stalled() {
    const MESSAGES: usize = 600;
    let running = Running::start(keys()).await;
    stall_direct_chat(&running.fake).await;
    let texts: Vec<_> = (0..MESSAGES).map(|number| number.to_string()).collect();
    for text in &texts {
        running.fake.push(Incoming::in_channel(ROOM, &ann(), text));
    }
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    running.expect_texts(ROOM, &texts).await;
    running.stop().await;
}
