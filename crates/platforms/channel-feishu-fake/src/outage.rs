//! Faults of the transport.

use nanobot_testkit::TestkitError;
use tokio::time::Instant;

use crate::connection::Out;
use crate::fake::FeishuFake;
use crate::state::FeishuState;

impl FeishuFake {
    /// Cuts every connection, including those of the open API; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(FeishuState::cut);
    }

    /// Closes every long connection in good order.
    pub fn close(&self) {
        self.state.change(FeishuState::close);
    }

    /// Cuts every connection and accepts no new ones.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| {
            state.is_down = true;
            state.cut();
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

    /// Ends a [`FeishuFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(FeishuState::recover);
        self.server.recover();
    }

    /// Pings every long connection on the level of WebSockets.
    pub fn ping(&self) {
        self.state.change(|state| state.send_all(&Out::Ping));
    }

    /// Sends a pong to every long connection, as after a ping of its client.
    pub fn pong(&self) {
        self.state.change(|state| {
            let numbers: Vec<usize> = state.connections.keys().copied().collect();
            numbers.into_iter().for_each(|number| state.pong(number));
        });
    }

    /// Sends any bytes as a binary message to every long connection.
    pub fn push_frame(&self, bytes: impl Into<Vec<u8>>) {
        let out = Out::Binary(bytes.into());
        self.state.change(|state| state.send_all(&out));
    }

    /// Sends any text as a text message to every long connection.
    pub fn push_text_frame(&self, text: &str) {
        let out = Out::Text(text.to_owned());
        self.state.change(|state| state.send_all(&out));
    }
}

impl FeishuState {
    pub(crate) fn cut(&mut self) {
        self.leave(&Out::Drop);
    }

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
}
