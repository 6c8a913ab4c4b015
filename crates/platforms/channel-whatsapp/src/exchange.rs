//! Requests that wait for their answers, without I/O.
//!
//! Version 2 names the request in each answer. Version 1 answers in order, so only one request is
//! under way at a time there; one without an answer ends the connection, because the order of later
//! answers would not be known.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::frame::{Answer, Version};
use crate::request::Request;
use crate::wire::given;

/// Most requests that wait.
const MAX_WAITING: usize = 256;

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    version: Version,
    patience: Duration,
    /// Requests of version 2 by their ids.
    waiting: HashMap<String, Request>,
    /// Requests of version 1 that are not written yet.
    queue: VecDeque<Request>,
    /// The request of version 1 that was written, and the time by which it has to be answered.
    under_way: Option<(Request, Instant)>,
}

impl Exchange {
    /// Creates the exchange of a new connection. `patience` is the time that an answer may take.
    pub(crate) fn new(version: Version, patience: Duration) -> Self {
        Self {
            version,
            patience,
            waiting: HashMap::new(),
            queue: VecDeque::new(),
            under_way: None,
        }
    }

    /// Adds a request. Returns the frame to write now, if there is one. One too many is dropped,
    /// so that its sender notices.
    pub(crate) fn submit(&mut self, request: Request, now: Instant) -> Option<String> {
        if !request.is_answered() {
            return request.write();
        }
        self.waiting.retain(|_, request| !request.is_abandoned());
        self.queue.retain(|request| !request.is_abandoned());
        if self.waiting.len().max(self.queue.len()) >= MAX_WAITING {
            tracing::warn!("too many requests wait for the bridge");
            return None;
        }
        if self.version == Version::One {
            self.queue.push_back(request);
            return self.start(now);
        }
        let frame = request.write()?;
        let id = request.member("requestId").to_owned();
        self.waiting.insert(id, request);
        Some(frame)
    }

    /// Handles an answer. Returns the next frame.
    pub(crate) fn answered(&mut self, answer: Answer, now: Instant) -> Option<String> {
        if self.version == Version::Two {
            let id = answer.request_id.as_ref()?;
            let request = self.waiting.remove(id)?;
            request.answer(answer);
            return None;
        }
        // A frame that is no request of ours may have been answered, too.
        let (request, by) = self.under_way.take()?;
        let to = given(&answer.body, "to").unwrap_or_default();
        if !answer.is_error && to != request.member("to") {
            self.under_way = Some((request, by));
            return None;
        }
        request.answer(Answer {
            request_id: None,
            ..answer
        });
        self.start(now)
    }

    /// Returns the time at which the connection is given up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|(_, by)| *by)
    }

    fn start(&mut self, now: Instant) -> Option<String> {
        while self.under_way.is_none() {
            let request = self.queue.pop_front()?;
            if let Some(frame) = request.write() {
                self.under_way = Some((request, now + self.patience));
                return Some(frame);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::Value;
    use serde_json::json;

    use super::*;
    use crate::request::Reply;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn request(id: &str) -> (Request, Reply) {
        Request::new(json!({"type": "send", "requestId": id, "to": format!("{id}@lid")}))
    }

    fn answer(id: Option<&str>, body: Value) -> Answer {
        Answer {
            request_id: id.map(str::to_owned),
            is_error: false,
            body,
        }
    }

    #[tokio::test]
    async fn answers_of_version_2_find_their_requests() {
        let (mut exchange, now) = (Exchange::new(Version::Two, PATIENCE), Instant::now());
        let ((one, first), (two, second)) = (request("1"), request("2"));
        assert!(exchange.submit(one, now).is_some() && exchange.submit(two, now).is_some());
        for id in [Some("2"), Some("unknown"), None, Some("1")] {
            assert_eq!(exchange.answered(answer(id, json!(id)), now), None);
        }
        assert_eq!(first.wait(PATIENCE).await, Ok(json!("1")));
        assert_eq!(second.wait(PATIENCE).await, Ok(json!("2")));
        assert_eq!((exchange.waiting.len(), exchange.deadline()), (0, None));
    }

    #[tokio::test]
    async fn requests_of_version_1_go_one_after_the_other() {
        let (mut exchange, now) = (Exchange::new(Version::One, PATIENCE), Instant::now());
        let ((one, first), (two, second)) = (request("1"), request("2"));
        assert!(exchange.submit(one, now).is_some());
        assert_eq!(exchange.submit(two, now), None);
        assert_eq!(exchange.deadline(), Some(now + PATIENCE));
        // The answer to something else.
        assert_eq!(exchange.answered(answer(None, json!({})), now), None);
        let sent = |to: &str| answer(None, json!({"to": to}));
        let next = exchange.answered(sent("1@lid"), now).unwrap();
        assert!(next.contains("2@lid"), "{next}");
        let failed = Answer {
            is_error: true,
            ..answer(None, json!({"error": "no"}))
        };
        assert_eq!(exchange.answered(failed, now), None);
        assert!(first.wait(PATIENCE).await.is_ok());
        assert!(second.wait(PATIENCE).await.unwrap_err().is_ambiguous());
        assert_eq!(exchange.deadline(), None);
    }

    #[tokio::test]
    async fn requests_are_bounded_and_forgotten() {
        for version in [Version::One, Version::Two] {
            let (mut exchange, now) = (Exchange::new(version, PATIENCE), Instant::now());
            let mut replies = Vec::new();
            for number in 0..MAX_WAITING + 10 {
                let (request, reply) = request(&number.to_string());
                exchange.submit(request, now);
                replies.push(reply);
            }
            assert!(exchange.waiting.len().max(exchange.queue.len()) <= MAX_WAITING);
            drop(replies);
            let (request, _reply) = request("last");
            exchange.submit(request, now);
            assert!(exchange.waiting.len() + exchange.queue.len() <= 1);
        }
    }
}
