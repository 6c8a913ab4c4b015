//! The fake as a test uses it.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;

use crate::fault::Fault;
use crate::handler;
use crate::incoming::{Incoming, Person};
use crate::messages::SentMessage;
use crate::order::Order;
use crate::socket::GatewayServer;
use crate::state::{Answer, Call, DiscordState, Pushed};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct DiscordFake {
    server: Server,
    gateway: GatewayServer,
    state: Watched<DiscordState>,
}

impl DiscordFake {
    /// Starts a fake without messages.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(DiscordState::default());
        let gateway = GatewayServer::start(state.clone()).await?;
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        state.change(|state| {
            state.gateway_url = gateway.url();
            state.file_base = server.url();
        });
        Ok(Self {
            server,
            gateway,
            state,
        })
    }

    /// Returns the replacement for `https://discord.com/api/v10`.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("{}/api/v10", self.server.url())
    }

    /// Returns the replacement for `wss://gateway.discord.gg`.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        self.gateway.url()
    }

    /// Returns the REST server: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sets the heartbeat interval for new connections, in milliseconds; 41250 by default.
    pub fn set_heartbeat_interval(&self, milliseconds: u64) {
        self.state
            .change(|state| state.heartbeat_interval = milliseconds);
    }

    /// Sets the time limit for answering a command or a button (three seconds by default).
    pub fn answer_within(&self, limit: Duration) {
        self.state.change(|state| state.answer_time = limit);
    }

    /// Sends a message from a person. As on Discord, a client that has no session yet does not
    /// receive it, but may fetch it later.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// Returns the direct-message channel of a person and the bot.
    #[must_use]
    pub fn direct_channel(&self, person: &Person) -> u64 {
        person.direct_channel()
    }

    /// Starts a thread in a channel of the server, and returns its id.
    pub fn start_thread(&self, parent: u64) -> u64 {
        self.state.change(|state| state.start_thread(parent))
    }

    /// Invokes a command from the menu as a person; returns the interaction's id.
    pub fn use_command(
        &self,
        channel: u64,
        person: &Person,
        name: &str,
        arguments: Option<&str>,
    ) -> Pushed {
        self.state
            .change(|state| state.use_command(channel, person, name, arguments))
    }

    /// Presses a button by its label; `None` if there is no such button.
    pub fn press(
        &self,
        channel: u64,
        message: u64,
        person: &Person,
        label: &str,
    ) -> Option<Pushed> {
        self.state
            .change(|state| state.press(channel, message, person, label))
    }

    /// Sends any event to every session. Returns its sequence number in the newest one.
    pub fn push_raw(&self, name: &str, content: &Value) -> Option<u64> {
        self.state.change(|state| state.dispatch(name, content, 0))
    }

    /// Returns a message as the gateway sends it.
    #[must_use]
    pub fn message(&self, message: u64) -> Option<Value> {
        self.state.read(|state| {
            state
                .messages
                .get(&message)
                .map(|message| state.message_json(message))
        })
    }

    /// Applies an order to the open connection, or to the next one.
    pub fn order(&self, order: Order) {
        self.state.change(|state| state.orders.push_back(order));
    }

    /// Breaks the next `count` connections right after they are made.
    pub fn refuse_connections(&self, count: usize) {
        self.state.change(|state| state.refuse_connections = count);
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        self.state.change(|state| state.cuts += 1);
        self.server.cut();
    }

    /// Cuts every connection and accepts no new ones. Returns when all are closed.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = true);
        self.server.go_down().await
    }

    /// Accepts connections again, after [`DiscordFake::go_down`].
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.server.come_back().await
    }

    /// Stops all traffic from the platform from now on, without closing any connection.
    pub fn stall(&self) {
        self.state.change(|state| state.is_silent = true);
        self.server.stall();
    }

    /// Ends a [`DiscordFake::stall`]; what was held back is delivered.
    pub fn recover(&self) {
        self.state.change(|state| state.is_silent = false);
        self.server.recover();
    }

    /// Sets the number of shards that Discord recommends; 1 by default.
    pub fn set_shards(&self, shards: u64) {
        self.state.change(|state| state.shards = shards);
    }

    /// Sets how many sessions may still be started, and the milliseconds until that limit resets.
    pub fn set_session_starts(&self, remaining: u64, reset_after: u64) {
        self.state
            .change(|state| state.session_starts = (remaining, reset_after));
    }

    /// Disallows the intent for the content of messages.
    pub fn disallow_message_content(&self) {
        self.state
            .change(|state| state.is_content_disallowed = true);
    }

    /// Revokes the bot's permission to write in a channel.
    pub fn forbid(&self, channel: u64) {
        self.state.change(|state| state.forbidden.insert(channel));
    }

    /// Deletes a message, as a moderator would.
    pub fn delete(&self, channel: u64, message: u64) {
        self.state.change(|state| state.delete(channel, message));
    }

    /// Sets the maximum size of a request with files, in bytes.
    pub fn set_upload_limit(&self, bytes: usize) {
        self.state.change(|state| state.upload_limit = bytes);
    }

    /// Scripts a fault for the next call of a method that has none yet; methods are named as in
    /// [`Call::method`].
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the token invalid from now on, and closes the connection that uses it.
    pub fn revoke_token(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.orders.push_back(Order::Close(4004));
        });
    }

    /// Makes the token valid again.
    pub fn restore_token(&self) {
        self.state.change(|state| {
            state.is_revoked = false;
            state.orders.clear();
        });
    }

    /// Returns every message the bot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(DiscordState::sent)
    }

    /// Returns the visible texts of the bot in one channel: sent, not deleted, in their current
    /// form.
    #[must_use]
    pub fn texts_in(&self, channel: u64) -> Vec<String> {
        let visible = |message: &SentMessage| message.channel_id == channel && !message.is_deleted;
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

    /// Waits until the bot has sent `count` messages, and returns them all.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_sent(&self, count: usize) -> Result<Vec<SentMessage>, TestkitError> {
        let what = format!("{count} messages from the bot");
        self.wait_for(&what, |sent| (sent.len() >= count).then(|| sent.to_vec()))
            .await
    }

    /// Returns every call of the REST API so far, in order.
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

    /// Returns the answers to commands and buttons, in order.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        self.state.read(|state| state.answers.clone())
    }

    /// Waits until `count` commands and buttons were answered, and returns the answers.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_answers(&self, count: usize) -> Result<Vec<Answer>, TestkitError> {
        let what = format!("{count} answers to commands");
        self.state
            .wait_for(&what, |state| {
                (state.answers.len() >= count).then(|| state.answers.clone())
            })
            .await
    }

    /// Returns the commands in the bot's menu, as they were set.
    #[must_use]
    pub fn commands(&self) -> Value {
        self.state.read(|state| state.commands.clone())
    }

    /// Waits until the bot's reactions to a message are these, in the order in which they were
    /// added.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_reactions(
        &self,
        message: u64,
        expected: &[&str],
    ) -> Result<(), TestkitError> {
        let what = format!("the reactions {expected:?}");
        self.state
            .wait_for(&what, |state| {
                (state.reactions_to(message) == expected).then_some(())
            })
            .await
    }

    /// Returns `true` if the newest session has confirmed the pushed event.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until the newest session has confirmed the pushed event.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: Pushed) -> Result<(), TestkitError> {
        self.state
            .wait_for("an acknowledgement", |state| {
                state.is_acknowledged(pushed).then_some(())
            })
            .await
    }

    /// Returns the number of sessions started so far.
    #[must_use]
    pub fn identifies(&self) -> usize {
        self.state.read(|state| state.identifies)
    }

    /// Returns the number of sessions resumed so far.
    #[must_use]
    pub fn resumes(&self) -> usize {
        self.state.read(|state| state.resumes)
    }

    /// Returns the number of sessions resumed at a URL other than their resume URL.
    #[must_use]
    pub fn resumes_elsewhere(&self) -> usize {
        self.state.read(|state| state.resumes_elsewhere)
    }

    /// Waits until `count` sessions were started.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_identifies(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("session {count} to begin");
        self.state
            .wait_for(&what, |state| (state.identifies >= count).then_some(()))
            .await
    }

    /// Waits until sessions were resumed `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_resumes(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("resumption {count}");
        self.state
            .wait_for(&what, |state| (state.resumes >= count).then_some(()))
            .await
    }

    /// Waits until `count` connections were made, whether they succeeded or not.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("connection {count}");
        self.state
            .wait_for(&what, |state| (state.connections >= count).then_some(()))
            .await
    }

    /// Returns the code and reason of every connection that the gateway closed because of a client
    /// error.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
