//! A fake of Discord, its gateway and its REST API, with strict semantics.
//!
//! Clients are pointed at [`DiscordFake::api_base`]; the gateway's address they learn from there. An
//! event goes to every session whose intents ask for it; a session that lost its connection is kept,
//! and resuming it sends again what came after the number that the client names. Fields that are
//! not Discord's, wrong orders and wrong tokens end a connection by the code that Discord uses, or
//! are refused. A nonce that is to be held to is. Known gaps: one server, no shards, no compression,
//! no voice, permissions only as far as a test takes them away.

mod command;
mod event;
mod fault;
mod gateway;
mod guild;
mod handler;
mod history;
mod incoming;
mod messages;
mod order;
mod refusal;
mod sending;
mod session;
mod state;

use std::time::Duration;

use serde_json::Value;

pub use command::Answer;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use messages::{SentFile, SentMessage};
pub use order::Order;
pub use state::{Call, Pushed};

use crate::TestkitError;
use crate::http::Server;
use crate::sync::Watched;
use gateway::Gateway;
use state::State;

/// The token the fake accepts.
pub const TOKEN: &str = "NTU1NTU1NTU1NTU1NTU1NTU1.GhIjKl.TEST-signature_of_the_fake";
/// The bot's user id.
pub const BOT_ID: u64 = 555_555_555_555_555_555;
/// The bot's user name.
pub const BOT_NAME: &str = "nanobot_test";
/// The application's id.
pub const APPLICATION_ID: u64 = 555_555_555_555_555_000;
/// The one server.
pub const GUILD: u64 = 700_000_000_000_000_000;
/// Its text channels.
pub const CHANNELS: [u64; 2] = [700_000_000_000_000_001, 700_000_000_000_000_002];

/// A running fake; it stops when dropped.
#[derive(Debug)]
pub struct DiscordFake {
    server: Server,
    gateway: Gateway,
    state: Watched<State>,
}

impl DiscordFake {
    /// Starts one without messages.
    ///
    /// # Errors
    /// [`TestkitError::Listen`].
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(State::default());
        let gateway = Gateway::start(state.clone()).await?;
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

    /// What takes the place of `https://discord.com/api/v10`.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("{}/api/v10", self.server.url())
    }

    /// What takes the place of `wss://gateway.discord.gg`.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        self.gateway.url()
    }

    /// The REST server itself: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How often heartbeats are asked for from the next connection on, in milliseconds; 41250
    /// unless set.
    pub fn set_heartbeat_interval(&self, milliseconds: u64) {
        self.state
            .change(|state| state.heartbeat_interval = milliseconds);
    }

    /// Changes how long the answer to a command or a button may take (three seconds).
    pub fn answer_within(&self, limit: Duration) {
        self.state.change(|state| state.answer_time = limit);
    }

    /// A person sends something. Who has no session yet does not hear it, as on Discord, but may
    /// ask for it afterwards.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// The channel in which a person and the bot talk alone.
    #[must_use]
    pub fn direct_channel(&self, person: &Person) -> u64 {
        person.direct_channel()
    }

    /// Begins a thread in a channel of the server and returns its id.
    pub fn start_thread(&self, parent: u64) -> u64 {
        self.state.change(|state| state.start_thread(parent))
    }

    /// A person uses a command from the menu; returns the interaction's id.
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

    /// A person presses a button by its label; `None` when there is no such button.
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

    /// Any event, to every session. Returns its number in the newest one.
    pub fn push_raw(&self, name: &str, content: &Value) -> Option<u64> {
        self.state.change(|state| state.dispatch(name, content, 0))
    }

    /// A message as the gateway shows it.
    #[must_use]
    pub fn message(&self, message: u64) -> Option<Value> {
        self.state.read(|state| {
            state
                .messages
                .get(&message)
                .map(|message| state.message_json(message))
        })
    }

    /// Does something to the connection that is open, or to the next one.
    pub fn order(&self, order: Order) {
        self.state.change(|state| state.orders.push_back(order));
    }

    /// Breaks the next connections right after they are made, this often.
    pub fn refuse_connections(&self, count: usize) {
        self.state.change(|state| state.refuse_connections = count);
    }

    /// Cuts every connection; new ones are taken.
    pub fn cut(&self) {
        self.state.change(|state| state.cuts += 1);
        self.server.cut();
    }

    /// Cuts every connection and takes no new ones. Returns when that is so.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = true);
        self.server.go_down().await
    }

    /// Ends what [`DiscordFake::go_down`] began.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.server.come_back().await
    }

    /// From now on nothing comes through from the platform, though no connection breaks.
    pub fn stall(&self) {
        self.state.change(|state| state.is_silent = true);
        self.server.stall();
    }

    /// Ends what [`DiscordFake::stall`] began; what was held back comes through.
    pub fn recover(&self) {
        self.state.change(|state| state.is_silent = false);
        self.server.recover();
    }

    /// Among how many connections Discord recommends to divide the servers of the bot; 1 unless set.
    pub fn set_shards(&self, shards: u64) {
        self.state.change(|state| state.shards = shards);
    }

    /// Sets how many sessions may still begin, and in how many milliseconds there are more.
    pub fn set_session_starts(&self, remaining: u64, reset_after: u64) {
        self.state
            .change(|state| state.session_starts = (remaining, reset_after));
    }

    /// Takes the text of messages out of what the bot may ask for.
    pub fn disallow_message_content(&self) {
        self.state
            .change(|state| state.is_content_disallowed = true);
    }

    /// Takes the right to write in a channel away.
    pub fn forbid(&self, channel: u64) {
        self.state.change(|state| state.forbidden.insert(channel));
    }

    /// Takes a message away, as a moderator would.
    pub fn delete(&self, channel: u64, message: u64) {
        self.state.change(|state| state.delete(channel, message));
    }

    /// The largest request with files that is taken, in bytes.
    pub fn set_upload_limit(&self, bytes: usize) {
        self.state.change(|state| state.upload_limit = bytes);
    }

    /// Lets the next call of a method that has no fault yet go wrong; methods are called as in
    /// [`Call::method`].
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the token invalid from now on, and closes the connection that was made with it.
    pub fn revoke_token(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.orders.push_back(Order::Close(4004));
        });
    }

    /// Makes it valid again.
    pub fn restore_token(&self) {
        self.state.change(|state| {
            state.is_revoked = false;
            state.orders.clear();
        });
    }

    /// Every message the bot sent, in order, as it stands now.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(State::sent)
    }

    /// The visible texts the bot has in one channel: sent, not deleted, in their final form.
    #[must_use]
    pub fn texts_in(&self, channel: u64) -> Vec<String> {
        let visible = |message: &SentMessage| message.channel_id == channel && !message.is_deleted;
        self.sent()
            .into_iter()
            .filter(visible)
            .map(|message| message.text)
            .collect()
    }

    /// Waits until `probe` finds what it looks for among the sent messages.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`] naming `what`.
    pub async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[SentMessage]) -> Option<R>,
    ) -> Result<R, TestkitError> {
        self.state
            .wait_for(what, |state| probe(&state.sent()))
            .await
    }

    /// Waits until the bot has sent `count` messages and returns them all.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_sent(&self, count: usize) -> Result<Vec<SentMessage>, TestkitError> {
        let what = format!("{count} messages from the bot");
        self.wait_for(&what, |sent| (sent.len() >= count).then(|| sent.to_vec()))
            .await
    }

    /// Every call of the REST API so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// The calls of one method.
    #[must_use]
    pub fn calls_of(&self, method: &str) -> Vec<Call> {
        self.state.read(|state| state.calls.of(method))
    }

    /// Waits until a method was called `count` times and returns these calls.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
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

    /// What was answered to commands and buttons, in order.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        self.state.read(|state| state.answers.clone())
    }

    /// Waits until so many commands and buttons were answered, and returns the answers.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_answers(&self, count: usize) -> Result<Vec<Answer>, TestkitError> {
        let what = format!("{count} answers to commands");
        self.state
            .wait_for(&what, |state| {
                (state.answers.len() >= count).then(|| state.answers.clone())
            })
            .await
    }

    /// The commands in the bot's menu, as they were set.
    #[must_use]
    pub fn commands(&self) -> Value {
        self.state.read(|state| state.commands.clone())
    }

    /// Waits until the bot's reactions to a message are these, in the order in which they were set.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
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

    /// Whether the bot has said that it is done with what was pushed.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until it says so.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_acknowledged(&self, pushed: Pushed) -> Result<(), TestkitError> {
        self.state
            .wait_for("an acknowledgement", |state| {
                state.is_acknowledged(pushed).then_some(())
            })
            .await
    }

    /// How many sessions were begun so far.
    #[must_use]
    pub fn identifies(&self) -> usize {
        self.state.read(|state| state.identifies)
    }

    /// How often a session was resumed.
    #[must_use]
    pub fn resumes(&self) -> usize {
        self.state.read(|state| state.resumes)
    }

    /// How often a session was resumed at another address than the one that it was given for that.
    #[must_use]
    pub fn resumes_elsewhere(&self) -> usize {
        self.state.read(|state| state.resumes_elsewhere)
    }

    /// Waits until so many sessions were begun.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_identifies(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("session {count} to begin");
        self.state
            .wait_for(&what, |state| (state.identifies >= count).then_some(()))
            .await
    }

    /// Waits until sessions were resumed so often.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_resumes(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("resumption {count}");
        self.state
            .wait_for(&what, |state| (state.resumes >= count).then_some(()))
            .await
    }

    /// Waits until so many connections were made, whatever became of them.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("connection {count}");
        self.state
            .wait_for(&what, |state| (state.connections >= count).then_some(()))
            .await
    }

    /// How often each reason for which the gateway ended a connection by itself came up: what a
    /// client should never see.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}
