//! Source of the replies of a scripted model: a queue first, then a rule.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;

use crate::reply::Reply;
use crate::sync::lock;

type Rule<Q> = Box<dyn Fn(&Q) -> Reply + Send + Sync>;

pub(crate) struct ReplyScript<Q> {
    queue: Mutex<VecDeque<Reply>>,
    rule: Option<Rule<Q>>,
}

impl<Q> ReplyScript<Q> {
    pub(crate) fn queue(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            queue: Mutex::new(replies.into_iter().collect()),
            rule: None,
        }
    }

    pub(crate) fn rule(rule: impl Fn(&Q) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            queue: Mutex::default(),
            rule: Some(Box::new(rule)),
        }
    }

    pub(crate) fn push(&self, reply: Reply) {
        lock(&self.queue).push_back(reply);
    }

    /// Returns the reply to this request; `None` if the script is exhausted.
    pub(crate) fn next(&self, request: &Q) -> Option<Reply> {
        let queued = lock(&self.queue).pop_front();
        queued.or_else(|| self.rule.as_ref().map(|rule| rule(request)))
    }

    /// Returns the number of queued replies that were not used yet.
    pub(crate) fn left(&self) -> usize {
        lock(&self.queue).len()
    }
}

impl<Q> fmt::Debug for ReplyScript<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyScript")
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}
