//! Faults of the transport, and frames for every connection.

use nanobot_testkit::TestkitError;

use crate::connection::Out;
use crate::fake::WeComFake;
use crate::state::WeComState;

impl WeComFake {
    /// Cuts every connection, including those of downloads; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(|state| state.leave(&Out::Drop));
    }

    /// Closes every connection of the gateway in good order.
    pub fn close(&self) {
        self.state.change(|state| state.leave(&Out::Close));
    }

    /// Forgets the subscription of every connection without closing any. Commands are refused with
    /// 846609 until the client subscribes again, as was seen at WeCom.
    pub fn forget_subscriptions(&self) {
        self.state.change(|state| {
            for open in state.connections.values_mut() {
                open.was_subscribed |= open.is_subscribed;
                open.is_subscribed = false;
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

    /// Stalls every connection from now on without closing any.
    pub fn stall(&self) {
        self.server.stall();
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends a [`WeComFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(|state| state.is_stalled = false);
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

    /// Sends the answers that [`Fault::Hold`](crate::Fault::Hold) holds back.
    pub fn release_answers(&self) {
        self.state.change(|state| {
            for (connection, text) in std::mem::take(&mut state.held) {
                state.send_out(connection, Out::Text(text));
            }
        });
    }
}

impl WeComState {
    /// Ends every connection. Pushes that were not written wait for the next one.
    pub(crate) fn leave(&mut self, out: &Out) {
        let mut unwritten = Vec::new();
        for open in self.connections.values_mut() {
            open.is_leaving = true;
            for waiting in std::mem::take(&mut open.outbox) {
                match waiting {
                    Out::Push(_) => unwritten.push(waiting),
                    other => open.outbox.push_back(other),
                }
            }
            open.outbox.push_back(out.clone());
        }
        self.requeue(unwritten);
        self.dispatch();
    }

    fn send_all(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(out.clone());
        }
    }
}
