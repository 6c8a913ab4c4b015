//! A command on its way to the connection, and the wait for its answer.
//!
//! Decision: the connection marks a command before it writes it, and the sender closes its end
//! before it looks at the mark. So a command without the mark was not written and never will be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nanobot_channel::Value;
use tokio::sync::oneshot;

use crate::answer::Answer;
use crate::error::CallError;
use crate::frame;

/// A command for the connection.
#[derive(Debug)]
pub(crate) struct Command {
    cmd: &'static str,
    req_id: String,
    body: Value,
    /// Time that the answer may take after the command was written.
    patience: Duration,
    is_written: Arc<AtomicBool>,
    /// `None` if no one waits for the answer.
    answer: Option<oneshot::Sender<Answer>>,
}

/// The sender's end of a command.
#[derive(Debug)]
pub(crate) struct Reply {
    is_written: Arc<AtomicBool>,
    answer: oneshot::Receiver<Answer>,
}

impl Command {
    /// Creates a command and the wait for its answer.
    pub(crate) fn new(
        cmd: &'static str,
        req_id: String,
        body: Value,
        patience: Duration,
    ) -> (Self, Reply) {
        let (sender, receiver) = oneshot::channel();
        let is_written = Arc::new(AtomicBool::new(false));
        let command = Self {
            cmd,
            req_id,
            body,
            patience,
            is_written: Arc::clone(&is_written),
            answer: Some(sender),
        };
        let reply = Reply {
            is_written,
            answer: receiver,
        };
        (command, reply)
    }

    /// Creates a command whose answer makes no difference.
    pub(crate) fn unattended(
        cmd: &'static str,
        req_id: String,
        body: Value,
        patience: Duration,
    ) -> Self {
        Self {
            answer: None,
            ..Self::new(cmd, req_id, body, patience).0
        }
    }

    pub(crate) fn req_id(&self) -> &str {
        &self.req_id
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns the frame, which has to be written now; `None` if the sender gave up.
    pub(crate) fn write(&self) -> Option<String> {
        self.is_written.store(true, Ordering::SeqCst);
        let is_abandoned = self.answer.as_ref().is_some_and(oneshot::Sender::is_closed);
        (!is_abandoned).then(|| frame::command(self.cmd, &self.req_id, &self.body))
    }

    /// Passes the answer on.
    pub(crate) fn answer(self, answer: Answer) {
        let unread = self.answer.map(|sender| sender.send(answer));
        if matches!(unread, Some(Err(_))) {
            tracing::debug!(cmd = self.cmd, "an answer came too late");
        }
    }
}

impl Reply {
    /// Waits for the answer, at most for `patience` and until the connection ends.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] if the command was not written, [`CallError::Interrupted`] if
    /// its outcome is unknown, and the refusal.
    pub(crate) async fn wait(mut self, patience: Duration) -> Result<Value, CallError> {
        let answer = tokio::time::timeout(patience, &mut self.answer).await;
        let why = match answer {
            Ok(Ok(answer)) => return answer.judged(),
            Ok(Err(_)) => "the connection to WeCom ended before the answer",
            Err(_) => "WeCom did not answer in time",
        };
        self.answer.close();
        if let Ok(answer) = self.answer.try_recv() {
            return answer.judged();
        }
        Err(if self.is_written.load(Ordering::SeqCst) {
            CallError::Interrupted(why.to_owned())
        } else {
            CallError::Unreachable(why.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn command() -> (Command, Reply) {
        Command::new("x", "r".to_owned(), json!({}), PATIENCE)
    }

    fn accepted() -> Answer {
        Answer {
            code: Some(0),
            message: String::new(),
            body: json!(1),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outcome_follows_what_was_written() {
        let (given, reply) = command();
        assert!(given.write().is_some());
        given.answer(accepted());
        assert_eq!(reply.wait(PATIENCE).await, Ok(json!(1)));

        let (lost, reply) = command();
        assert!(lost.write().is_some());
        drop(lost);
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Interrupted(_)), "{error:?}");

        let (unwritten, reply) = command();
        drop(unwritten);
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");

        let (silent, reply) = command();
        assert!(silent.write().is_some());
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Interrupted(_)), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_command_is_never_written() {
        let (waiting, reply) = command();
        let error = reply.wait(PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
        assert_eq!(waiting.write(), None);
    }
}
