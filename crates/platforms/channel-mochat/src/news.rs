//! News of a session or a panel, handled in order: events, polls, and the end of a silence.
//!
//! Decision: a position moves past an event only after the message is with the assistant, or is
//! none for it. If a push does not follow on the position, what is missing is asked for first; if
//! that fails, the push is left alone, and a later poll finds all of it.
//!
//! A push that still does not follow is handled, and moves nothing: a wrong number in it must not
//! hide what comes later. If the position is further after a pushed message than a history is long,
//! the position was wrong, and moves back.

use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::Next;

use crate::channel::Mochat;
use crate::checks::CheckOutcome;
use crate::error::CallError;
use crate::event::Change;
use crate::target::Target;
use crate::wire::{Batch, ChatMessage, Event, MESSAGE_ADDED, PanelPage};

/// The time that a poll waits which expects an answer at once.
const QUICK: Duration = Duration::from_millis(200);
/// The longest pause that is waited for when Mochat asks for one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Number of events that no session has.
const MAX_HISTORY: u64 = 1 << 32;

/// News of a session or a panel.
#[derive(Debug)]
pub struct TargetNews {
    pub(crate) target: Target,
    pub(crate) news: News,
}

/// The kinds of news.
#[derive(Debug)]
pub(crate) enum News {
    /// It is to be asked over HTTP.
    Check {
        /// `true` if the answer may wait for an event.
        waits: bool,
    },
    /// Events were pushed.
    Batch(Batch),
    /// A message was pushed of which the event may have only a part.
    Inbox(nanobot_channel::Value),
    /// The silence after collected messages is long enough.
    Silence,
}

/// Handled news.
#[derive(Debug)]
pub struct NewsReceipt {
    pub(crate) target: Target,
    pub(crate) is_check: bool,
    pub(crate) outcome: CheckOutcome,
}

impl Mochat {
    /// Handles news until they are stored or passed over.
    pub(crate) async fn handle_news(
        &self,
        news: TargetNews,
        context: &ChannelContext,
    ) -> (NewsReceipt, Next) {
        let TargetNews { target, news } = news;
        let is_check = matches!(news, News::Check { .. });
        let handled = match (&target, news) {
            (Target::Session(session), News::Check { waits }) => {
                self.check_session(session, waits, context).await
            }
            (Target::Panel(panel), News::Check { .. }) => self.check_panel(panel, context).await,
            (Target::Session(session), News::Batch(batch)) => {
                self.session_pushed(session, batch, context).await
            }
            (Target::Session(session), News::Inbox(entry)) => {
                self.inbox_pushed(session, &entry, context).await
            }
            (Target::Panel(_), News::Batch(batch)) => {
                Ok(self.handle_events(&target, batch.events, context).await)
            }
            (Target::Panel(panel), News::Silence) => Ok(self.silence(panel, context).await),
            (Target::Panel(_), News::Inbox(_)) | (Target::Session(_), News::Silence) => {
                Ok(Next::Confirm)
            }
        };
        let (outcome, next) = match handled {
            Ok(next) => (CheckOutcome::Answered, next),
            Err(error) => (self.failed(&target, error, context), Next::Confirm),
        };
        let receipt = NewsReceipt {
            target,
            is_check,
            outcome,
        };
        (receipt, next)
    }

    /// Judges a failed poll.
    fn failed(&self, target: &Target, error: CallError, context: &ChannelContext) -> CheckOutcome {
        if error.is(|refusal| refusal.is_about_the_place()) {
            tracing::debug!(channel = %self.base.name, target = target.id(), %error, "a target is gone");
            return CheckOutcome::Gone;
        }
        let error = error.repeatable();
        self.rejection.observe(&error);
        context.progress.degraded(&error.to_string());
        CheckOutcome::Failed(match error {
            ChannelError::RateLimited { retry_after } => Some(retry_after.min(LONGEST_PAUSE)),
            _ => None,
        })
    }

    /// Asks for the events after the position in a session.
    async fn check_session(
        &self,
        session: &str,
        waits: bool,
        context: &ChannelContext,
    ) -> Result<Next, CallError> {
        let cursor = self.targets.cursor(session);
        let patience = if waits && cursor.is_some() {
            self.config.watch_timeout()
        } else {
            QUICK
        };
        let batch = self.api.watch(session, cursor.unwrap_or(0), patience);
        let batch = batch.await?;
        context.progress.alive();
        self.session_events(session, batch, u64::MAX, context).await
    }

    /// Handles pushed events of a session, after what is missing before them.
    async fn session_pushed(
        &self,
        session: &str,
        batch: Batch,
        context: &ChannelContext,
    ) -> Result<Next, CallError> {
        let first = batch.events.iter().find_map(|event| event.seq);
        let cursor = self.targets.cursor(session);
        let has_gap = cursor
            .zip(first)
            .is_some_and(|(cursor, first)| first > cursor.saturating_add(1));
        if has_gap && self.catch_up(session, context).await? == Next::Stop {
            return Ok(Next::Stop);
        }
        self.correct_position(session, &batch);
        let count = u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
        let cursor = self.targets.cursor(session);
        let reach = cursor.map_or(u64::MAX, |cursor| cursor.saturating_add(count));
        self.session_events(session, batch, reach, context).await
    }

    /// Moves a position back that is too far after a push to be one.
    fn correct_position(&self, session: &str, batch: &Batch) {
        let first = batch.events.iter().filter_map(|event| event.seq).min();
        if let Some((first, cursor)) = first.zip(self.targets.cursor(session))
            && cursor.saturating_sub(first) > MAX_HISTORY
        {
            tracing::warn!(channel = %self.base.name, session, cursor, first, "a position was wrong");
            self.targets.set_back(session, first.saturating_sub(1));
        }
    }

    /// Handles the events of an answer or a push, and asks for more if there may be more. The
    /// position moves up to `reach`.
    async fn session_events(
        &self,
        session: &str,
        batch: Batch,
        reach: u64,
        context: &ChannelContext,
    ) -> Result<Next, CallError> {
        if self.targets.is_cold(session) {
            return self.skip_session_history(session, batch).await;
        }
        let is_full = batch.is_full(self.config.watch_limit);
        if self.session_batch(session, batch, reach, context).await == Next::Stop {
            return Ok(Next::Stop);
        }
        if is_full {
            return self.catch_up(session, context).await;
        }
        Ok(Next::Confirm)
    }

    /// Asks for events until there are no more.
    async fn catch_up(&self, session: &str, context: &ChannelContext) -> Result<Next, CallError> {
        while let Some(cursor) = self.targets.cursor(session) {
            let batch = self.api.watch(session, cursor, QUICK).await?;
            let is_full = batch.is_full(self.config.watch_limit);
            if self.session_batch(session, batch, u64::MAX, context).await == Next::Stop {
                return Ok(Next::Stop);
            }
            if !is_full || self.targets.cursor(session) == Some(cursor) {
                break;
            }
        }
        Ok(Next::Confirm)
    }

    /// Handles the events after the position, and moves past them, up to `reach`.
    async fn session_batch(
        &self,
        session: &str,
        batch: Batch,
        reach: u64,
        context: &ChannelContext,
    ) -> Next {
        let target = Target::Session(session.to_owned());
        let end = batch_end(&batch, self.config.watch_limit);
        for event in batch.events {
            let cursor = self.targets.cursor(session);
            let is_known = event
                .seq
                .zip(cursor)
                .is_some_and(|(seq, cursor)| seq <= cursor);
            if is_known {
                continue;
            }
            let seq = event.seq;
            if self.handle_event(&target, &event, context).await == Next::Stop {
                return Next::Stop;
            }
            if let Some(seq) = seq.filter(|seq| *seq <= reach) {
                self.targets.advance(session, seq);
            }
        }
        if let Some(end) = end.filter(|end| *end <= reach) {
            self.targets.advance(session, end);
        }
        Next::Confirm
    }

    /// Moves past the events that a session had before it was received.
    async fn skip_session_history(
        &self,
        session: &str,
        mut batch: Batch,
    ) -> Result<Next, CallError> {
        loop {
            let last = batch.events.iter().filter_map(|event| event.seq).max();
            let end = last.max(batch_end(&batch, self.config.watch_limit));
            let is_full = batch.is_full(self.config.watch_limit);
            match end {
                Some(end) if is_full => {
                    batch = self.api.watch(session, end, QUICK).await?;
                    let next = batch.events.iter().filter_map(|event| event.seq).max();
                    if next.max(batch.cursor) > Some(end) {
                        continue;
                    }
                    self.targets.advance(session, end);
                }
                Some(end) => self.targets.advance(session, end),
                None => self.targets.warm(session),
            }
            return Ok(Next::Confirm);
        }
    }

    /// Handles a message of which the push may have only a part: the whole one is asked for.
    async fn inbox_pushed(
        &self,
        session: &str,
        entry: &nanobot_channel::Value,
        context: &ChannelContext,
    ) -> Result<Next, CallError> {
        let target = Target::Session(session.to_owned());
        let message = ChatMessage::read_inbox(entry);
        if self.targets.knows(&target, &message.id) {
            return Ok(Next::Confirm);
        }
        if self.catch_up(session, context).await? == Next::Stop {
            return Ok(Next::Stop);
        }
        let payload = entry.to_string();
        Ok(self
            .handle_message(&target, message, &payload, context)
            .await)
    }

    /// Asks for the newest messages of a panel, and handles those after the position.
    async fn check_panel(&self, panel: &str, context: &ChannelContext) -> Result<Next, CallError> {
        let page = self.api.panel_page(panel).await?;
        context.progress.alive();
        if self.targets.is_cold_panel(panel) {
            self.targets.skip_history(panel, &page);
            return Ok(Next::Confirm);
        }
        let events = self.new_events(panel, page);
        let target = Target::Panel(panel.to_owned());
        Ok(self.handle_events(&target, events, context).await)
    }

    /// Returns the messages of a panel after the position, as events.
    fn new_events(&self, panel: &str, page: PanelPage) -> Vec<Event> {
        let group = page.group;
        let event = |mut payload: nanobot_channel::Value| {
            let members = payload.as_object_mut();
            if let Some(members) = members.filter(|_| !group.is_empty()) {
                let own = members.entry("groupId").or_insert(group.as_str().into());
                if own.is_null() {
                    *own = group.as_str().into();
                }
            }
            Event {
                kind: MESSAGE_ADDED.to_owned(),
                payload,
                ..Event::default()
            }
        };
        let events: Vec<Event> = page.messages.into_iter().map(event).collect();
        let ids: Vec<String> = events
            .iter()
            .map(|event| ChatMessage::read(&event.payload, &event.timestamp).id)
            .collect();
        let handled = self.targets.handled_of(panel, &ids).unwrap_or(0);
        events.into_iter().skip(handled).collect()
    }

    /// Handles events without positions.
    async fn handle_events(
        &self,
        target: &Target,
        events: Vec<Event>,
        context: &ChannelContext,
    ) -> Next {
        for event in events {
            if self.handle_event(target, &event, context).await == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Confirm
    }

    /// Handles one event.
    async fn handle_event(&self, target: &Target, event: &Event, context: &ChannelContext) -> Next {
        match (Change::read(event), target) {
            (Some(Change::Added(mut message)), _) => {
                if message.id.is_empty()
                    && let Some(seq) = event.seq
                {
                    message.id = format!("seq-{seq}");
                }
                let payload = event.payload.to_string();
                self.handle_message(target, message, &payload, context)
                    .await
            }
            (Some(Change::Updated { id, content }), Target::Panel(panel)) => {
                self.targets
                    .collection(panel, |collection| collection.update(&id, content));
                Next::Confirm
            }
            (Some(Change::Removed(id)), Target::Panel(panel)) => {
                let is_removed = self
                    .targets
                    .collection(panel, |collection| collection.remove(&id));
                if is_removed == Some(true) {
                    self.targets.delivered(panel, &[&id]);
                }
                Next::Confirm
            }
            _ => Next::Confirm,
        }
    }
}

/// Returns the position after a batch. If more may follow, the position that it names may be that
/// of all events, so the last event counts.
fn batch_end(batch: &Batch, limit: usize) -> Option<u64> {
    let last = batch.events.iter().filter_map(|event| event.seq).max();
    if batch.is_full(limit) && last.is_some() {
        last
    } else {
        batch.cursor.max(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_of_a_full_batch_is_its_last_event() {
        let batch = |seqs: &[u64], cursor| Batch {
            cursor,
            events: seqs
                .iter()
                .map(|seq| Event {
                    seq: Some(*seq),
                    ..Event::default()
                })
                .collect(),
            ..Batch::default()
        };
        let table = [
            (batch(&[], None), None),
            (batch(&[], Some(7)), Some(7)),
            (batch(&[3], Some(7)), Some(7)),
            (batch(&[3], None), Some(3)),
            (batch(&[3, 4], Some(7)), Some(4)),
        ];
        for (batch, expected) in table {
            assert_eq!(batch_end(&batch, 2), expected, "{batch:?}");
        }
    }
}
