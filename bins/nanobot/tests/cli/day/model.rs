//! The model of the day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply};
use serde_json::Value;

use super::judge::{DONE, tokens};

/// Time that a slow model takes for an answer.
const SLOW: Duration = Duration::from_millis(700);

/// A model that names every token that it has not answered yet.
pub(super) struct DayModel {
    server: ModelServer,
    mood: Arc<Mood>,
}

/// Behaviour of the model.
#[derive(Debug, Default)]
struct Mood {
    is_slow: AtomicBool,
    failures: AtomicUsize,
}

impl DayModel {
    pub(super) async fn start() -> Self {
        let mood = Arc::new(Mood::default());
        let mind = Arc::clone(&mood);
        let server = ModelServer::answering(move |request| answer(&mind, request))
            .await
            .unwrap();
        Self { server, mood }
    }

    pub(super) fn server(&self) -> &ModelServer {
        &self.server
    }

    pub(super) fn set_slow(&self, is_slow: bool) {
        self.mood.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Lets the next requests fail.
    pub(super) fn fail(&self, count: usize) {
        self.mood.failures.store(count, Ordering::Relaxed);
    }
}

fn answer(mood: &Mood, request: &ModelRequest) -> Reply {
    let is_broken = mood
        .failures
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok();
    if is_broken {
        return Reply::error(503, "overloaded");
    }
    let messages = request.messages();
    let is_answer = |message: &Value| message["role"] == "assistant";
    let open = messages
        .iter()
        .rposition(is_answer)
        .map_or(0, |last| last + 1);
    let asked = messages
        .iter()
        .skip(open)
        .filter(|message| message["role"] == "user");
    let mut named: Vec<String> = Vec::new();
    for token in asked.flat_map(|message| tokens(&message["content"].to_string())) {
        if !named.contains(&token) {
            named.push(token);
        }
    }
    let reply = Reply::text(format!("{DONE} {}", named.join(" ")));
    if mood.is_slow.load(Ordering::Relaxed) {
        reply.with_delay(SLOW)
    } else {
        reply
    }
}
