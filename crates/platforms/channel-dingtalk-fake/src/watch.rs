//! The view of a test on the fake, and its waits.

use nanobot_testkit::TestkitError;
use serde_json::Value;

use crate::fake::DingTalkFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, DingTalkState};

impl DingTalkFake {
    /// Returns every message the robot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(DingTalkState::sent_messages)
    }

    /// Returns the visible texts of the robot in one chat, in their current form.
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
        self.state
            .wait_for(what, |state| probe(&state.sent_messages()))
            .await
    }

    /// Returns the values of a card by its `outTrackId`, in their current form.
    #[must_use]
    pub fn card(&self, track: &str) -> Option<Value> {
        self.state.read(|state| {
            let card = state.cards.get(track)?;
            Some(serde_json::json!(card.values))
        })
    }

    /// Returns every call so far, in order. Calls without a valid token are not recorded.
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

    /// Returns `true` if every push of `pushed` was acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until every push of `pushed` is acknowledged.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &DingTalkState| state.is_acknowledged(pushed).then_some(());
        self.state.wait_for("an acknowledgement", reached).await
    }

    /// Returns the number of deliveries of all pushes of `pushed`, including the first ones.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until the pushes of `pushed` had at least `count` deliveries in all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &DingTalkState| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// Returns the number of answers to `pushed` that asked for another delivery.
    #[must_use]
    pub fn refusals(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.refusals(pushed))
    }

    /// Waits until the pushes of `pushed` were refused `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_refusals(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &DingTalkState| (state.refusals(pushed) >= count).then_some(());
        self.state.wait_for("refusals", reached).await
    }

    /// Returns the content of the acknowledgement of a push; `Null` if there is none.
    #[must_use]
    pub fn answer(&self, pushed: &Pushed) -> Value {
        self.state.read(|state| {
            let mut pushes = pushed.pushes.iter();
            let push = pushes.find_map(|number| state.pushes.get(*number));
            push.map(|push| push.answer.clone()).unwrap_or_default()
        })
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
        let reached = |state: &DingTalkState| (state.connections.len() == count).then_some(());
        self.state.wait_for(&what, reached).await
    }

    /// Waits until clients have sent `count` pings of WebSockets.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} pings");
        self.state
            .wait_for(&what, |state| (state.pings >= count).then_some(()))
            .await
    }

    /// Waits until clients have answered `count` frames `ping`.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_answered_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} answered pings");
        self.state
            .wait_for(&what, |state| (state.answered_pings >= count).then_some(()))
            .await
    }

    /// Returns the client behaviour that DingTalk does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
