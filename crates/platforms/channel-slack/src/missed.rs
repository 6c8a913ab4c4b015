//! What was said while nobody listened: fetched afterwards, the oldest first.
//!
//! Decision: a conversation is caught up with in its own lane, before what is told of it live, so that
//! its order stays; all of them take [turns](crate::turns) at asking Slack. A message that is fetched
//! passes through the same judgement as one that is told. Presses of buttons and slash commands cannot
//! be fetched.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel::{ChannelContext, json};
use nanobot_channel_kit::backoff;
use nanobot_channel_kit::intake::Next;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::candidate::{Identity, of_event};
use crate::channel::SlackChannel;
use crate::error::{CallError, Refusal};
use crate::history::Extent;
use crate::place::Place;
use crate::wire::{Event, said_key};

/// What is older is left out.
const LONGEST_AGO: Duration = Duration::from_hours(24);
/// A thread in which nothing was said for longer is not looked into.
const THREAD_LASTS: Duration = Duration::from_hours(7 * 24);
/// How many threads that were begun meanwhile are looked into, in a conversation.
const NEW_THREADS: usize = 10;
/// How many messages are asked for at a time, and how often.
const PAGE: &str = "200";
const PAGES: usize = 5;
/// How often Slack is asked again when it fails. After that the next connection does.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A longer pause that Slack asks for is left to the next connection.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How long what is told live may wait for what was missed before it.
const PATIENCE: Duration = Duration::from_secs(90);

/// What was missed in a conversation.
#[derive(Debug, Default)]
struct Missed {
    /// Conversation and unread message, by the `ts`.
    messages: BTreeMap<String, (Place, Box<RawValue>)>,
    /// The places of which that is all, with the last `ts` there.
    places: Vec<(Place, String)>,
}

/// The part of a message that is found before it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Placed {
    ts: Option<String>,
    latest_reply: Option<String>,
}

impl SlackChannel {
    /// Fetches what was missed in a conversation, and deals with it.
    pub(crate) async fn catch_up(
        &self,
        me: &Identity,
        chat: &str,
        context: &ChannelContext,
    ) -> Next {
        let behind = self.chats.behind(chat);
        if behind.is_empty() {
            return Next::Confirm;
        }
        let missed = tokio::select! {
            biased;
            missed = self.missed(behind, context) => Some(missed),
            () = self.waited_too_long(chat) => None,
        };
        let Some(Missed { messages, places }) = missed else {
            tracing::warn!(channel = %self.name, chat, "what was said meanwhile took too long to fetch; it is tried again later");
            return Next::Confirm;
        };
        if !messages.is_empty() {
            tracing::info!(channel = %self.name, chat, messages = messages.len(), "what was said meanwhile was fetched");
        }
        for (ts, (place, message)) in messages {
            if self
                .take_missed(me, &place, &ts, message.get(), context)
                .await
                == Next::Stop
            {
                return Next::Stop;
            }
            self.chats.reach(&place, &ts);
        }
        for (place, last) in places {
            self.chats.reach(&place, &last);
            self.chats.catch_up(&place);
        }
        Next::Confirm
    }

    /// Deals with a message that was fetched, which is read after its try was noted.
    async fn take_missed(
        &self,
        me: &Identity,
        place: &Place,
        ts: &str,
        message: &str,
        context: &ChannelContext,
    ) -> Next {
        let (key, progress) = (said_key(&place.chat, ts), context.progress.as_ref());
        let Some(handling) = self
            .quarantine
            .admit(&key, message.as_bytes(), progress)
            .await
        else {
            return Next::Confirm;
        };
        let event = event(&place.chat, message).inspect_err(|error| {
            tracing::warn!(channel = %self.name, %error, "a message could not be read and was passed over");
        });
        match event
            .ok()
            .and_then(|event| of_event(&self.config, me, &event))
        {
            Some(candidate) => self.take("", candidate, handling, context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Returns when something told live waits for longer than it may.
    async fn waited_too_long(&self, chat: &str) {
        self.turns.awaited(chat).await;
        tokio::time::sleep(PATIENCE).await;
    }

    /// Looks through places of a conversation, of which the first tells of new threads.
    async fn missed(&self, behind: Vec<(Place, String)>, context: &ChannelContext) -> Missed {
        let mut missed = Missed::default();
        let known: Vec<Place> = behind.iter().map(|(place, _)| place.clone()).collect();
        let mut behind = VecDeque::from(behind);
        let mut new_threads = 0;
        while let Some((place, last)) = behind.pop_front() {
            if known.contains(&place) && !self.chats.knows(&place) {
                continue;
            }
            if place.thread.is_some() && last < ago(THREAD_LASTS) {
                missed.places.push((place, last));
                continue;
            }
            let after = last.max(ago(LONGEST_AGO));
            let Some(messages) = self.fetch(&place, &after, context).await else {
                continue;
            };
            let mut newest = after.clone();
            for message in messages {
                let Ok(Placed { ts, latest_reply }) = serde_json::from_str::<Placed>(message.get())
                else {
                    continue;
                };
                let ts = ts.filter(|ts| *ts > after).unwrap_or_default();
                // What a thread begins with comes along with its answers.
                if ts.is_empty() || place.thread.as_ref() == Some(&ts) {
                    continue;
                }
                let thread = Place {
                    thread: Some(ts.clone()),
                    ..place.clone()
                };
                let is_answered = latest_reply.is_some();
                if place.thread.is_none()
                    && is_answered
                    && !known.contains(&thread)
                    && new_threads < NEW_THREADS
                {
                    new_threads += 1;
                    behind.push_back((thread, ts.clone()));
                }
                newest = newest.max(ts.clone());
                missed
                    .messages
                    .entry(ts)
                    .or_insert_with(|| (place.clone(), message));
            }
            missed.places.push((place, newest));
        }
        missed
    }

    /// What was said in a place. `None` where that cannot be found out now; the place is forgotten where
    /// it never can.
    async fn fetch(
        &self,
        place: &Place,
        oldest: &str,
        context: &ChannelContext,
    ) -> Option<Vec<Box<RawValue>>> {
        let mut tries = 0;
        loop {
            let extent = Extent {
                oldest,
                page: PAGE,
                pages: PAGES,
                has_metadata: false,
            };
            let error = {
                let _turn = self.turns.turn(&place.chat).await?;
                match self.said(place, extent).await {
                    Ok((messages, is_all)) => {
                        if !is_all {
                            tracing::warn!(
                                channel = %self.name, chat = place.chat,
                                "more than 1000 messages were missed, and some of them are not fetched"
                            );
                        }
                        return Some(messages);
                    }
                    Err(CallError::RateLimited(pause)) if pause <= LONGEST_PAUSE => {
                        // Whoever is next would be told the same.
                        tokio::time::sleep(pause).await;
                        CallError::RateLimited(Duration::ZERO)
                    }
                    Err(error) => error,
                }
            };
            tries += 1;
            match &error {
                CallError::RateLimited(Duration::ZERO) if tries < TRIES => {}
                CallError::Unreachable(_)
                | CallError::Interrupted(_)
                | CallError::Misunderstood(_)
                    if tries < TRIES =>
                {
                    tokio::time::sleep(backoff(FIRST_PAUSE, tries - 1)).await;
                }
                CallError::Refused(refusal) if refusal.is_about_the_place() => {
                    tracing::info!(channel = %self.name, chat = place.chat, %error, "a place is not to be read any more");
                    self.chats.forget(place);
                    return None;
                }
                CallError::Refused(Refusal { code, needed }) if code == "missing_scope" => {
                    self.ask_for_scope(place, needed.as_deref(), context);
                    return Some(Vec::new());
                }
                _ => {
                    tracing::warn!(channel = %self.name, chat = place.chat, %error, "what was said meanwhile cannot be fetched now");
                    return None;
                }
            }
        }
    }

    /// Says once which scope the app needs to be told what was said meanwhile.
    fn ask_for_scope(&self, place: &Place, needed: Option<&str>, context: &ChannelContext) {
        let usual = if place.chat.starts_with('D') {
            "im:history"
        } else {
            "channels:history"
        };
        let scope = needed.unwrap_or(usual);
        if self.chats.is_news(scope) {
            let why = format!(
                "what is said while nanobot is away cannot be fetched: the app needs the scope {scope}; add it and \
                 install the app again"
            );
            tracing::warn!(channel = %self.name, why, "a scope is missing");
            context.progress.degraded(&why);
        }
    }
}

/// The event that would have told of a message.
fn event(chat: &str, message: &str) -> Result<Event, serde_json::Error> {
    let mut event: Event = json::from_str(message)?;
    event.channel = Some(chat.to_owned());
    if event.thread_ts == event.ts {
        event.thread_ts = None;
    }
    Ok(event)
}

/// The `ts` of a time ago.
fn ago(time: Duration) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("{}.000000", now.saturating_sub(time).as_secs())
}
