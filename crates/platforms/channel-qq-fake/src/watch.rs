//! The view of a test on the fake, and its waits.

use nanobot_testkit::TestkitError;

use crate::connection::Push;
use crate::fake::QqFake;
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, QqState};

impl QqState {
    fn pushes_of<'a>(&'a self, pushed: &'a Pushed) -> impl Iterator<Item = &'a Push> {
        let numbers = pushed.pushes.iter();
        numbers.filter_map(|number| self.pushes.get(*number))
    }

    pub(crate) fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.pushes_of(pushed).all(|push| push.is_acknowledged)
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        self.pushes_of(pushed).map(|push| push.deliveries).sum()
    }
}

impl QqFake {
    /// Returns every message the bot sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the visible texts of the bot in one chat.
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

    /// Returns `true` if a client named the number of every push of `pushed`, or a later one, in a
    /// heartbeat or a resumption: QQ then does not push it again.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until every push of `pushed` is acknowledged.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &QqState| state.is_acknowledged(pushed).then_some(());
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
        let reached = |state: &QqState| state.deliveries(pushed) >= count;
        self.wait_until("deliveries", reached).await
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

    /// Returns the number of sessions begun so far.
    #[must_use]
    pub fn identifies(&self) -> usize {
        self.state.read(|state| state.identified.len())
    }

    /// Returns the number of sessions resumed so far.
    #[must_use]
    pub fn resumes(&self) -> usize {
        self.state.read(|state| state.resumed)
    }

    /// Waits until `count` connections of the gateway were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.wait_until(&what, |state| state.connected >= count)
            .await
    }

    /// Waits until this many connections of the gateway are open.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_open_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} open connections");
        self.wait_until(&what, |state| state.connections.len() == count)
            .await
    }

    /// Waits until `count` sessions were begun.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_identifies(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} identifications");
        self.wait_until(&what, |state| state.identified.len() >= count)
            .await
    }

    /// Waits until `count` sessions were resumed.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_resumes(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} resumptions");
        self.wait_until(&what, |state| state.resumed >= count).await
    }

    /// Waits until this many sessions have a connection: clients that identified or resumed.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_ready(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connected sessions");
        let is_ready = |state: &QqState| {
            let open = state.connections.values();
            let ready = open.filter(|open| !open.is_leaving && open.session.is_some());
            ready.count() == count
        };
        self.wait_until(&what, is_ready).await
    }

    /// Waits until clients have sent `count` heartbeats.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_heartbeats(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} heartbeats");
        self.wait_until(&what, |state| state.beats >= count).await
    }

    async fn wait_until(
        &self,
        what: &str,
        is_reached: impl Fn(&QqState) -> bool,
    ) -> Result<(), TestkitError> {
        let reached = |state: &QqState| is_reached(state).then_some(());
        self.state.wait_for(what, reached).await
    }

    /// Returns the client behaviour that QQ does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
