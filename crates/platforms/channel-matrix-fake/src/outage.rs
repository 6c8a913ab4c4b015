//! Faults of the transport.

use nanobot_testkit::TestkitError;

use crate::fake::MatrixFake;

impl MatrixFake {
    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
    }

    /// Cuts every connection and accepts no new ones.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.server.go_down().await
    }

    /// Accepts connections again, at the same address.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.server.come_back().await
    }

    /// Holds back all responses from now on without closing any connection.
    pub fn stall(&self) {
        self.server.stall();
    }

    /// Ends a [`MatrixFake::stall`]; the responses held back are sent.
    pub fn recover(&self) {
        self.server.recover();
    }

    /// Answers every sync that waits, without news.
    pub fn end_syncs(&self) {
        self.state.change(|state| state.ended_syncs += 1);
    }
}
