//! Faults of the transport, and frames about the connection.

use nanobot_testkit::TestkitError;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::connection::Out;
use crate::fake::DingTalkFake;
use crate::state::DingTalkState;

impl DingTalkFake {
    /// Cuts every connection, including those of the two APIs; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.oapi.cut();
        self.state.change(|state| state.leave(&Out::Drop));
    }

    /// Closes every connection of the gateway in good order.
    pub fn close(&self) {
        self.state.change(DingTalkState::close);
    }

    /// Announces the end of every connection with the frame `disconnect`. They get no more pushes,
    /// and stay open until the client closes them.
    pub fn disconnect(&self) {
        self.state.change(|state| {
            state.send_system("disconnect", &json!({"reason": "connection is expired"}));
            for open in state.connections.values_mut() {
                open.is_leaving = true;
            }
            state.dispatch();
        });
    }

    /// Sends the frame `ping` to every connection.
    pub fn send_ping(&self) {
        self.state.change(|state| {
            let opaque = state.next_id("opaque-");
            state.send_system("ping", &json!({"opaque": opaque}));
        });
    }

    /// Sends a frame about the connection of any topic, for example `KEEPALIVE`.
    pub fn send_system(&self, topic: &str, data: &Value) {
        self.state.change(|state| state.send_system(topic, data));
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
        self.server.go_down().await?;
        self.oapi.go_down().await
    }

    /// Accepts connections again, at the same addresses.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.oapi.come_back().await?;
        self.server.come_back().await
    }

    /// Stalls every connection from now on without closing any.
    pub fn stall(&self) {
        self.server.stall();
        self.oapi.stall();
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends a [`DingTalkFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(DingTalkState::recover);
        self.server.recover();
        self.oapi.recover();
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

impl DingTalkState {
    pub(crate) fn close(&mut self) {
        self.leave(&Out::Close);
    }

    fn leave(&mut self, out: &Out) {
        self.send_all(out);
        for open in self.connections.values_mut() {
            open.is_leaving = true;
        }
    }

    pub(crate) fn recover(&mut self) {
        self.is_stalled = false;
        // Clients could not answer during the stall.
        let now = Instant::now();
        let open = self.in_flight.values_mut().filter(|known| !known.is_over);
        open.for_each(|delivery| delivery.at = now);
    }

    fn send_all(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(out.clone());
        }
    }

    fn send_system(&mut self, topic: &str, data: &Value) {
        let numbers: Vec<usize> = self.connections.keys().copied().collect();
        for number in numbers {
            self.send_system_to(number, topic, data);
        }
    }
}
