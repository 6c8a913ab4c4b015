//! The view of a test on the fake, and its waits.

use std::collections::BTreeMap;

use nanobot_testkit::TestkitError;

use crate::connection::SocketConnection;
use crate::fake::WhatsAppFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, WhatsAppState};

impl WhatsAppState {
    fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        let mut entries = self.journal.of(&pushed.message_id).peekable();
        entries.peek().is_some() && entries.all(|entry| entry.confirmed.is_some())
    }

    fn deliveries(&self, pushed: &Pushed) -> usize {
        let entries = self.journal.of(&pushed.message_id);
        entries.map(|entry| entry.deliveries).sum()
    }

    fn has_client(&self) -> bool {
        self.connections.values().any(SocketConnection::is_client)
    }
}

impl WhatsAppFake {
    /// Returns every message the bot sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the visible texts of the bot in one chat. A person's chat is named by the phone
    /// number or by the LID.
    #[must_use]
    pub fn texts_in(&self, chat: &str) -> Vec<String> {
        let chat = self.state.read(|state| state.canonical(chat));
        let sent = self.sent().into_iter();
        let here = sent.filter(|message| message.chat_id == chat);
        here.map(|message| message.text).collect()
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

    /// Waits until the bot sent at least `count` messages, and returns all of them.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_sent(&self, count: usize) -> Result<Vec<SentMessage>, TestkitError> {
        let what = format!("{count} sent messages");
        let reached = |sent: &[SentMessage]| (sent.len() >= count).then(|| sent.to_vec());
        self.wait_for(&what, reached).await
    }

    /// Returns the chats in which the bot is typing.
    #[must_use]
    pub fn typing(&self) -> Vec<String> {
        self.state.read(|state| state.typing.clone())
    }

    /// Returns the bot's reaction to a message of this id.
    #[must_use]
    pub fn reaction(&self, id: &str) -> Option<String> {
        self.state.read(|state| state.reactions.get(id).cloned())
    }

    /// Returns the bot's reactions by the ids of their messages.
    #[must_use]
    pub fn reactions(&self) -> BTreeMap<String, String> {
        self.state.read(|state| state.reactions.clone())
    }

    /// Returns the ids of the messages that the bot marked as read, in order.
    #[must_use]
    pub fn read(&self) -> Vec<String> {
        self.state.read(|state| state.read.clone())
    }

    /// Returns every frame of clients so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// Returns the frames of one type.
    #[must_use]
    pub fn calls_of(&self, method: &str) -> Vec<Call> {
        self.state.read(|state| state.calls.of(method))
    }

    /// Waits until there were `count` frames of a type, and returns them.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_calls(
        &self,
        method: &str,
        count: usize,
    ) -> Result<Vec<Call>, TestkitError> {
        let what = format!("{count} frames of type {method}");
        self.state
            .wait_for(&what, |state| state.calls.reached(method, count))
            .await
    }

    /// Returns the number of downloads requested.
    #[must_use]
    pub fn downloads(&self) -> usize {
        let fetches = self.calls_of("fetch").into_iter();
        let first = fetches.filter(|call| call.body.get("offset").is_some_and(|at| at == 0));
        first.count()
    }

    /// Returns `true` if the client confirmed the message and its repetitions.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until the client confirmed the message and its repetitions.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &WhatsAppState| state.is_acknowledged(pushed);
        self.wait_until("a confirmation", reached).await
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
        let reached = |state: &WhatsAppState| state.deliveries(pushed) >= count;
        self.wait_until("deliveries", reached).await
    }

    /// Returns the number of connections made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.read(|state| state.connections.len())
    }

    /// Returns the number of clients that got `ready` so far.
    #[must_use]
    pub fn readies(&self) -> usize {
        self.state.read(|state| state.readied)
    }

    /// Returns the number of clients that were closed with 4009 so far.
    #[must_use]
    pub fn rivals(&self) -> usize {
        self.state.read(|state| state.rivals)
    }

    /// Returns `true` if a client of version 2 is connected.
    #[must_use]
    pub fn has_client(&self) -> bool {
        self.state.read(WhatsAppState::has_client)
    }

    /// Waits until `count` connections were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.wait_until(&what, |state| state.connected >= count)
            .await
    }

    /// Waits until this many connections are open.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_open_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} open connections");
        self.wait_until(&what, |state| state.connections.len() == count)
            .await
    }

    /// Waits until `count` clients got `ready`.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_readies(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} clients that are ready");
        self.wait_until(&what, |state| state.readied >= count).await
    }

    /// Waits until a client of version 2 is connected.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_client(&self) -> Result<(), TestkitError> {
        self.wait_until("a client", WhatsAppState::has_client).await
    }

    /// Waits until this many clients of version 1 are connected.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_admitted(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} admitted clients");
        let reached = |state: &WhatsAppState| {
            let open = state.connections.values();
            open.filter(|open| open.is_admitted()).count() == count
        };
        self.wait_until(&what, reached).await
    }

    /// Waits until `count` clients were closed with 4009.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_rivals(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} second clients");
        self.wait_until(&what, |state| state.rivals >= count).await
    }

    /// Waits until clients have sent `count` pings of WebSockets.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} pings");
        self.wait_until(&what, |state| state.pings >= count).await
    }

    async fn wait_until(
        &self,
        what: &str,
        is_reached: impl Fn(&WhatsAppState) -> bool,
    ) -> Result<(), TestkitError> {
        let reached = |state: &WhatsAppState| is_reached(state).then_some(());
        self.state.wait_for(what, reached).await
    }

    /// Returns the client behaviour that the protocol does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
