//! A WebSocket client that follows the protocol: it reconnects, repeats unacknowledged messages,
//! and skips messages that it has seen.

use std::sync::Arc;

use nanobot_testkit::{TestkitError, Watched, WebSocketClient};
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
pub(crate) struct Friend {
    talk: Watched<Talk>,
    news: Arc<Notify>,
    cut: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Friend {
    pub(crate) fn at(url: String) -> Self {
        let talk = Watched::default();
        let (news, cut) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let life = live(url, talk.clone(), Arc::clone(&news), Arc::clone(&cut));
        let task = tokio_util::task::TaskTracker::new().spawn(life);
        Self {
            talk,
            news,
            cut,
            task,
        }
    }

    pub(crate) fn say(&self, id: &str, text: &str) {
        let frame = json!({"id": id, "content": text});
        self.talk.change(|talk| talk.unacknowledged.push(frame));
        self.news.notify_one();
    }

    /// Drops the connection.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    pub(crate) fn received(&self) -> Vec<String> {
        self.talk.read(|talk| {
            let received = talk.received.iter();
            received.map(|(_, text)| text.clone()).collect()
        })
    }
}

impl Drop for Friend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(url: String, talk: Watched<Talk>, news: Arc<Notify>, cut: Arc<Notify>) {
    loop {
        // While the gateway is away, connecting is tried again and again.
        let Ok(mut client) = WebSocketClient::connect_soon(&url).await else {
            continue;
        };
        talk.change(|talk| talk.sent = 0);
        tokio::select! {
            () = cut.notified() => {}
            () = converse(&mut client, &talk, &news) => {}
        }
    }
}

/// Sends and receives until the connection ends.
async fn converse(client: &mut WebSocketClient, talk: &Watched<Talk>, news: &Notify) {
    loop {
        if let Some(frame) = talk.change(Talk::next) {
            if client.send(&frame).await.is_err() {
                return;
            }
            continue;
        }
        tokio::select! {
            () = news.notified() => {}
            event = client.receive() => match event {
                Ok(event) => talk.change(|talk| talk.receive(&event)),
                Err(TestkitError::TimedOut { .. }) => {}
                Err(_) => return,
            },
        }
    }
}

impl Talk {
    /// Returns the next message to send on this connection.
    fn next(&mut self) -> Option<Value> {
        let next = self.unacknowledged.get(self.sent).cloned();
        self.sent += usize::from(next.is_some());
        next
    }

    fn receive(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("ack") => {
                let mut unacknowledged = self.unacknowledged.iter();
                let Some(at) = unacknowledged.position(|frame| frame["id"] == event["id"]) else {
                    return;
                };
                self.unacknowledged.remove(at);
                self.sent -= usize::from(at < self.sent);
            }
            Some("error") if event["retry"] == json!(true) => self.sent = 0,
            Some("message") if self.received.iter().all(|(id, _)| *id != event["id"]) => {
                let text = event["text"].as_str().unwrap_or_default();
                self.received.push((event["id"].clone(), text.to_owned()));
            }
            _ => {}
        }
    }
}
