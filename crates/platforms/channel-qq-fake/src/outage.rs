//! Faults of the transport, and frames about the connection.

use nanobot_testkit::TestkitError;
use serde_json::json;
use tokio::time::Instant;

use crate::connection::Out;
use crate::fake::QqFake;
use crate::state::QqState;

/// Returns `true` for close codes after which a session cannot be resumed.
fn ends_session(code: u16) -> bool {
    matches!(code, 4001 | 4002 | 4006 | 4007 | 4010..=4014 | 4900..=4915)
}

impl QqFake {
    /// Cuts every connection, including those of the API; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(|state| state.leave(&Out::Drop));
    }

    /// Closes every connection of the gateway with this code. After codes that QQ documents as the
    /// end of a session, as 4006, 4007 and 4915, its session is unknown.
    pub fn close_with(&self, code: u16) {
        self.state.change(|state| state.close_all(code));
    }

    /// Asks every client to connect again (opcode 7). Its connection gets no more events, and stays
    /// open until the client closes it.
    pub fn reconnect(&self) {
        self.state.change(|state| {
            let frame = json!({"op": 7}).to_string();
            state.leave(&Out::Text(frame));
        });
    }

    /// Declares every session invalid (opcode 9). Its connection stays open until the client closes
    /// it; the session can be resumed only if `can_resume` is `true`.
    pub fn invalidate(&self, can_resume: bool) {
        self.state.change(|state| {
            let frame = json!({"op": 9, "d": can_resume}).to_string();
            state.leave(&Out::Text(frame));
            if !can_resume {
                state.sessions.clear();
            }
        });
    }

    /// Asks every client for a heartbeat (opcode 1).
    pub fn ask_for_heartbeat(&self) {
        let out = Out::Text(json!({"op": 1}).to_string());
        self.state.change(|state| state.send_all(&out));
    }

    /// Cuts every connection and accepts no new ones.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| {
            state.is_down = true;
            state.leave(&Out::Drop);
        });
        self.server.go_down().await
    }

    /// Accepts connections again, at the same addresses.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.server.come_back().await
    }

    /// Stalls every connection from now on without closing any.
    pub fn stall(&self) {
        self.server.stall();
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends a [`QqFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(QqState::recover);
        self.server.recover();
    }

    /// Pings every connection on the level of WebSockets.
    pub fn ping(&self) {
        self.state.change(|state| state.send_all(&Out::Ping));
    }

    /// Sends any text as a message to every connection.
    pub fn push_text_frame(&self, text: &str) {
        let out = Out::Text(text.to_owned());
        self.state.change(|state| state.send_all(&out));
    }

    /// Sends any bytes as a binary message to every connection.
    pub fn push_binary_frame(&self, bytes: impl Into<Vec<u8>>) {
        let out = Out::Binary(bytes.into());
        self.state.change(|state| state.send_all(&out));
    }
}

impl QqState {
    pub(crate) fn close_all(&mut self, code: u16) {
        if ends_session(code) {
            self.sessions.clear();
        }
        self.leave(&Out::Close(code));
    }

    fn leave(&mut self, out: &Out) {
        for open in self.connections.values_mut().filter(|open| {
            // A connection that leaves can still be cut.
            !open.is_leaving || *out == Out::Drop
        }) {
            open.outbox.push_back(out.clone());
            open.is_leaving = true;
        }
    }

    pub(crate) fn recover(&mut self) {
        self.is_stalled = false;
        // Clients could not be heard during the stall.
        let now = Instant::now();
        let open = self.connections.values_mut();
        open.for_each(|open| open.last_beat = now);
    }

    fn send_all(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(out.clone());
        }
    }
}
