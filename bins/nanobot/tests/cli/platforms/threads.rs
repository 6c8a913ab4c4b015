//! Reminders and heartbeats arrive in the thread of their session, also after a restart.

use nanobot_chat_fakes::Thread;
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use serde_json::json;

use super::sessions::{file_of, old_session};
use super::{World, answer, answer_to, asked_token, token};
use crate::support::until;

/// The platforms with threads.
const PLATFORMS: [&str; 5] = ["telegram", "discord", "slack", "matrix", "feishu"];
const PLANTS: &str = "The plants are dry.";

impl World {
    /// Begins a thread on each platform that has threads.
    fn threads(&mut self) -> Vec<Thread> {
        let threads = self.fakes.iter_mut().filter_map(|fake| fake.begin_thread());
        threads.collect()
    }

    /// Returns how often a text was shown in a thread, and in all chats of its platform.
    fn count(&self, thread: &Thread, text: &str) -> (usize, usize) {
        let fake = self.fake(thread.platform);
        let count = |shown: Vec<String>| shown.iter().filter(|shown| shown.contains(text)).count();
        let places = fake.places().into_iter();
        let everywhere = places.map(|place| count(fake.shown(place))).sum();
        (count(fake.shown_in(thread)), everywhere)
    }

    /// Waits until a thread shows a text more often than `before`.
    async fn sees_in(&self, thread: &Thread, text: &str, before: usize) {
        let what = format!("{thread:?} shows {text:?}");
        until(&what, async || self.count(thread, text).0 > before).await;
    }

    /// Checks that a text was shown in a thread only. Not every platform counts what is in threads
    /// as shown in their chats.
    fn assert_only_in(&self, thread: &Thread, text: &str) {
        let (inside, everywhere) = self.count(thread, text);
        assert!(
            inside > 0 && (everywhere == 0 || everywhere == inside),
            "{thread:?} {text}: {inside} of {everywhere}"
        );
    }
}

fn reminder_of(token: &str) -> String {
    format!("remember {token}")
}

/// Makes a reminder of each message, and tells the token of each that is due.
fn remind(request: &ModelRequest) -> Reply {
    let asked = request.last_user_text();
    let messages = request.messages();
    let is_answered = messages.last().is_some_and(|last| last["role"] == "tool");
    if asked.contains("[Scheduled task]") {
        Reply::text(reminder_of(&asked_token(request)))
    } else if is_answered {
        answer(request)
    } else {
        Reply::call(
            "cron",
            &json!({"action": "add", "message": asked, "every_seconds": 2}),
        )
    }
}

#[tokio::test]
async fn reminders_arrive_in_their_thread() {
    let model = ModelServer::answering(remind);
    let mut world = World::new(model.await.unwrap(), |_| {}).await;
    world.reconfigure(|config| config["cron"] = json!({"minIntervalSeconds": 1}));
    let gateway = world.start().await;
    let threads = world.threads();
    let platforms: Vec<_> = threads.iter().map(|thread| thread.platform).collect();
    assert_eq!(platforms, PLATFORMS);
    for (number, thread) in threads.iter().enumerate() {
        let mut fakes = world.fakes.iter_mut();
        let fake = fakes.find(|fake| fake.name() == thread.platform).unwrap();
        fake.say_in(thread, &token(number));
        world.sees_in(thread, &answer_to(&token(number)), 0).await;
    }
    world.end(gateway).await;
    let reminders = (0..threads.len()).map(|number| reminder_of(&token(number)));
    let reminders: Vec<_> = reminders.collect();
    let counts = threads.iter().zip(&reminders);
    let counts: Vec<_> = counts
        .map(|(thread, text)| world.count(thread, text).0)
        .collect();
    let gateway = world.start().await;
    for ((thread, text), before) in threads.iter().zip(&reminders).zip(counts) {
        world.sees_in(thread, text, before).await;
    }
    world.end(gateway).await;
    for (thread, text) in threads.iter().zip(&reminders) {
        world.assert_only_in(thread, text);
    }
}

/// Always finds something to do at a heartbeat.
fn tend(request: &ModelRequest) -> Reply {
    match request.tool_names().first() {
        Some(&"heartbeat") => Reply::call(
            "heartbeat",
            &json!({"action": "run", "tasks": "look after the plants"}),
        ),
        Some(&"evaluate_notification") => {
            Reply::call("evaluate_notification", &json!({"should_notify": true}))
        }
        _ => Reply::text(PLANTS),
    }
}

#[tokio::test]
async fn heartbeat_reaches_threads_of_the_python_program() {
    let model = ModelServer::answering(tend);
    let mut world = World::new(model.await.unwrap(), |_| {}).await;
    world
        .home
        .write("workspace/HEARTBEAT.md", "- Look after the plants\n");
    world.reconfigure(|config| {
        config["gateway"] = json!({"heartbeat": {"enabled": true, "intervalS": 1}});
    });
    for thread in world.threads() {
        let Some(key) = &thread.session else {
            continue;
        };
        // The latest session gets the news.
        let sessions = world.home.workspace().join("sessions");
        std::fs::remove_dir_all(&sessions).ok();
        world.home.write(&file_of(key), &old_session(key));
        let gateway = world.start().await;
        world.sees_in(&thread, PLANTS, 0).await;
        world.end(gateway).await;
        world.assert_only_in(&thread, PLANTS);
    }
}
