//! Messages that a sync left out, because more came than it holds.

use std::time::Duration;

use nanobot_channel::Value;
use nanobot_channel_kit::backoff;
use reqwest::Method;

use crate::api::Path;
use crate::channel::Matrix;
use crate::error::CallError;
use crate::wire::{Event, JoinedRoom, member, text};

/// Events of a page.
const PAGE: usize = 100;
/// Most pages of one gap: 1,000 events. Older ones are passed over.
const MAX_PAGES: usize = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that is kept before missed messages are read again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

impl Matrix {
    /// Returns the events of a room since the last sync, the oldest first. In a room that was
    /// entered meanwhile, those since the invitation.
    pub(crate) async fn events_since(&self, mut room: JoinedRoom, since: &str) -> Vec<Event> {
        let user = self.names().user_id;
        let mut timeline = std::mem::take(&mut room.timeline);
        if let Some(at) = entry(&timeline, &user) {
            return timeline.split_off(at);
        }
        let before = room.prev_batch.filter(|_| room.is_limited);
        let Some(before) = before else {
            return timeline;
        };
        let mut events = self.history(&room.id, before, since, &user).await;
        events.extend(timeline);
        events
    }

    /// Reads a gap backwards, page by page.
    async fn history(&self, room: &str, before: String, since: &str, user: &str) -> Vec<Event> {
        let (mut newest_first, mut from) = (Vec::new(), before);
        for page in 0..=MAX_PAGES {
            if page == MAX_PAGES {
                tracing::warn!(
                    room,
                    "more messages were missed than are read; older ones are passed over"
                );
                break;
            }
            let Some(answer) = self.page(room, &from, since).await else {
                break;
            };
            let chunk = member(&answer, "chunk").as_array();
            let events: Vec<Event> = chunk
                .into_iter()
                .flatten()
                .take(PAGE)
                .cloned()
                .map(Event)
                .collect();
            let is_known = |event: &Event| {
                event
                    .id()
                    .is_some_and(|id| self.recent().contains(&id.to_owned()))
            };
            let end = events
                .iter()
                .position(|event| is_known(event) || is_entry(event, user));
            let is_last = end.is_some();
            newest_first.extend(events.into_iter().take(end.unwrap_or(PAGE)));
            let next = text(&answer, "end");
            if is_last || next.is_empty() || next == from || next == since {
                break;
            }
            next.clone_into(&mut from);
        }
        newest_first.reverse();
        newest_first
    }

    /// Reads a page. Tries until there is an answer; `None` if the homeserver refuses.
    async fn page(&self, room: &str, from: &str, since: &str) -> Option<Value> {
        let limit = PAGE.to_string();
        let path = Path {
            segments: &["_matrix", "client", "v3", "rooms", room, "messages"],
            query: &[
                ("dir", "b"),
                ("from", from),
                ("to", since),
                ("limit", &limit),
            ],
        };
        for tries in 0.. {
            let error = match self.api.call(Method::GET, path, None).await {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            let pause = match &error {
                CallError::Refused(_) | CallError::Misunderstood(_) | CallError::Setup(_) => {
                    tracing::warn!(room, %error, "missed messages of a room cannot be read");
                    return None;
                }
                CallError::RateLimited(pause) => (*pause).clamp(FIRST_PAUSE, LONGEST_PAUSE),
                CallError::Unreachable(_) | CallError::Interrupted(_) => {
                    backoff(FIRST_PAUSE, tries)
                }
            };
            tracing::debug!(room, %error, "missed messages are read again after a pause");
            tokio::time::sleep(pause).await;
        }
        None
    }
}

/// Returns the place of the first event after the account was invited or joined, if that is in the
/// timeline.
fn entry(timeline: &[Event], user: &str) -> Option<usize> {
    let at = timeline.iter().position(|event| is_entry(event, user))?;
    Some(at + 1)
}

/// `true` if with this event the account comes into a room.
fn is_entry(event: &Event, user: &str) -> bool {
    let was_in = |content: &Value| matches!(text(content, "membership"), "join" | "invite");
    event.kind() == "m.room.member"
        && event.state_key() == Some(user)
        && was_in(event.content())
        && !was_in(member(member(&event.0, "unsigned"), "prev_content"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entry_is_the_first_change_to_a_member() {
        let member = |user: &str, membership: &str, before: Value| {
            Event(json!({
                "type": "m.room.member", "state_key": user,
                "content": {"membership": membership},
                "unsigned": {"prev_content": {"membership": before}},
            }))
        };
        let timeline = [
            member("@ann:x", "join", json!(null)),
            member("@bot:x", "invite", json!(null)),
            member("@bot:x", "join", json!("invite")),
        ];
        assert_eq!(entry(&timeline, "@bot:x"), Some(2));
        let renamed = [member("@bot:x", "join", json!("join"))];
        assert_eq!(entry(&renamed, "@bot:x"), None);
        let left = [member("@bot:x", "leave", json!("join"))];
        assert_eq!(entry(&left, "@bot:x"), None);
    }
}
