//! Faults of the transport, and frames about the connection.

use nanobot_testkit::TestkitError;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::Out;
use crate::fake::MochatFake;
use crate::packet::{DISCONNECT, Packet};
use crate::state::MochatState;

impl MochatFake {
    /// Cuts every connection, including those of the API; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(|state| state.leave(&Out::Drop));
    }

    /// Closes every connection of the socket in good order.
    pub fn close(&self) {
        self.state.change(MochatState::close);
    }

    /// Ends the login of every connection with a packet. They get no more events, and stay open
    /// until the client closes them.
    pub fn disconnect(&self) {
        self.state.change(|state| {
            let packet = Packet::new(DISCONNECT, Value::Null);
            state.send_to_all(&packet);
            for open in state.connections.values_mut() {
                open.is_leaving = true;
            }
        });
    }

    /// Sends a ping of Engine.IO to every connection.
    pub fn send_ping(&self) {
        self.state.change(|state| {
            let numbers: Vec<usize> = state.connections.keys().copied().collect();
            for number in numbers {
                state.send_ping_to(number);
            }
        });
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

    /// Refuses connections of the socket, or accepts them again. The API is not affected: clients
    /// have to fall back to long polls.
    pub fn refuse_sockets(&self, is_refused: bool) {
        self.state.change(|state| {
            state.is_down = is_refused;
            if is_refused {
                state.leave(&Out::Drop);
            }
        });
    }

    /// Stalls every connection from now on without closing any.
    pub fn stall(&self) {
        self.server.stall();
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends a [`MochatFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(MochatState::recover);
        self.server.recover();
    }

    /// Pings every connection on the level of WebSockets.
    pub fn ping(&self) {
        self.state.change(|state| state.send_all(&Out::Ping));
    }

    /// Sends any text as a frame to every connection.
    pub fn push_text_frame(&self, text: &str) {
        let out = Out::Text(text.to_owned());
        self.state.change(|state| state.send_all(&out));
    }

    /// Sends any bytes as a binary frame to every connection.
    pub fn push_binary_frame(&self, bytes: impl Into<Vec<u8>>) {
        let out = Out::Binary(bytes.into());
        self.state.change(|state| state.send_all(&out));
    }
}

impl MochatState {
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
        for open in self.connections.values_mut() {
            open.pinged = now;
            open.opened = now;
        }
    }

    fn send_all(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(out.clone());
        }
    }
}
