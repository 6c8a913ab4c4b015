//! The view of a test on the fake, and its waits.

use nanobot_testkit::TestkitError;
use serde_json::Value;

use crate::connection::SocketConnection;
use crate::fake::WeComFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, WeComState};

impl WeComFake {
    /// Returns every message the bot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the visible texts of the bot in one chat, in their current form.
    #[must_use]
    pub fn texts_in(&self, chat: &str) -> Vec<String> {
        let here = |message: &SentMessage| message.chat_id == chat;
        let sent = self.sent().into_iter().filter(here);
        sent.map(|message| message.text).collect()
    }

    /// Waits until `probe` returns a value for the sent messages.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] naming `what` if the wait times out.
    pub async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[SentMessage]) -> Option<R>,
    ) -> Result<R, TestkitError> {
        self.state.wait_for(what, |state| probe(&state.sent)).await
    }

    /// Returns every call so far, in order: commands and downloads.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// Returns the calls of one method.
    #[must_use]
    pub fn calls_of(&self, method: &str) -> Vec<Call> {
        self.state.read(|state| state.calls.of(method))
    }

    /// Waits until a method was called `count` times, and returns these calls.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_calls(
        &self,
        method: &str,
        count: usize,
    ) -> Result<Vec<Call>, TestkitError> {
        let what = format!("{count} calls of {method}");
        self.state
            .wait_for(&what, |state| state.calls.reached(method, count))
            .await
    }

    /// Returns the number of downloads requested.
    #[must_use]
    pub fn downloads(&self) -> usize {
        self.calls_of("file.get").len()
    }

    /// Returns the number of frames written for `pushed`, including the first one.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until `pushed` had at least `count` deliveries.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &WeComState| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// Returns `true` if the bot replied to the callback, successfully or not.
    #[must_use]
    pub fn is_answered(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_answered(&pushed.req_id))
    }

    /// Waits until the bot replied to the callback, successfully or not.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_answered(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &WeComState| state.is_answered(&pushed.req_id).then_some(());
        self.state.wait_for("a reply", reached).await
    }

    /// Returns the body of a push; `Null` if there is none.
    #[must_use]
    pub fn body(&self, pushed: &Pushed) -> Value {
        self.state.read(|state| state.body_of(pushed))
    }

    /// Returns the number of connections of the gateway made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Returns the number of open connections of the gateway.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.read(|state| state.connections.len())
    }

    /// Returns the number of successful subscriptions so far.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.state.read(|state| state.subscribed)
    }

    /// Returns `true` if a connection gets the pushes.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.state.read(|state| {
            let mut open = state.connections.values();
            open.any(SocketConnection::takes_pushes)
        })
    }

    /// Waits until `count` connections of the gateway were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.state
            .wait_for(&what, |state| (state.connected >= count).then_some(()))
            .await
    }

    /// Waits until this many connections of the gateway are open.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_open_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} open connections");
        let reached = |state: &WeComState| (state.connections.len() == count).then_some(());
        self.state.wait_for(&what, reached).await
    }

    /// Waits until there were `count` successful subscriptions.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_subscriptions(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} subscriptions");
        self.state
            .wait_for(&what, |state| (state.subscribed >= count).then_some(()))
            .await
    }

    /// Waits until a connection gets the pushes.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_subscribed(&self) -> Result<(), TestkitError> {
        let reached = |state: &WeComState| {
            let mut open = state.connections.values();
            open.any(SocketConnection::takes_pushes).then_some(())
        };
        self.state
            .wait_for("a subscribed connection", reached)
            .await
    }

    /// Waits until clients have sent `count` pings of WebSockets. Heartbeats are the calls of
    /// `ping`.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} pings");
        self.state
            .wait_for(&what, |state| (state.pings >= count).then_some(()))
            .await
    }

    /// Returns the client behaviour that WeCom does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
