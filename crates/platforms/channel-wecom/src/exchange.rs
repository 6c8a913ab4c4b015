//! Commands that wait for their answers, without I/O.
//!
//! Decision: replies to one callback have one `req_id`, and so have their answers. Therefore only
//! one command of a `req_id` is under way at a time, and an answer that comes too late is matched
//! with the command that gave up on it, not with the next one.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::answer::Answer;
use crate::command::Command;

/// Most commands of one `req_id` that wait.
const MAX_WAITING: usize = 100;
/// Most `req_id`s with commands.
const MAX_LINES: usize = 1024;
/// Time for which late answers are expected.
const LATE: Duration = Duration::from_mins(1);

/// The commands of a connection.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    lines: HashMap<String, Line>,
}

/// The commands of one `req_id`.
#[derive(Debug, Default)]
struct Line {
    under_way: Option<(Command, Instant)>,
    waiting: VecDeque<Command>,
    /// Number of commands whose answer did not come in time.
    unanswered: usize,
    forget_at: Option<Instant>,
}

impl Exchange {
    /// Adds a command. Returns the frame to write now, if there is one. One too many is dropped,
    /// so that its sender notices.
    pub(crate) fn submit(&mut self, command: Command, now: Instant) -> Option<String> {
        let is_known = self.lines.contains_key(command.req_id());
        if !is_known && self.lines.len() >= MAX_LINES {
            tracing::warn!("too many commands wait for their answers");
            return None;
        }
        let line = self.lines.entry(command.req_id().to_owned()).or_default();
        if line.waiting.len() >= MAX_WAITING {
            tracing::warn!("too many replies to one message wait for their answers");
            return None;
        }
        line.waiting.push_back(command);
        line.start(now)
    }

    /// Handles an answer. Returns the next frame of its `req_id`.
    pub(crate) fn answered(
        &mut self,
        req_id: &str,
        answer: Answer,
        now: Instant,
    ) -> Option<String> {
        let line = self.lines.get_mut(req_id)?;
        if line.unanswered > 0 {
            line.unanswered -= 1;
        } else if let Some((command, _)) = line.under_way.take() {
            command.answer(answer);
        }
        let next = line.start(now);
        if line.is_over() && line.unanswered == 0 {
            self.lines.remove(req_id);
        }
        next
    }

    /// Returns the time of the next [`Self::expire`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let times = self.lines.values().filter_map(Line::deadline);
        times.min()
    }

    /// Gives up on answers that did not come in time. Returns the next frames.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<String> {
        let mut frames = Vec::new();
        self.lines.retain(|_, line| {
            if line.under_way.as_ref().is_some_and(|(_, by)| *by <= now) {
                // Its sender notices the end of the wait.
                line.under_way = None;
                line.unanswered += 1;
                line.forget_at = Some(now + LATE);
                frames.extend(line.start(now));
            }
            !line.is_over() || line.forget_at.is_some_and(|at| at > now)
        });
        frames
    }
}

impl Line {
    fn start(&mut self, now: Instant) -> Option<String> {
        while self.under_way.is_none() {
            let command = self.waiting.pop_front()?;
            if let Some(frame) = command.write() {
                let by = now + command.patience();
                self.under_way = Some((command, by));
                return Some(frame);
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        self.under_way.is_none() && self.waiting.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        let answer = self.under_way.as_ref().map(|(_, by)| *by);
        answer.or(self.forget_at)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::command::Reply;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn command(req_id: &str, body: u32) -> (Command, Reply) {
        Command::new("x", req_id.to_owned(), json!(body), PATIENCE)
    }

    fn answer(body: u32) -> Answer {
        Answer {
            code: Some(0),
            message: String::new(),
            body: json!(body),
        }
    }

    #[tokio::test]
    async fn commands_of_one_id_go_one_after_the_other() {
        let (mut exchange, now) = (Exchange::default(), Instant::now());
        let (first, first_reply) = command("a", 1);
        let (second, second_reply) = command("a", 2);
        let (other, _other_reply) = command("b", 3);
        assert!(exchange.submit(first, now).unwrap().contains("\"body\":1"));
        assert_eq!(exchange.submit(second, now), None);
        assert!(exchange.submit(other, now).is_some());
        assert_eq!(exchange.answered("unknown", answer(0), now), None);
        let next = exchange.answered("a", answer(10), now).unwrap();
        assert!(next.contains("\"body\":2"), "{next}");
        assert_eq!(exchange.answered("a", answer(20), now), None);
        assert_eq!(first_reply.wait(PATIENCE).await, Ok(json!(10)));
        assert_eq!(second_reply.wait(PATIENCE).await, Ok(json!(20)));
        assert_eq!(exchange.lines.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn late_answer_belongs_to_the_command_that_gave_up() {
        let (mut exchange, now) = (Exchange::default(), Instant::now());
        let (first, _reply) = command("a", 1);
        let (second, reply) = command("a", 2);
        exchange.submit(first, now);
        exchange.submit(second, now);
        assert_eq!(exchange.deadline(), Some(now + PATIENCE));
        assert_eq!(exchange.expire(now), Vec::<String>::new());
        let later = now + PATIENCE;
        assert_eq!(exchange.expire(later).len(), 1);
        assert_eq!(exchange.answered("a", answer(10), later), None);
        assert_eq!(exchange.answered("a", answer(20), later), None);
        assert_eq!(reply.wait(PATIENCE).await, Ok(json!(20)));
        // Nothing stays behind.
        assert_eq!((exchange.lines.len(), exchange.deadline()), (0, None));
    }

    #[test]
    fn unanswered_commands_are_forgotten_in_the_end() {
        let (mut exchange, now) = (Exchange::default(), Instant::now());
        let (only, _reply) = command("a", 1);
        exchange.submit(only, now);
        exchange.expire(now + PATIENCE);
        assert_eq!(exchange.deadline(), Some(now + PATIENCE + LATE));
        exchange.expire(now + PATIENCE + LATE);
        assert_eq!((exchange.lines.len(), exchange.deadline()), (0, None));
    }

    #[tokio::test]
    async fn queues_are_bounded() {
        let (mut exchange, now) = (Exchange::default(), Instant::now());
        let mut replies = Vec::new();
        for number in 0..=MAX_WAITING {
            let (command, reply) = command("a", u32::try_from(number).unwrap());
            exchange.submit(command, now);
            replies.push(reply);
        }
        let (excess, reply) = command("a", 0);
        exchange.submit(excess, now);
        assert!(reply.wait(PATIENCE).await.is_err());
        for number in 1..MAX_LINES + 10 {
            let (command, reply) = command(&number.to_string(), 0);
            exchange.submit(command, now);
            replies.push(reply);
        }
        assert_eq!(exchange.lines.len(), MAX_LINES);
    }
}
