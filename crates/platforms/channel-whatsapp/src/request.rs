//! A frame on its way to the bridge, and the wait for its answer.
//!
//! Decision: the connection marks a request before it writes it, and the sender closes its end
//! before it looks at the mark. A request without the mark was not written and never will be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nanobot_channel::Value;
use tokio::sync::oneshot;

use crate::error::{CallError, from_answer, from_version_1};
use crate::frame::Answer;

/// A frame for the bridge.
#[derive(Debug)]
pub(crate) struct Request {
    body: Value,
    is_written: Arc<AtomicBool>,
    /// `None` if there is no answer, or no one waits for it.
    answer: Option<oneshot::Sender<Answer>>,
}

/// The sender's end of a request.
#[derive(Debug)]
pub(crate) struct Reply {
    is_written: Arc<AtomicBool>,
    answer: oneshot::Receiver<Answer>,
}

impl Request {
    /// Creates a request and the wait for its answer.
    pub(crate) fn new(body: Value) -> (Self, Reply) {
        let (sender, receiver) = oneshot::channel();
        let is_written = Arc::new(AtomicBool::new(false));
        let request = Self {
            body,
            is_written: Arc::clone(&is_written),
            answer: Some(sender),
        };
        let reply = Reply {
            is_written,
            answer: receiver,
        };
        (request, reply)
    }

    /// Creates a frame that is not answered.
    pub(crate) fn unanswered(body: Value) -> Self {
        Self {
            answer: None,
            ..Self::new(body).0
        }
    }

    pub(crate) fn member(&self, key: &str) -> &str {
        crate::wire::text(&self.body, key)
    }

    /// `true` if an answer is expected.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// `true` if no one waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Returns the frame, which has to be written now; `None` if the sender gave up.
    pub(crate) fn write(&self) -> Option<String> {
        self.is_written.store(true, Ordering::SeqCst);
        (!self.is_abandoned()).then(|| self.body.to_string())
    }

    /// Passes the answer on.
    pub(crate) fn answer(self, answer: Answer) {
        let unread = self.answer.map(|sender| sender.send(answer));
        if matches!(unread, Some(Err(_))) {
            tracing::debug!("an answer of the bridge came too late");
        }
    }
}

impl Reply {
    /// Waits for the answer, at most for `patience` and until the connection ends.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] if the request was not written, [`CallError::Interrupted`] if
    /// its outcome is unknown, and the refusal.
    pub(crate) async fn wait(mut self, patience: Duration) -> Result<Value, CallError> {
        let answer = tokio::time::timeout(patience, &mut self.answer).await;
        let why = match answer {
            Ok(Ok(answer)) => return judged(answer),
            Ok(Err(_)) => "the connection to the bridge ended before the answer",
            Err(_) => "the bridge did not answer in time",
        };
        self.answer.close();
        if let Ok(answer) = self.answer.try_recv() {
            return judged(answer);
        }
        Err(if self.is_written.load(Ordering::SeqCst) {
            CallError::Interrupted(why.to_owned())
        } else {
            CallError::Unreachable(why.to_owned())
        })
    }
}

fn judged(answer: Answer) -> Result<Value, CallError> {
    match (answer.is_error, answer.request_id) {
        (false, _) => Ok(answer.body),
        (true, Some(_)) => Err(from_answer(&answer.body)),
        (true, None) => Err(from_version_1(&answer.body)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn request() -> (Request, Reply) {
        Request::new(json!({"type": "send", "to": "a"}))
    }

    fn answer(is_error: bool, request_id: Option<&str>) -> Answer {
        Answer {
            request_id: request_id.map(str::to_owned),
            is_error,
            body: json!({"code": "invalid"}),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outcome_follows_what_was_written() {
        let (given, reply) = request();
        assert!(given.write().is_some());
        given.answer(answer(false, Some("1")));
        assert!(reply.wait(PATIENCE).await.is_ok());

        let (refused, reply) = request();
        refused.answer(answer(true, Some("1")));
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Refused(_)), "{error:?}");

        let (old, reply) = request();
        old.answer(answer(true, None));
        assert!(reply.wait(PATIENCE).await.unwrap_err().is_ambiguous());

        let (lost, reply) = request();
        assert!(lost.write().is_some());
        drop(lost);
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Interrupted(_)), "{error:?}");

        let (unwritten, reply) = request();
        drop(unwritten);
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_request_is_never_written() {
        let (waiting, reply) = request();
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
        assert_eq!(waiting.write(), None);
    }
}
