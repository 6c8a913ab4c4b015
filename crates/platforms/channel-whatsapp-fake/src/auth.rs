//! The first frame of a client, and the closing of clients that are not admitted.

use serde_json::Value;

use crate::connection::{Out, Role, SocketConnection};
use crate::params::Params;
use crate::state::WhatsAppState;

/// Time until the first frame, in milliseconds.
const AUTH_LIMIT: i64 = 5_000;
/// Pause between pings, in milliseconds.
const PING_INTERVAL: i64 = 20_000;
/// Number of pings that may be without an answer.
const UNANSWERED_LIMIT: u32 = 2;
/// Closes a client that sent no token in time.
pub(crate) const TOO_LATE: u16 = 4001;
/// Closes a client with a wrong token.
pub(crate) const WRONG_TOKEN: u16 = 4003;
/// Closes a second client.
pub(crate) const SECOND_CLIENT: u16 = 4009;
/// Closes a client that leaves pings unanswered.
const GOING_AWAY: u16 = 1001;

impl WhatsAppState {
    pub(crate) fn add_connection(&mut self) -> usize {
        self.connected += 1;
        let now = self.now();
        let open = SocketConnection {
            opened: now,
            pinged: now,
            ..SocketConnection::default()
        };
        self.connections.insert(self.connected, open);
        self.connected
    }

    pub(crate) fn remove_connection(&mut self, connection: usize) {
        self.connections.remove(&connection);
        self.held.retain(|(number, _)| *number != connection);
    }

    /// Admits a client, or closes its connection.
    pub(crate) fn authenticate(&mut self, connection: usize, params: Params<'_>) {
        if params.text("token") != self.token || self.is_revoked {
            return self.close(connection, WRONG_TOKEN);
        }
        let role = match (self.serves, params.number("protocol")) {
            (Role::Version1, _) | (_, None | Some(1)) => Role::Version1,
            (Role::Version2, Some(2)) => Role::Version2,
            (Role::Version2, Some(other)) => {
                self.complain(format!("auth: unknown protocol {other}"));
                Role::Version2
            }
        };
        let others = self.connections.values();
        if role == Role::Version2 && others.filter(|open| open.is_client()).count() > 0 {
            self.rivals += 1;
            self.complain("auth: a second client");
            return self.close(connection, SECOND_CLIENT);
        }
        let greeting = self.link.greeting(role, self.now()).into_iter();
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.role = Some(role);
        open.last = self.journal.told;
        // The Python program's bridge does not greet.
        if self.serves == Role::Version2 {
            let frames = greeting.map(|frame| Out::Text(frame.to_string()));
            open.outbox.extend(frames);
        }
        self.readied += usize::from(role == Role::Version2);
        self.dispatch();
    }

    /// Closes a connection with a code.
    pub(crate) fn close(&mut self, connection: usize, code: u16) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.is_leaving = true;
            open.outbox.push_back(Out::Close(code));
        }
    }

    /// Returns the time at which a connection has to be looked at, in milliseconds of the fake's
    /// clock.
    fn due(open: &SocketConnection) -> i64 {
        if open.role.is_none() {
            open.opened.saturating_add(AUTH_LIMIT)
        } else {
            open.pinged.saturating_add(PING_INTERVAL)
        }
    }

    /// Returns the time until [`Self::tick`] has something to do, in milliseconds.
    pub(crate) fn until_tick(&self, connection: usize) -> i64 {
        let open = self.connections.get(&connection);
        let open = open.filter(|open| !open.is_leaving);
        open.map_or(PING_INTERVAL, |open| Self::due(open) - self.now())
    }

    /// Closes a connection without a token, and pings one with a token.
    pub(crate) fn tick(&mut self, connection: usize) {
        let now = self.now();
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        if open.is_leaving || Self::due(open) > now {
            return;
        }
        if open.role.is_none() {
            return self.close(connection, TOO_LATE);
        }
        if self.serves == Role::Version1 {
            open.pinged = now;
        } else if open.unanswered >= UNANSWERED_LIMIT {
            self.complain("a client that answers no pings");
            self.close(connection, GOING_AWAY);
        } else {
            open.pinged = now;
            open.unanswered += 1;
            open.outbox.push_back(Out::Ping);
        }
    }

    /// Notes the answer to a ping.
    pub(crate) fn pong(&mut self, connection: usize) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.unanswered = 0;
        }
    }

    /// Handles the first frame of a connection.
    pub(crate) fn handle_first(&mut self, connection: usize, frame: &Value) {
        match frame.as_object().map(Params) {
            Some(params) if params.text("type") == "auth" => self.authenticate(connection, params),
            _ => {
                self.complain("the first frame is no auth");
                self.close(connection, WRONG_TOKEN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::account::TOKEN;
    use crate::probe::{FIRST, Probe};

    #[test]
    fn only_the_token_admits() {
        let mut probe = Probe::without_client(Role::Version2);
        for token in ["", "wrong"] {
            let number = probe.state.add_connection();
            assert_eq!(probe.auth(number, token, Some(2)), ["Close(4003)"]);
        }
        probe.state.is_revoked = true;
        assert_eq!(probe.connect(Some(2)).1, ["Close(4003)"]);
        assert_eq!(probe.complaints(), Vec::<String>::new());
        probe.state.is_revoked = false;
        let number = probe.state.add_connection();
        let frame = json!({"type": "send", "to": "x", "text": "x"}).to_string();
        probe.state.handle_frame(number, &frame);
        assert_eq!(probe.outs(number), ["Close(4003)"]);
        // A connection that is closed is not listened to.
        assert_eq!(probe.auth(number, TOKEN, Some(2)), Vec::<Value>::new());
        assert_eq!(probe.complaints(), ["the first frame is no auth"]);
        assert_eq!(probe.state.readied, 0);
    }

    #[test]
    fn second_client_is_closed_while_the_first_is_connected() {
        let mut probe = Probe::new();
        let (_, frames) = probe.connect(Some(2));
        assert_eq!(frames, ["Close(4009)"]);
        assert_eq!((probe.state.rivals, probe.complaints().len()), (1, 1));
        // Clients of version 1 do not count.
        assert_eq!(probe.connect(None).1[0]["type"], "status");
        probe.state.remove_connection(FIRST);
        assert_eq!(probe.connect(Some(2)).1[0]["type"], "ready");
    }

    #[test]
    fn token_is_expected_within_five_seconds() {
        let mut probe = Probe::new();
        let number = probe.state.add_connection();
        probe.state.tick(number);
        assert_eq!(probe.outs(number), Vec::<Value>::new());
        assert!(probe.state.until_tick(number) > 0);
        probe.state.advanced = Duration::from_secs(5);
        assert!(probe.state.until_tick(number) <= 0);
        probe.state.tick(number);
        assert_eq!(probe.outs(number), ["Close(4001)"]);
        probe.state.tick(FIRST);
        assert_eq!(probe.outs(FIRST), Vec::<Value>::new());
    }

    #[test]
    fn client_that_answers_no_pings_is_closed() {
        let mut probe = Probe::new();
        let mut after = |seconds, is_answered: bool| {
            probe.state.advanced = Duration::from_secs(seconds);
            probe.state.tick(FIRST);
            if is_answered {
                probe.state.pong(FIRST);
            }
            probe.outs(FIRST)
        };
        for seconds in [20, 40, 60] {
            assert_eq!(after(seconds, true), ["Ping"]);
        }
        assert_eq!(after(70, false), Vec::<Value>::new());
        assert_eq!(
            (after(80, false), after(100, false)),
            (vec![json!("Ping")], vec![json!("Ping")])
        );
        assert_eq!(after(120, false), ["Close(1001)"]);
        assert_eq!(probe.complaints(), ["a client that answers no pings"]);
    }
}
