//! The calls of `/sync`: filter, size, and what a failure means.
//!
//! Decision: only what is used is asked for, so that answers stay small. An answer that is too
//! large is asked for again with shorter timelines, whose gaps are filled from the history.

use std::time::Duration;

use nanobot_channel::ChannelError;
use serde_json::json;

use crate::api::{Api, SyncAnswer};
use crate::error::{CallError, Refusal, required_call_error};
use crate::wire::SyncResponse;

/// Time that the homeserver waits for news.
pub(crate) const POLL: Duration = Duration::from_secs(30);
/// Most events of a room in one sync.
const TIMELINE_LIMIT: u32 = 50;
/// Refusals of a position in a row after which it is given up.
const MAX_REFUSALS: u32 = 3;

/// The state of polling.
#[derive(Debug)]
pub(crate) struct Poller {
    timeline_limit: u32,
    /// `true` until the rooms are known.
    needs_state: bool,
    refusals: u32,
}

/// The outcome of a poll.
#[derive(Debug)]
pub(crate) enum Polled {
    /// News, perhaps none.
    Changes(Box<SyncResponse>),
    /// The answer was too large; the next poll asks for less.
    Again,
    /// The homeserver does not know the position.
    PositionLost,
}

impl Poller {
    pub(crate) fn new() -> Self {
        Self {
            timeline_limit: TIMELINE_LIMIT,
            needs_state: true,
            refusals: 0,
        }
    }

    /// Asks once for changes since a position.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(crate) async fn poll(
        &mut self,
        api: &Api,
        since: Option<&str>,
    ) -> Result<Polled, ChannelError> {
        let limit = match since {
            Some(_) => self.timeline_limit,
            None => 1,
        };
        let filter = filter(limit);
        let wait = if self.needs_state {
            Duration::ZERO
        } else {
            POLL
        };
        let timeout = wait.as_millis().to_string();
        let mut query = vec![("filter", filter.as_str()), ("timeout", timeout.as_str())];
        if self.needs_state {
            query.push(("full_state", "true"));
        }
        if let Some(since) = since {
            query.push(("since", since));
        }
        let answer = api.sync(&query, wait).await;
        let is_refused = matches!(&answer, Err(error) if error.is(Refusal::is_about_the_request));
        match answer {
            Ok(SyncAnswer::Changes(answer)) => {
                let Some(response) = SyncResponse::read(answer) else {
                    let why = "a sync names no next position".to_owned();
                    return Err(ChannelError::Unavailable(why));
                };
                *self = Self {
                    needs_state: false,
                    ..Self::new()
                };
                Ok(Polled::Changes(Box::new(response)))
            }
            Ok(SyncAnswer::TooLarge) if self.timeline_limit > 1 && since.is_some() => {
                self.timeline_limit = (self.timeline_limit / 5).max(1);
                Ok(Polled::Again)
            }
            Ok(SyncAnswer::TooLarge) => {
                let why = "the answer to a sync is larger than what is read".to_owned();
                Err(ChannelError::Unavailable(why))
            }
            Err(error) if is_refused && since.is_some() => {
                self.refusals += 1;
                if self.refusals < MAX_REFUSALS {
                    return Err(ChannelError::Unavailable(error.to_string()));
                }
                tracing::warn!(%error, "the homeserver does not know the position any more");
                *self = Self::new();
                Ok(Polled::PositionLost)
            }
            Err(error) => Err(poll_error(error)),
        }
    }
}

fn poll_error(error: CallError) -> ChannelError {
    match required_call_error(error) {
        error @ (ChannelError::Auth(_) | ChannelError::RateLimited { .. }) => error,
        error => ChannelError::Unavailable(match error {
            ChannelError::Unavailable(why) => why,
            other => other.to_string(),
        }),
    }
}

/// Returns the filter of a sync. People are loaded lazily, which also makes the homeserver count
/// them.
fn filter(timeline_limit: u32) -> String {
    let state = ["m.room.encryption", "m.room.name", "m.room.member"];
    let timeline = [
        "m.room.message",
        "m.room.encrypted",
        "m.sticker",
        "m.room.encryption",
        "m.room.name",
        "m.room.member",
    ];
    let nothing = json!({"types": [], "not_types": ["*"]});
    json!({
        "presence": nothing,
        "account_data": {"types": ["m.direct"]},
        "room": {
            "account_data": nothing,
            "ephemeral": nothing,
            "state": {"types": state, "lazy_load_members": true},
            "timeline": {
                "types": timeline, "limit": timeline_limit, "lazy_load_members": true,
            },
        },
    })
    .to_string()
}
