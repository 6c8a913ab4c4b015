//! A WebSocket client that follows the protocol: it reconnects, repeats unacknowledged messages,
//! and skips messages that it has seen.

use std::sync::{Arc, Mutex};

use nanobot_testkit::WebSocketClient;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Messages to send, and those received.
#[derive(Debug, Default)]
struct Talk {
    unacknowledged: Vec<Value>,
    /// Number of them that were sent on this connection.
    sent: usize,
    received: Vec<(Value, String)>,
}

/// A client that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Friend {
    talk: Arc<Mutex<Talk>>,
    news: Arc<Notify>,
    cut: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Friend {
    pub(super) fn at(url: String) -> Self {
        let talk = Arc::new(Mutex::new(Talk::default()));
        let (news, cut) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let life = live(url, Arc::clone(&talk), Arc::clone(&news), Arc::clone(&cut));
        let task = tokio_util::task::TaskTracker::new().spawn(life);
        Self {
            talk,
            news,
            cut,
            task,
        }
    }

    pub(super) fn say(&self, id: &str, text: &str) {
        self.talk
            .lock()
            .unwrap()
            .unacknowledged
            .push(json!({"id": id, "content": text}));
        self.news.notify_one();
    }

    /// Drops the connection.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }

    pub(super) fn received(&self) -> Vec<String> {
        self.talk
            .lock()
            .unwrap()
            .received
            .iter()
            .map(|(_, text)| text.clone())
            .collect()
    }
}

impl Drop for Friend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(url: String, talk: Arc<Mutex<Talk>>, news: Arc<Notify>, cut: Arc<Notify>) {
    loop {
        // While the gateway is away, connecting is tried again and again.
        let Ok(mut client) = WebSocketClient::connect_soon(&url).await else {
            continue;
        };
        talk.lock().unwrap().sent = 0;
        tokio::select! {
            () = cut.notified() => {}
            () = converse(&mut client, &talk, &news) => {}
        }
    }
}

/// Sends and receives until the connection ends.
async fn converse(client: &mut WebSocketClient, talk: &Mutex<Talk>, news: &Notify) {
    loop {
        let next = {
            let mut talk = talk.lock().unwrap();
            let next = talk.unacknowledged.get(talk.sent).cloned();
            talk.sent += usize::from(next.is_some());
            next
        };
        if let Some(frame) = next {
            if client.send(&frame).await.is_err() {
                return;
            }
            continue;
        }
        tokio::select! {
            () = news.notified() => {}
            event = client.receive() => match event {
                Ok(event) => talk.lock().unwrap().receive(&event),
                Err(nanobot_testkit::TestkitError::TimedOut { .. }) => {}
                Err(_) => return,
            },
        }
    }
}

impl Talk {
    fn receive(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("ack") => {
                let Some(at) = self
                    .unacknowledged
                    .iter()
                    .position(|frame| frame["id"] == event["id"])
                else {
                    return;
                };
                self.unacknowledged.remove(at);
                self.sent -= usize::from(at < self.sent);
            }
            Some("error") if event["retry"] == json!(true) => self.sent = 0,
            Some("message") if self.received.iter().all(|(id, _)| *id != event["id"]) => {
                self.received.push((
                    event["id"].clone(),
                    event["text"].as_str().unwrap_or_default().to_owned(),
                ));
            }
            _ => {}
        }
    }
}
