//! The fake as a test uses it.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::{Pushed, SentMessage};
use crate::state::{Call, SlackState};
use crate::{handler, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct SlackFake {
    server: Server,
    state: Watched<SlackState>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl SlackFake {
    /// Starts a fake with no conversations.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(SlackState::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let socket_address = socket::listen(state.clone(), stop.clone(), &tasks).await?;
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        state.change(|state| {
            state.base = server.url();
            state.socket = format!("ws://{socket_address}");
        });
        Ok(Self {
            server,
            state,
            stop,
            tasks,
        })
    }

    /// Returns the replacement for `https://slack.com/api`.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("{}/api", self.server.url())
    }

    /// Returns the server of the Web API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sets the time limit for acknowledging an envelope (three seconds by default).
    pub fn acknowledge_within(&self, limit: Duration) {
        self.state.change(|state| state.acknowledge_timeout = limit);
    }

    /// Adds a conversation; `has_bot` is `true` if the bot is a member.
    pub fn add_channel(&self, id: &str, name: &str, has_bot: bool) {
        self.state
            .change(|state| state.add_channel(id, name, has_bot));
    }

    /// Adds a person.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Sends a message from a person. The first message creates its channel and person.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Presses the button with that value on one of the bot's messages; `None` if there is none.
    pub fn press(&self, channel: &str, ts: &str, person: &Person, value: &str) -> Option<Pushed> {
        self.state
            .change(|state| state.press(channel, ts, person, value))
    }

    /// Sends a slash command from a person.
    pub fn slash(&self, channel: &str, person: &Person, command: &str, text: &str) -> Pushed {
        self.state
            .change(|state| state.slash(channel, person, command, text))
    }

    /// Sends any event; `event` is the `event` of the payload.
    pub fn push_event(&self, event: &Value) -> Pushed {
        self.state.change(|state| state.push_event(event))
    }

    /// Sends the same event again, as after a failure on Slack's side.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(pushed));
    }

    /// Adds a message from a person without sending an event, as Slack does if an app is offline
    /// for long.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Sends any text as a frame to every connection.
    pub fn push_frame(&self, text: &str) {
        self.state.change(|state| state.push_frame(text));
    }

    /// Sends every connection a disconnect request with this reason, and closes it.
    pub fn disconnect(&self, reason: &str) {
        self.state.change(|state| state.disconnect(reason));
    }

    /// Disconnects every connection right after each of the next `count` greetings.
    pub fn disconnect_at_once(&self, count: usize) {
        self.state.change(|state| state.disconnects_left = count);
    }

    /// Cuts every connection, including those of the Web API; new ones are accepted.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(SlackState::cut);
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

    /// Ends a [`SlackFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(|state| state.is_stalled = false);
        self.server.recover();
    }

    /// Pings every connection.
    pub fn ping(&self) {
        self.state.change(SlackState::ping);
    }

    /// Sets the number of open connections that greetings report.
    pub fn claim_connections(&self, count: usize) {
        self.state
            .change(|state| state.claimed_connections = Some(count));
    }

    /// Scripts a fault for the next call of a method that has none yet; `socket` is the handshake,
    /// `download` and `upload` are file transfers.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Hides message metadata from now on, as from an app without the scope
    /// `metadata.message:read`.
    pub fn hide_metadata(&self) {
        self.state.change(|state| state.hides_metadata = true);
    }

    /// Makes both tokens invalid from now on.
    pub fn revoke_tokens(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Makes both tokens valid again.
    pub fn restore_tokens(&self) {
        self.state.change(|state| state.is_revoked = false);
    }

    /// Returns the number of file downloads requested.
    #[must_use]
    pub fn downloads(&self) -> usize {
        self.state.read(|state| state.download_count)
    }

    /// Returns every message the bot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(SlackState::sent)
    }

    /// Returns the visible texts of the bot in one conversation: sent, not deleted, in their
    /// current form.
    #[must_use]
    pub fn texts_in(&self, channel: &str) -> Vec<String> {
        let visible = |message: &SentMessage| message.channel == channel && !message.is_deleted;
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
            .wait_for(what, |state| probe(&state.sent()))
            .await
    }

    /// Returns every call of the Web API so far, in order.
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
        let reached = |state: &SlackState| state.is_acknowledged(pushed).then_some(());
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
        let reached = |state: &SlackState| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// Returns the bot's reactions to a message.
    #[must_use]
    pub fn reactions(&self, channel: &str, ts: &str) -> Vec<String> {
        self.state.read(|state| state.reactions(channel, ts))
    }

    /// Waits until the bot's reactions to a message are these.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_reactions(
        &self,
        channel: &str,
        ts: &str,
        names: &[&str],
    ) -> Result<(), TestkitError> {
        let what = format!("the reactions {names:?}");
        self.state
            .wait_for(&what, |state| {
                (state.reactions(channel, ts) == names).then_some(())
            })
            .await
    }

    /// Returns the number of connections made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Waits until `count` connections were made.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.state
            .wait_for(&what, |state| (state.connected >= count).then_some(()))
            .await
    }

    /// Returns the client behaviour that Slack does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}

impl Drop for SlackFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
