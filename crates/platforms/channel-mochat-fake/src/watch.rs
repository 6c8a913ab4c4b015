//! The view of a test on the fake, and its waits.

use nanobot_testkit::TestkitError;

use crate::fake::MochatFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, MochatState};

impl MochatFake {
    /// Returns every message the bot sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the texts of the bot in one session or panel.
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

    /// Returns every call so far, in order. Requests without a valid token are not recorded, but
    /// refused logins are.
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

    /// Returns the highest cursor that a client has shown for a session, with a subscription or a
    /// long poll.
    #[must_use]
    pub fn cursor(&self, session: &str) -> u64 {
        self.state.read(|state| state.cursor(session))
    }

    /// Returns `true` if a client has shown a cursor that is not before the event, so that it never
    /// needs the event again. Panels have no cursors: their events are acknowledged by delivery.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until the event is [acknowledged](MochatFake::is_acknowledged).
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &MochatState| state.is_acknowledged(pushed).then_some(());
        self.state.wait_for("a cursor", reached).await
    }

    /// Returns the number of deliveries of an event: in events, acknowledgements and answers.
    /// Notifications do not count.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until the event had at least `count` deliveries.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &MochatState| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// Returns `true` if a client is subscribed to a session or panel.
    #[must_use]
    pub fn is_subscribed(&self, chat: &str) -> bool {
        self.state.read(|state| !state.subscribers(chat).is_empty())
    }

    /// Waits until a client is subscribed to a session or panel.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_subscription(&self, chat: &str) -> Result<(), TestkitError> {
        let what = format!("a subscription to {chat}");
        let reached = |state: &MochatState| (!state.subscribers(chat).is_empty()).then_some(());
        self.state.wait_for(&what, reached).await
    }

    /// Returns the number of long polls that wait.
    #[must_use]
    pub fn waiting_watches(&self) -> usize {
        self.state.read(|state| state.waiting_watches)
    }

    /// Waits until this many long polls wait.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_waiting_watches(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} long polls");
        let reached = |state: &MochatState| (state.waiting_watches == count).then_some(());
        self.state.wait_for(&what, reached).await
    }

    /// Returns the number of logins so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Returns the number of open connections that are logged in.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.state.read(MochatState::open_logins)
    }

    /// Waits until `count` logins were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.state
            .wait_for(&what, |state| (state.connected >= count).then_some(()))
            .await
    }

    /// Waits until this many connections are open and logged in.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_open_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} open connections");
        let reached = |state: &MochatState| (state.open_logins() == count).then_some(());
        self.state.wait_for(&what, reached).await
    }

    /// Returns the number of refused logins so far.
    #[must_use]
    pub fn refused_logins(&self) -> usize {
        self.state.read(|state| state.refused)
    }

    /// Waits until `count` logins were refused.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_refused_logins(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} refused logins");
        self.state
            .wait_for(&what, |state| (state.refused >= count).then_some(()))
            .await
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

    /// Waits until clients have answered `count` pings of Engine.IO.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_answered_pings(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} answered pings");
        self.state
            .wait_for(&what, |state| (state.answered_pings >= count).then_some(()))
            .await
    }

    /// Returns the client behaviour that Mochat does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}

impl MochatState {
    fn cursor(&self, session: &str) -> u64 {
        self.chats.get(session).map_or(0, |chat| chat.cursor)
    }

    fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        let chat = self.chats.get(&pushed.chat_id);
        match chat.filter(|chat| chat.is_session()) {
            Some(chat) => chat.cursor >= pushed.seq,
            None => self.deliveries(pushed) > 0,
        }
    }

    fn deliveries(&self, pushed: &Pushed) -> usize {
        let chat = self.chats.get(&pushed.chat_id);
        let mut events = chat.into_iter().flat_map(|chat| &chat.events);
        let event = events.find(|event| event.seq == pushed.seq);
        event.map_or(0, |event| event.deliveries)
    }

    fn open_logins(&self) -> usize {
        let open = self.connections.values();
        open.filter(|open| open.is_connected).count()
    }
}
