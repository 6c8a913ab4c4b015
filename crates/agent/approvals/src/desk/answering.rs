//! Receives messages that answer questions.

use chrono::{DateTime, Utc};
use nanobot_types::{InboundMessage, OWN_LINE_KEY, Origin};

use super::Approvals;
use crate::answer::{self, Answer, Reply};
use crate::book::Book;
use crate::question::{OpenQuestion, QuestionState};
use crate::store::ApprovalError;

impl Approvals {
    /// Reads a message as an answer. If it is one, the answer is durable when this returns.
    /// [`Reply::Instead`] refuses the call, and the message is to be handled as usual. `None` means
    /// that the message answers nothing.
    ///
    /// # Errors
    /// Returns the error of the file; nothing is answered then.
    pub async fn answer(&self, message: &InboundMessage) -> Result<Option<Reply>, ApprovalError> {
        if message.origin != Origin::User {
            return Ok(None);
        }
        let stale = answer::is_button(own_words(message)).then_some(Reply::Stale);
        // Most homes never had a question, and this look is quicker than to leave the runtime for it.
        if !self.store.exists() {
            return Ok(stale);
        }
        let now = Utc::now();
        let received = message.clone();
        let settled = self.with_store(move |store| {
            if store.questions()?.is_empty() {
                return Ok(None);
            }
            store.edit(|book| settle(book, &received, now))
        });
        let Some((question, reply)) = settled.await? else {
            return Ok(stale);
        };
        let outcome = match reply {
            Reply::Answers(Answer::Once) => "allowed once",
            Reply::Answers(Answer::Always) => "allowed always",
            Reply::Answers(Answer::No) | Reply::Instead => "refused",
            Reply::Stale => return Ok(Some(Reply::Stale)),
        };
        self.settled(&question, outcome, Some(&message.sender_id))
            .await;
        self.answers
            .send_modify(|count| *count = count.wrapping_add(1));
        Ok(Some(reply))
    }
}

/// Returns the words of the person: the text, or the line of it that the channel found to be all that
/// the person wrote.
fn own_words(message: &InboundMessage) -> &str {
    let own = message.metadata.get(OWN_LINE_KEY);
    own.and_then(|line| line.as_str())
        .unwrap_or(&message.content)
}

/// Applies a message to the question that it answers, and returns that question.
fn settle(
    book: &mut Book,
    message: &InboundMessage,
    now: DateTime<Utc>,
) -> Option<(OpenQuestion, Reply)> {
    let may_answer = |question: &OpenQuestion| {
        question.state == QuestionState::Asked
            && question.address.channel == message.channel
            && question.address.chat_id == message.chat_id
            && question
                .sender
                .as_ref()
                .is_none_or(|sender| *sender == message.sender_id)
    };
    let names_it = |question: &OpenQuestion| {
        let last = own_words(message).split_whitespace().next_back();
        last.is_some_and(|code| code.eq_ignore_ascii_case(&question.code))
    };
    // A button says which question it answers. Other words answer the newest one, unless they were
    // received before it: after a crash, messages that waited are routed again.
    let open = book
        .questions
        .iter()
        .rposition(|question| may_answer(question) && names_it(question));
    let open = open.or_else(|| {
        book.questions.iter().rposition(|question| {
            may_answer(question)
                && question.expires_at > now
                && message.timestamp >= question.asked_at
        })
    })?;
    let question = book.questions.get_mut(open)?;
    let reply = answer::read(own_words(message), question);
    // Other words of many people in a chat are no answer of the one who has to decide.
    if reply == Reply::Stale || (reply == Reply::Instead && question.sender.is_none()) {
        return (reply == Reply::Stale).then(|| (question.clone(), reply));
    }
    question.state = match reply {
        Reply::Answers(Answer::Once | Answer::Always) => QuestionState::Granted,
        _ => QuestionState::Refused,
    };
    let settled = question.clone();
    if reply == Reply::Answers(Answer::Always) {
        book.grant(&settled, &message.sender_id, now);
    }
    Some((settled, reply))
}
