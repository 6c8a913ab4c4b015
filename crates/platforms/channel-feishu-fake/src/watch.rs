//! What a test sees of the fake, and waits for.

use nanobot_testkit::TestkitError;
use serde_json::Value;

use crate::fake::FeishuFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, FeishuState};

impl FeishuFake {
    /// Returns every message the bot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(FeishuState::sent_messages)
    }

    /// Returns the visible texts of the bot in one chat: sent, not withdrawn, in their current
    /// form.
    #[must_use]
    pub fn texts_in(&self, chat: &str) -> Vec<String> {
        let visible = |message: &SentMessage| message.chat_id == chat && !message.is_deleted;
        self.sent()
            .into_iter()
            .filter(visible)
            .map(|message| message.text)
            .collect()
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

    /// Returns a card entity, in its current form.
    #[must_use]
    pub fn card(&self, id: &str) -> Option<Value> {
        self.state
            .read(|state| state.cards.get(id).map(|card| card.content.clone()))
    }

    /// Returns every call of the open API so far, in order. Calls without a valid token are not
    /// recorded.
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

    /// Returns the chat of a message, of a person or of the bot.
    #[must_use]
    pub fn chat_of(&self, message: &str) -> Option<String> {
        self.state.read(|state| {
            state
                .messages
                .get(message)
                .map(|message| message.chat.clone())
        })
    }

    /// Returns the calls that people in a chat can notice: messages, their changes, reactions, and
    /// the text of a card.
    #[must_use]
    pub fn actions_in(&self, chat: &str) -> Vec<String> {
        self.state.read(|state| {
            let calls = state.calls.all().iter();
            let noticed = calls.filter(|call| state.place_of(call).as_deref() == Some(chat));
            noticed.map(|call| call.method.clone()).collect()
        })
    }

    /// Returns the number of downloads requested.
    #[must_use]
    pub fn downloads(&self) -> usize {
        self.calls_of("resource.get").len()
    }

    /// Returns `true` if every event of `pushed` was acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until every event of `pushed` is acknowledged.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &FeishuState| state.is_acknowledged(pushed).then_some(());
        self.state.wait_for("an acknowledgement", reached).await
    }

    /// Returns the number of deliveries of all events of `pushed`, including the first ones.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until the events of `pushed` had at least `count` deliveries in all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &FeishuState| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// Returns the number of answers with another code than 200 to the events of `pushed`.
    #[must_use]
    pub fn refusals(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.refusals(pushed))
    }

    /// Waits until the events of `pushed` were refused `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_refusals(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &FeishuState| (state.refusals(pushed) >= count).then_some(());
        self.state.wait_for("refusals", reached).await
    }

    /// Returns the content of the acknowledgement of a pressed button; `Null` if there is none.
    #[must_use]
    pub fn answer(&self, pushed: &Pushed) -> Value {
        self.state.read(|state| {
            let event = pushed
                .events
                .first()
                .and_then(|number| state.events.get(*number));
            event.map(|event| event.answer.clone()).unwrap_or_default()
        })
    }

    /// Returns the bot's reactions to a message.
    #[must_use]
    pub fn reactions(&self, message: &str) -> Vec<String> {
        self.state.read(|state| state.own_reactions(message))
    }

    /// Waits until the bot's reactions to a message are these.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_reactions(
        &self,
        message: &str,
        emoji: &[&str],
    ) -> Result<(), TestkitError> {
        let what = format!("the reactions {emoji:?}");
        self.state
            .wait_for(&what, |state| {
                (state.own_reactions(message) == emoji).then_some(())
            })
            .await
    }

    /// Returns the number of long connections made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Returns the number of open long connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.read(|state| state.connections.len())
    }

    /// Waits until `count` long connections were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.state
            .wait_for(&what, |state| (state.connected >= count).then_some(()))
            .await
    }

    /// Waits until this many long connections are open.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_open_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} open connections");
        self.state
            .wait_for(&what, |state| {
                (state.connections.len() == count).then_some(())
            })
            .await
    }

    /// Waits until clients have sent `count` pings.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} pings");
        self.state
            .wait_for(&what, |state| (state.pings >= count).then_some(()))
            .await
    }

    /// Returns the client behaviour that Feishu does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
