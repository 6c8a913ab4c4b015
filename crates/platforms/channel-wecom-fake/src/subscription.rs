//! Subscriptions: one connection of the bot gets the pushes.

use serde_json::{Value, json};

use crate::account::{BOT_ID, SECRET};
use crate::api::{ApiError, ApiResult, INVALID_CREDENTIALS};
use crate::connection::Out;
use crate::delivery::frame;
use crate::event::EVENT;
use crate::params::Params;
use crate::state::WeComState;

impl WeComState {
    /// Subscribes a connection. An older one gets `disconnected_event` and is closed.
    pub(crate) fn subscribe(&mut self, connection: usize, params: Params<'_>) -> ApiResult {
        let is_valid = params.text("bot_id") == BOT_ID && params.text("secret") == SECRET;
        if !is_valid || self.is_revoked {
            return Err(ApiError::new(INVALID_CREDENTIALS));
        }
        let others = self.connections.iter();
        let others = others.filter(|(number, open)| **number != connection && open.takes_pushes());
        let others: Vec<usize> = others.map(|(number, _)| *number).collect();
        for other in others {
            self.displace(other);
        }
        let Some(open) = self.connections.get_mut(&connection) else {
            return Ok(Value::Null);
        };
        let is_second = std::mem::replace(&mut open.is_subscribed, true);
        if is_second {
            self.complain("aibot_subscribe: the connection is subscribed already");
        }
        self.subscribed += 1;
        Ok(Value::Null)
    }

    fn displace(&mut self, connection: usize) {
        let body = self.event_body(&json!({"eventtype": "disconnected_event"}));
        let req_id = self.next_id("TESTreq_");
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.is_leaving = true;
        open.outbox
            .push_back(Out::Text(frame(EVENT, &req_id, &body)));
        open.outbox.push_back(Out::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NOT_SUBSCRIBED;
    use crate::incoming::Incoming;
    use crate::probe::{FIRST, Probe, ann};

    #[test]
    fn nothing_else_is_accepted_before_a_subscription() {
        let mut probe = Probe::new();
        probe.connect(2);
        let answer = probe.call_through(2, "ping", "ping_1", &json!({}));
        assert_eq!(answer["errcode"], NOT_SUBSCRIBED);
        assert_eq!(probe.subscribe(2, "wrong"), INVALID_CREDENTIALS);
        probe.state.is_revoked = true;
        assert_eq!(probe.subscribe(2, SECRET), INVALID_CREDENTIALS);
        assert_eq!(probe.complaints().len(), 1);
        assert_eq!(probe.code("ping", "ping_2", &json!({})), 0);
        assert_eq!(probe.state.subscribed, 1);
    }

    #[test]
    fn second_connection_takes_over() {
        let mut probe = Probe::new();
        probe.connect(2);
        assert_eq!(probe.subscribe(2, SECRET), 0);
        let [news, close] = probe.outs(FIRST).try_into().unwrap();
        assert_eq!(news["cmd"], EVENT);
        assert_eq!(news["body"]["event"]["eventtype"], "disconnected_event");
        assert_eq!(close, "Close");
        probe.state.push(Incoming::direct(&ann(), "hello"), true);
        assert_eq!((probe.outs(FIRST).len(), probe.outs(2).len()), (0, 1));
        assert_eq!(probe.complaints(), Vec::<String>::new());
        assert_eq!(probe.subscribe(2, SECRET), 0);
        assert_eq!(probe.complaints().len(), 1);
    }
}
