//! A fake of Telegram's Bot API with strict semantics.
//!
//! Clients are pointed at [`TelegramFake::api_base`]. An update is handed out again and again until a
//! `getUpdates` with a higher offset confirms it; a second poller ends the first with 409; markup is
//! parsed as Telegram parses it; limits count UTF-16 units after that. Requests may be JSON, form,
//! multipart or query, method names in any case. A webhook is posted to the address of a listener
//! that stands for the proxy in front of it, which ends TLS ([`TelegramFake::post_to`]). Known gaps:
//! `parse_mode` knows HTML alone, and failed posts are repeated faster than Telegram does.

mod api;
mod fault;
mod files;
mod handler;
mod html;
mod incoming;
mod messages;
pub(crate) mod multipart;
mod params;
mod polling;
mod sending;
mod state;
mod webhook;

use std::net::SocketAddr;

use serde_json::Value;

pub use fault::Fault;
pub use incoming::{FileKind, Incoming, Person};
pub use messages::{SentFile, SentMessage};
pub use state::{Call, Pushed};

use crate::TestkitError;
use crate::http::Server;
use crate::sync::Watched;
use state::State;

/// The token the fake accepts.
pub const TOKEN: &str = "123456789:TEST-token_of_the_fake";
/// The bot's user id.
pub const BOT_ID: i64 = 123_456_789;
/// The bot's user name, without `@`.
pub const BOT_USERNAME: &str = "nanobot_test_bot";

/// A running fake; it stops when dropped.
#[derive(Debug)]
pub struct TelegramFake {
    server: Server,
    state: Watched<State>,
    _poster: webhook::Poster,
}

impl TelegramFake {
    /// Starts one with no chats and no updates.
    ///
    /// # Errors
    /// [`TestkitError::Listen`].
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(State::default());
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        let _poster = webhook::Poster::start(state.clone());
        Ok(Self {
            server,
            state,
            _poster,
        })
    }

    /// What takes the place of `https://api.telegram.org`, without a final slash.
    #[must_use]
    pub fn api_base(&self) -> String {
        self.server.url()
    }

    /// The server itself: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// A person sends something. Chat and topic come into being with their first message.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// A person changes the text of a message of theirs; `None` when there is no such message.
    pub fn edit(&self, chat_id: i64, message_id: i64, text: &str) -> Option<Pushed> {
        self.state
            .change(|state| state.edit_by_person(chat_id, message_id, text))
    }

    /// A person presses a button with that data below a message; `None` when there is no such message.
    pub fn press(
        &self,
        chat_id: i64,
        message_id: i64,
        person: &Person,
        data: &str,
    ) -> Option<Pushed> {
        self.state
            .change(|state| state.press(chat_id, message_id, person, data))
    }

    /// Any update; its one member names its kind. The id is added.
    pub fn push_raw(&self, kind: &str, content: Value) -> Option<i64> {
        self.state.change(|state| state.enqueue(kind, content))
    }

    /// Lets the next call of a method that has no fault yet go wrong.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the token invalid from now on.
    pub fn revoke_token(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Where posts to the webhook end up: what stands there for the proxy that ends TLS.
    pub fn post_to(&self, address: SocketAddr) {
        self.state.change(|state| state.webhook.post_to(address));
    }

    /// Whether polls bring nothing although updates wait.
    pub fn blind(&self, is_blind: bool) {
        self.state.change(|state| state.is_blind = is_blind);
    }

    /// Lets nobody write to a topic.
    pub fn close_topic(&self, chat_id: i64, thread: i64) {
        self.state.change(|state| {
            state
                .chats
                .entry(chat_id)
                .or_default()
                .closed_threads
                .insert(thread);
        });
    }

    /// Takes a topic away.
    pub fn delete_topic(&self, chat_id: i64, thread: i64) {
        self.state.change(|state| {
            state
                .chats
                .entry(chat_id)
                .or_default()
                .threads
                .remove(&thread);
        });
    }

    /// The people of a chat want to hear no more of the bot.
    pub fn block(&self, chat_id: i64) {
        self.state
            .change(|state| state.chats.entry(chat_id).or_default().is_blocked = true);
    }

    /// A group becomes a supergroup with another id.
    pub fn migrate(&self, chat_id: i64, to: i64) {
        self.state.change(|state| {
            state.chats.entry(chat_id).or_default().moved_to = Some(to);
            let chat = state.chats.entry(to).or_default();
            chat.json =
                serde_json::json!({"id": to, "type": "supergroup", "title": format!("Group {to}")});
        });
    }

    /// Makes the token valid again.
    pub fn restore_token(&self) {
        self.state.change(|state| state.is_revoked = false);
    }

    /// Ends a poll without news: the one that is under way, or the next.
    pub fn end_poll(&self) {
        self.state.change(|state| state.empty_answers += 1);
    }

    /// Every message the bot sent, in order, as it stands now.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(State::sent)
    }

    /// The visible texts the bot has in one chat: sent, not deleted, in their final form.
    #[must_use]
    pub fn texts_in(&self, chat_id: i64) -> Vec<String> {
        let visible = |message: &SentMessage| message.chat_id == chat_id && !message.is_deleted;
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

    /// Every call so far, in order, long polls included.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// The calls of one method (`sendMessage`).
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

    /// The highest offset that was ever confirmed: every update below it is gone. 0 before the first.
    #[must_use]
    pub fn acknowledged_offset(&self) -> i64 {
        self.state.read(|state| state.acknowledged)
    }

    /// Whether a pushed update was confirmed. True for one that nobody wanted.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: Pushed) -> bool {
        self.state.read(|state| {
            pushed
                .update_id
                .is_none_or(|id| !state.updates.contains_key(&id))
        })
    }

    /// Waits until a pushed update is confirmed.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_acknowledged(&self, pushed: Pushed) -> Result<(), TestkitError> {
        let what = format!("update {:?} to be confirmed", pushed.update_id);
        let reached = |state: &State| {
            pushed
                .update_id
                .is_none_or(|id| !state.updates.contains_key(&id))
        };
        self.state
            .wait_for(&what, |state| reached(state).then_some(()))
            .await
    }

    /// The updates that are not confirmed yet.
    #[must_use]
    pub fn pending(&self) -> Vec<Value> {
        self.state
            .read(|state| state.updates.values().cloned().collect())
    }

    /// How often a poller was ended by another one.
    #[must_use]
    pub fn conflicts(&self) -> usize {
        self.state.read(|state| state.conflicts)
    }

    /// The bot's reactions to a message.
    #[must_use]
    pub fn reactions(&self, chat_id: i64, message_id: i64) -> Vec<String> {
        self.state
            .read(|state| state.reactions(chat_id, message_id))
    }

    /// The commands the bot has set.
    #[must_use]
    pub fn commands(&self) -> Value {
        self.state.read(|state| state.commands.clone())
    }
}
