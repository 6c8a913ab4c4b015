//! The reaction that a message carries while it is worked on, and the one at the end.
//!
//! Messages that come while a turn runs are taken into it, so the end of a turn is the end for every
//! message of its conversation. Bounded, and in memory only; after a restart only the message that
//! the turn answers is known.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{ChannelName, ChatId, DeliveryContext};
use slack_morphism::api::{SlackApiReactionsAddRequest, SlackApiReactionsRemoveRequest};
use slack_morphism::{SlackChannelId, SlackReactionName, SlackTs};

use crate::api::{Api, Done};
use crate::candidate::Candidate;
use crate::channel::SlackChannel;
use crate::error::{CallError, Refusal};

/// How many messages are remembered as worked on.
const REMEMBERED: usize = 256;

/// The messages that carry the reaction.
#[derive(Debug, Default)]
pub(crate) struct Reactions(Mutex<VecDeque<Marked>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marked {
    chat: String,
    thread: Option<String>,
    ts: String,
}

impl Reactions {
    fn remember(&self, marked: Marked) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.pop_front();
        }
        all.push_back(marked);
    }

    /// The messages of one conversation; they are not remembered any more.
    fn take(&self, chat: &str, thread: Option<&str>) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |marked: &Marked| marked.chat == chat && marked.thread.as_deref() == thread;
        let taken = all
            .iter()
            .filter(|marked| is_of(marked))
            .map(|marked| marked.ts.clone())
            .collect();
        all.retain(|marked| !is_of(marked));
        taken
    }
}

impl SlackChannel {
    /// Marks a message as worked on, without waiting for it.
    pub(crate) fn begin_reaction(&self, candidate: &Candidate) {
        let Some(ts) = candidate
            .origin
            .message
            .clone()
            .filter(|_| !self.config.react_emoji.is_empty())
        else {
            return;
        };
        let (chat, thread) = (
            candidate.chat.to_string(),
            candidate.delivery.thread.clone(),
        );
        self.reactions.remember(Marked {
            chat: chat.clone(),
            thread,
            ts: ts.clone(),
        });
        let (api, name, emoji) = (
            Arc::clone(&self.api),
            self.name.clone(),
            self.config.react_emoji.clone(),
        );
        self.in_background(async move { log(&name, add(&api, &chat, &ts, &emoji).await) });
    }

    /// Marks the messages of a conversation as done.
    pub(crate) async fn end_reactions(&self, chat: &ChatId, delivery: &DeliveryContext) {
        let mut messages = self
            .reactions
            .take(chat.as_str(), delivery.thread.as_deref());
        if messages.is_empty() {
            messages.extend(delivery.reply_to.iter().map(ToString::to_string));
        }
        let (working, done) = (&self.config.react_emoji, &self.config.done_emoji);
        for ts in messages {
            if !working.is_empty() {
                log(
                    &self.name,
                    remove(&self.api, chat.as_str(), &ts, working).await,
                );
            }
            if !done.is_empty() {
                log(&self.name, add(&self.api, chat.as_str(), &ts, done).await);
            }
        }
    }
}

async fn add(api: &Api, chat: &str, ts: &str, emoji: &str) -> Result<Done, CallError> {
    let name = SlackReactionName::new(emoji.to_owned());
    let (chat, ts) = (
        SlackChannelId::new(chat.to_owned()),
        SlackTs::new(ts.to_owned()),
    );
    api.call(
        "reactions.add",
        &SlackApiReactionsAddRequest::new(chat, name, ts),
    )
    .await
}

async fn remove(api: &Api, chat: &str, ts: &str, emoji: &str) -> Result<Done, CallError> {
    let (chat, ts) = (
        SlackChannelId::new(chat.to_owned()),
        SlackTs::new(ts.to_owned()),
    );
    let request = SlackApiReactionsRemoveRequest::new(SlackReactionName::new(emoji.to_owned()));
    api.call(
        "reactions.remove",
        &request.with_channel(chat).with_timestamp(ts),
    )
    .await
}

fn log(channel: &ChannelName, outcome: Result<Done, CallError>) {
    if let Err(error) = outcome
        && !error.is(Refusal::is_so_already)
    {
        tracing::debug!(%channel, %error, "a reaction could not be set");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_turn_is_the_end_for_its_conversation() {
        let reactions = Reactions::default();
        let mark = |chat: &str, thread: Option<&str>, ts: &str| {
            reactions.remember(Marked {
                chat: chat.into(),
                thread: thread.map(str::to_owned),
                ts: ts.into(),
            });
        };
        mark("C1", Some("1"), "1");
        mark("C1", Some("1"), "2");
        mark("C1", None, "3");
        mark("D1", None, "4");
        assert_eq!(reactions.take("C1", Some("1")), ["1", "2"]);
        assert!(reactions.take("C1", Some("1")).is_empty());
        assert_eq!(
            (reactions.take("C1", None), reactions.take("D1", None)),
            (vec!["3".to_owned()], vec!["4".to_owned()])
        );
    }
}
