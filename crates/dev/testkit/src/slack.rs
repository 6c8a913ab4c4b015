//! A fake of Slack: the Web API, Socket Mode and files, with strict semantics.
//!
//! Clients are pointed at [`SlackFake::api_base`]; the address of the socket comes from
//! `apps.connections.open`, as at Slack. An envelope that is not acknowledged within three seconds, or
//! whose connection ends, comes again in a new envelope; a mention comes as two events; tokens are
//! told apart; methods that ask read no JSON; arguments nobody knows are refused and
//! [complained](SlackFake::complaints) about. Known gaps: one workspace, one bot, no attachments; of
//! blocks only sections, tables of plain text, actions and contexts are known, and not how much fits
//! into all of them together.

mod api;
mod blocks;
mod conversations;
mod envelope;
mod fault;
mod files;
mod handler;
mod incoming;
mod messages;
mod params;
mod socket;
mod state;

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use envelope::Pushed;
pub use fault::Fault;
pub use incoming::{Incoming, Person};
pub use messages::{SentFile, SentMessage};
pub use state::Call;

use crate::TestkitError;
use crate::http::Server;
use crate::sync::Watched;
use state::State;

/// The bot's token.
pub const BOT_TOKEN: &str = "xoxb-1111-2222-TESTbotTokenOfTheFake";
/// The app's token.
pub const APP_TOKEN: &str = "xapp-1-A0APP-3333-TESTappTokenOfTheFake";
/// The bot's user id.
pub const BOT_USER: &str = "U0BOT";
/// The workspace.
pub const TEAM: &str = "T0TEAM";

/// A running fake; it stops when dropped.
#[derive(Debug)]
pub struct SlackFake {
    server: Server,
    state: Watched<State>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl SlackFake {
    /// Starts one with no conversations.
    ///
    /// # Errors
    /// [`TestkitError::Listen`].
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(State::default());
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

    /// What takes the place of `https://slack.com/api`.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("{}/api", self.server.url())
    }

    /// The server of the Web API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Changes how long an envelope may wait for its acknowledgement (three seconds).
    pub fn acknowledge_within(&self, limit: Duration) {
        self.state.change(|state| state.patience = limit);
    }

    /// Makes a conversation that the bot is in or not.
    pub fn add_channel(&self, id: &str, name: &str, has_bot: bool) {
        self.state
            .change(|state| state.add_channel(id, name, has_bot));
    }

    /// Makes somebody known.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.meet(person));
    }

    /// A person writes something. Channel and person come into being with their first message.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// A person presses the button with that value below a message of the bot's; `None` when there is
    /// none.
    pub fn press(&self, channel: &str, ts: &str, person: &Person, value: &str) -> Option<Pushed> {
        self.state
            .change(|state| state.press(channel, ts, person, value))
    }

    /// A person gives a slash command.
    pub fn slash(&self, channel: &str, person: &Person, command: &str, text: &str) -> Pushed {
        self.state
            .change(|state| state.slash(channel, person, command, text))
    }

    /// Any event, as it stands in the payload.
    pub fn push_event(&self, event: &Value) -> Pushed {
        self.state.change(|state| state.push_event(event))
    }

    /// The same event once more, as after a failure on Slack's side.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(pushed));
    }

    /// A person writes something that nobody is told of, as Slack does with an app that is away for
    /// long.
    pub fn push_untold(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Any text as a frame, to every connection.
    pub fn push_frame(&self, text: &str) {
        self.state.change(|state| state.push_frame(text));
    }

    /// Tells every connection to make way for a new one, and closes it.
    pub fn disconnect(&self, reason: &str) {
        self.state.change(|state| state.disconnect(reason));
    }

    /// Tells every connection so right after its greeting, the next `count` times.
    pub fn disconnect_at_once(&self, count: usize) {
        self.state.change(|state| state.storm = count);
    }

    /// Cuts every connection, those of the Web API too; new ones are taken.
    pub fn cut(&self) {
        self.server.cut();
        self.state.change(State::cut);
    }

    /// Cuts every connection and takes no new ones.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| {
            state.is_down = true;
            state.cut();
        });
        self.server.go_down().await
    }

    /// Takes connections again, at the same addresses.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.server.come_back().await
    }

    /// From now on nothing comes of any connection, though none breaks.
    pub fn stall(&self) {
        self.server.stall();
        self.state.change(|state| state.is_stalled = true);
    }

    /// Ends what [`SlackFake::stall`] began; what was held back comes through.
    pub fn recover(&self) {
        self.state.change(|state| state.is_stalled = false);
        self.server.recover();
    }

    /// Asks every connection whether it is there.
    pub fn ping(&self) {
        self.state.change(State::ping);
    }

    /// Greetings say that so many connections are open.
    pub fn claim_connections(&self, count: usize) {
        self.state
            .change(|state| state.claimed_connections = Some(count));
    }

    /// Lets the next call of a method that has no fault yet go wrong; `socket` is the handshake,
    /// `download` and `upload` are files.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Shows no metadata any more, as to an app without the scope `metadata.message:read`.
    pub fn hide_metadata(&self) {
        self.state.change(|state| state.hides_metadata = true);
    }

    /// Makes both tokens invalid from now on.
    pub fn revoke_tokens(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Makes them valid again.
    pub fn restore_tokens(&self) {
        self.state.change(|state| state.is_revoked = false);
    }

    /// How often somebody asked for a file.
    #[must_use]
    pub fn downloads(&self) -> usize {
        self.state.read(|state| state.download_count)
    }

    /// Every message the bot sent, in order, as it stands now.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(State::sent)
    }

    /// The visible texts the bot has in one conversation: sent, not deleted, in their final form.
    #[must_use]
    pub fn texts_in(&self, channel: &str) -> Vec<String> {
        let visible = |message: &SentMessage| message.channel == channel && !message.is_deleted;
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

    /// Every call of the Web API so far, in order.
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

    /// Whether everything that was told of it was acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until everything that was told of it is acknowledged.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let reached = |state: &State| state.is_acknowledged(pushed).then_some(());
        self.state.wait_for("an acknowledgement", reached).await
    }

    /// How often everything of it was told, the first time included.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until that is so often.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let reached = |state: &State| (state.deliveries(pushed) >= count).then_some(());
        self.state.wait_for("deliveries", reached).await
    }

    /// The reactions of the bot to a message.
    #[must_use]
    pub fn reactions(&self, channel: &str, ts: &str) -> Vec<String> {
        self.state.read(|state| state.reactions(channel, ts))
    }

    /// Waits until the bot's reactions to a message are these.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
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

    /// How many connections were ever made.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connected)
    }

    /// Waits until so many connections were made.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} connections");
        self.state
            .wait_for(&what, |state| (state.connected >= count).then_some(()))
            .await
    }

    /// What a client did that Slack does not allow.
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
