//! The fake as a test uses it.

use std::net::SocketAddr;
use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;

use crate::drafts::SentDraft;
use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::messages::SentMessage;
use crate::state::{Call, Pushed, TelegramState};
use crate::{handler, poster};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct TelegramFake {
    server: Server,
    state: Watched<TelegramState>,
    _poster: poster::Poster,
}

impl TelegramFake {
    /// Starts a fake with no chats and no updates.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(TelegramState::default());
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        let _poster = poster::Poster::start(state.clone());
        Ok(Self {
            server,
            state,
            _poster,
        })
    }

    /// Returns the replacement for `https://api.telegram.org`, without a trailing slash.
    #[must_use]
    pub fn api_base(&self) -> String {
        self.server.url()
    }

    /// Returns the underlying server: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a message from a person. The first message creates its chat and topic.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// Edits the text of a person's own message; `None` if there is no such message.
    pub fn edit(&self, chat_id: i64, message_id: i64, text: &str) -> Option<Pushed> {
        self.state
            .change(|state| state.edit_by_person(chat_id, message_id, text))
    }

    /// Presses a button with that data on a message; `None` if there is no such message.
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

    /// Queues an update of any kind. Returns its id, or `None` if the bot receives no updates of
    /// that kind.
    pub fn push_raw(&self, kind: &str, content: Value) -> Option<i64> {
        self.state.change(|state| state.enqueue(kind, content))
    }

    /// Scripts a fault for the next call of a method that has none yet.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the token invalid from now on.
    pub fn revoke_token(&self) {
        self.state.change(|state| state.is_revoked = true);
    }

    /// Sets the address to which webhook updates are posted, in place of the TLS-terminating proxy.
    pub fn post_to(&self, address: SocketAddr) {
        self.state.change(|state| state.webhook.post_to(address));
    }

    /// Makes polls return nothing, despite pending updates, while `is_blind` is `true`.
    pub fn blind(&self, is_blind: bool) {
        self.state.change(|state| state.is_blind = is_blind);
    }

    /// Closes a topic, so that writing to it fails.
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

    /// Deletes a topic.
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

    /// Blocks the bot in a chat.
    pub fn block(&self, chat_id: i64) {
        self.state
            .change(|state| state.chats.entry(chat_id).or_default().is_blocked = true);
    }

    /// Migrates a group to a supergroup with another id.
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

    /// Ends the current or the next poll without updates.
    pub fn end_poll(&self) {
        self.state.change(|state| state.empty_answers += 1);
    }

    /// Lets time pass for the previews of drafts, which vanish 30 s after they were last shown.
    pub fn advance(&self, by: Duration) {
        self.state.change(|state| state.previews.advance(by));
    }

    /// Returns the previews that a person sees in a chat.
    #[must_use]
    pub fn drafts_in(&self, chat_id: i64) -> Vec<SentDraft> {
        let mut drafts = self.state.read(|state| state.previews.all());
        drafts.retain(|draft| draft.chat_id == chat_id);
        drafts
    }

    /// Returns every message the bot sent, in order, in its current form.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(TelegramState::sent)
    }

    /// Returns the visible texts of the bot in one chat: sent, not deleted, in their current form.
    #[must_use]
    pub fn texts_in(&self, chat_id: i64) -> Vec<String> {
        let visible = |message: &SentMessage| message.chat_id == chat_id && !message.is_deleted;
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

    /// Waits until `probe` returns a value for the sent messages and the previews of drafts, both
    /// of the same moment.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] naming `what` if the wait times out.
    pub async fn wait_for_view<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[SentMessage], &[SentDraft]) -> Option<R>,
    ) -> Result<R, TestkitError> {
        self.state
            .wait_for(what, |state| probe(&state.sent(), &state.previews.all()))
            .await
    }

    /// Waits until a chat shows a preview with exactly this text.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_draft(
        &self,
        chat_id: i64,
        text: &str,
    ) -> Result<SentDraft, TestkitError> {
        let is_it = |draft: &&SentDraft| draft.chat_id == chat_id && draft.text == text;
        self.wait_for_view(text, |_, drafts| drafts.iter().find(is_it).cloned())
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

    /// Returns every call so far, in order, including long polls.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// Returns the calls of one method (such as `sendMessage`).
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

    /// Returns the highest offset confirmed so far, or 0. Every update below it was removed.
    #[must_use]
    pub fn acknowledged_offset(&self) -> i64 {
        self.state.read(|state| state.acknowledged)
    }

    /// Returns `true` if a pushed update was confirmed, or if the bot receives no updates of
    /// its kind.
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
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: Pushed) -> Result<(), TestkitError> {
        let what = format!("update {:?} to be confirmed", pushed.update_id);
        let reached = |state: &TelegramState| {
            pushed
                .update_id
                .is_none_or(|id| !state.updates.contains_key(&id))
        };
        self.state
            .wait_for(&what, |state| reached(state).then_some(()))
            .await
    }

    /// Returns the updates that are not confirmed yet.
    #[must_use]
    pub fn pending(&self) -> Vec<Value> {
        self.state
            .read(|state| state.updates.values().cloned().collect())
    }

    /// Returns the number of polls that were ended by another poller.
    #[must_use]
    pub fn conflicts(&self) -> usize {
        self.state.read(|state| state.conflicts)
    }

    /// Returns the bot's reactions to a message.
    #[must_use]
    pub fn reactions(&self, chat_id: i64, message_id: i64) -> Vec<String> {
        self.state
            .read(|state| state.reactions(chat_id, message_id))
    }

    /// Returns the commands that the bot has set.
    #[must_use]
    pub fn commands(&self) -> Value {
        self.state.read(|state| state.commands.clone())
    }
}
