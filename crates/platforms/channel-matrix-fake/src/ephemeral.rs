//! Typing and receipts.

use serde_json::Value;

use crate::api::{ApiError, ApiResult, nothing};
use crate::model::{Receipt, Room};
use crate::params::Params;
use crate::state::MatrixState;

/// Time for which a user types if the client gives none.
const USUAL_TYPING: u64 = 30_000;
/// Types of receipts.
const RECEIPTS: [&str; 3] = ["m.read", "m.read.private", "m.fully_read"];

impl MatrixState {
    pub(crate) fn type_in(&mut self, params: &Params) -> ApiResult {
        let (room, user) = (params.segment(0), params.segment(1));
        params.check_user(user)?;
        self.joined_room(room, &params.user)?;
        let is_typing = params.body.get("typing") == Some(&Value::Bool(true));
        let timeout = params.body.get("timeout").and_then(Value::as_u64);
        let timeout = is_typing.then(|| timeout.unwrap_or(USUAL_TYPING));
        self.set_typing(room, user, timeout);
        nothing()
    }

    /// Lets a user type for this many milliseconds; `None` ends it.
    pub(crate) fn set_typing(&mut self, room: &str, user: &str, timeout: Option<u64>) {
        let (now, position) = (self.now(), self.next_position());
        let Some(room) = self.rooms.get_mut(room) else {
            return;
        };
        match timeout {
            Some(timeout) => {
                let end = now.saturating_add(i64::try_from(timeout).unwrap_or(i64::MAX));
                room.typing.insert(user.to_owned(), end);
            }
            None => {
                room.typing.remove(user);
            }
        }
        room.typing_changed = position;
    }

    pub(crate) fn typing_users(&self, room: &Room) -> Vec<String> {
        let now = self.now();
        let typing = room.typing.iter().filter(|(_, end)| **end > now);
        typing.map(|(user, _)| user.clone()).collect()
    }

    pub(crate) fn is_typing(&self, room: &str, user: &str) -> bool {
        let room = self.rooms.get(room);
        room.is_some_and(|room| self.typing_users(room).iter().any(|other| other == user))
    }

    pub(crate) fn receipt(&mut self, params: &Params) -> ApiResult {
        let kind = params.segment(1);
        if !RECEIPTS.contains(&kind) {
            return Err(ApiError::malformed(format!(
                "{kind} is no type of receipts"
            )));
        }
        let thread = params.text("thread_id").map(str::to_owned);
        self.add_receipt(params, kind, params.segment(2), thread)?;
        nothing()
    }

    pub(crate) fn read_markers(&mut self, params: &Params) -> ApiResult {
        for kind in RECEIPTS {
            if let Some(event_id) = params.text(kind) {
                self.add_receipt(params, kind, event_id, None)?;
            }
        }
        nothing()
    }

    fn add_receipt(
        &mut self,
        params: &Params,
        kind: &str,
        event_id: &str,
        thread: Option<String>,
    ) -> Result<(), ApiError> {
        let room = params.segment(0);
        let is_known = self
            .joined_room(room, &params.user)?
            .entry(event_id)
            .is_some();
        if !is_known {
            return Err(ApiError::malformed(format!(
                "no event {event_id} in the room"
            )));
        }
        let (time, position) = (self.now(), self.next_position());
        let receipt = Receipt {
            user_id: params.user.clone(),
            kind: kind.to_owned(),
            event_id: event_id.to_owned(),
            thread,
            position,
            time,
        };
        if let Some(room) = self.rooms.get_mut(room) {
            room.receipts.retain(|old| {
                (&old.user_id, &old.kind, &old.thread)
                    != (&receipt.user_id, &receipt.kind, &receipt.thread)
            });
            room.receipts.push(receipt);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use crate::account::BOT_ID;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ROOM, ann, text};

    #[test]
    fn typing_ends_with_its_time_or_a_message() {
        let mut probe = Probe::new();
        let path = format!("rooms/{ROOM}/typing/{BOT_ID}");
        let typing = json!({"typing": true, "timeout": 4000});
        probe.call("PUT", &path, &typing);
        assert!(probe.state.is_typing(ROOM, BOT_ID));
        probe.state.advanced = Duration::from_secs(5);
        assert!(!probe.state.is_typing(ROOM, BOT_ID));
        probe.call("PUT", &path, &typing);
        probe.send("m.room.message", "1", &text("x"));
        assert!(!probe.state.is_typing(ROOM, BOT_ID));
        let foreign = format!("rooms/{ROOM}/typing/{}", ann().user_id);
        assert_eq!(probe.code("PUT", &foreign, &typing), "M_FORBIDDEN");
    }

    #[test]
    fn receipts_replace_earlier_ones_of_their_thread() {
        let mut probe = Probe::new();
        let since = probe.sync("", "")["next_batch"]
            .as_str()
            .unwrap()
            .to_owned();
        let events = ["1", "2"].map(|text| {
            let pushed = probe.state.push(Incoming::to(ROOM, &ann(), text));
            pushed.event_id
        });
        for (event, thread) in [(0, "main"), (1, "main"), (0, "$root")] {
            let path = format!("rooms/{ROOM}/receipt/m.read/{}", events[event]);
            probe.call("POST", &path, &json!({"thread_id": thread}));
        }
        let markers = json!({"m.fully_read": events[1], "m.read.private": events[0]});
        probe.call("POST", &format!("rooms/{ROOM}/read_markers"), &markers);
        let receipts = probe.state.rooms[ROOM].receipts.iter();
        let receipts: Vec<_> = receipts
            .map(|receipt| (receipt.kind.as_str(), receipt.event_id.as_str()))
            .collect();
        let expected = [
            ("m.read", events[1].as_str()),
            ("m.read", &events[0]),
            ("m.read.private", &events[0]),
            ("m.fully_read", &events[1]),
        ];
        assert_eq!(receipts, expected);
        let sync = probe.by_ann().sync(&since, "");
        let shown = &sync["rooms"]["join"][ROOM]["ephemeral"]["events"][0]["content"];
        assert_eq!(shown[&events[0]].as_object().unwrap().len(), 1, "{shown}");
    }

    #[test]
    fn wrong_receipts_are_refused() {
        let mut probe = Probe::new();
        for path in ["m.read/$unknown", "m.odd/$unknown"] {
            let path = format!("rooms/{ROOM}/receipt/{path}");
            assert_eq!(probe.code("POST", &path, &json!({})), "M_INVALID_PARAM");
        }
        assert_eq!(probe.complaints().len(), 2);
    }
}
