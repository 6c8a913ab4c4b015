//! Faults of the transport, and frames for every connection.

use nanobot_testkit::TestkitError;

use crate::connection::Out;
use crate::fake::WhatsAppFake;
use crate::link::Status;
use crate::state::WhatsAppState;

/// Closes every connection in good order.
const NORMAL: u16 = 1000;

impl WhatsAppFake {
    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        self.state.change(|state| state.leave(&Out::Drop));
    }

    /// Closes every connection in good order.
    pub fn close(&self) {
        self.state.change(|state| state.leave(&Out::Close(NORMAL)));
    }

    /// Restarts the bridge: connections are cut, and uploads are forgotten. The journal, the files
    /// of messages and the ids of sent messages stay. A link that was
    /// [replaced](WhatsAppFake::replace) works again.
    pub fn restart(&self) {
        self.cut();
        self.state.change(|state| {
            if state.link.is_replaced() {
                state.set_status(Status::Connected, None, None);
            }
        });
    }

    /// Cuts every connection and accepts no new ones. Returns when all are cut.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| {
            state.is_down = true;
            state.leave(&Out::Drop);
        });
        self.wait_for_open_connections(0).await
    }

    /// Accepts connections again, at the same address.
    pub fn come_back(&self) {
        self.state.change(|state| state.is_down = false);
    }

    /// Stalls every connection from now on without closing any.
    pub fn stall(&self) {
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends a [`WhatsAppFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(|state| state.is_stalled = false);
    }

    /// Pings every connection on the level of WebSockets.
    pub fn ping(&self) {
        self.state.change(|state| state.send_all(&Out::Ping));
    }

    /// Sends any text to every connection.
    pub fn push_text_frame(&self, text: &str) {
        let out = Out::Text(text.to_owned());
        self.state.change(|state| state.send_all(&out));
    }

    /// Sends any bytes as a binary frame to every connection.
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

impl WhatsAppState {
    /// Ends every connection. Messages that were not written are sent to the next client.
    pub(crate) fn leave(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.is_leaving = true;
            open.outbox.retain(|out| !matches!(out, Out::Message(_)));
            open.outbox.push_back(out.clone());
        }
    }

    fn send_all(&mut self, out: &Out) {
        for open in self.connections.values_mut() {
            open.outbox.push_back(out.clone());
        }
    }
}
