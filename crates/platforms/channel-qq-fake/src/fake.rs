//! The fake as a test uses it: people, chats, messages and settings.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::{Chat, ChatKind, Pushed};
use crate::state::QqState;
use crate::{handler, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct QqFake {
    pub(crate) server: Server,
    pub(crate) state: Watched<QqState>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl QqFake {
    /// Starts a fake without people and groups.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(QqState::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = socket::listen(state.clone(), stop.clone(), &tasks).await?;
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        state.change(|state| {
            state.socket = format!("ws://{address}{}", socket::PATH);
            state.base = server.url();
        });
        Ok(Self {
            server,
            state,
            stop,
            tasks,
        })
    }

    /// Returns the replacement for the host of the API, without a final slash. Attachments are
    /// there, too.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.url()
    }

    /// Returns the whole address for access tokens.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("{}/app/getAppAccessToken", self.server.url())
    }

    /// Returns the server of the API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Advances the fake's clock: tokens, sessions, uploads and the time for replies grow older.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Adds a person, with a private chat and direct messages of guilds.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a group; `has_bot` is `true` if the bot is a member.
    pub fn add_group(&self, id: &str, has_bot: bool) {
        self.state.change(|state| {
            state.add_chat(ChatKind::Group, id);
            if let Some(chat) = state.chats.get_mut(id) {
                chat.has_bot = has_bot;
            }
        });
    }

    /// Adds a channel of a guild.
    pub fn add_channel(&self, id: &str) {
        self.state
            .change(|state| state.add_chat(ChatKind::Channel, id));
    }

    /// Removes the bot from a chat, or adds it again. A person without it has no friendship.
    pub fn set_membership(&self, chat: &str, has_bot: bool) {
        self.change_chat(chat, |chat| chat.has_bot = has_bot);
    }

    /// Mutes the bot in a chat, or ends it: messages are refused with 40054002.
    pub fn mute(&self, chat: &str, is_muted: bool) {
        self.change_chat(chat, |chat| chat.is_muted = is_muted);
    }

    /// Refuses messages in a chat that are no replies, with 40034105, or ends it.
    pub fn reject_active_messages(&self, chat: &str, is_rejected: bool) {
        self.change_chat(chat, |chat| chat.rejects_active = is_rejected);
    }

    fn change_chat(&self, chat: &str, apply: impl FnOnce(&mut Chat)) {
        self.state
            .change(|state| state.chats.get_mut(chat).map(apply));
    }

    /// Sends a message from a person. The first message adds its chat. A message that does not
    /// reach the bot is pushed to no connection. Sessions without a connection get it once they are
    /// resumed; without any session it is lost.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Adds a message from a person without a push; it can be quoted and replied to.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Pushes any event to every session: `FRIEND_ADD`, `GROUP_ADD_ROBOT`, or one with malformed
    /// data.
    pub fn push_event(&self, name: &str, data: &Value) -> Pushed {
        self.state.change(|state| Pushed {
            chat_id: String::new(),
            message_id: String::new(),
            pushes: vec![state.queue(name, 0, data.clone())],
        })
    }

    /// Pushes the same events again with new numbers, whether they were acknowledged or not.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| {
            for number in &pushed.pushes {
                if let Some(push) = state.pushes.get_mut(*number) {
                    push.is_acknowledged = false;
                }
                state.deliver(*number);
            }
        });
    }

    /// Scripts a fault for the next call of a method that has none yet; methods are named as in
    /// [`Call::method`](crate::Call::method), and `socket` is the handshake of a connection, which
    /// knows [`Fault::Status`], [`Fault::Drop`] and [`Fault::Hang`].
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Invalidates every token issued so far.
    pub fn revoke_tokens(&self) {
        self.state.change(|state| state.tokens.clear());
    }

    /// Makes the secret invalid from now on, and closes every connection with 4004.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.tokens.clear();
            state.close_all(4004);
        });
    }

    /// Makes the secret valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }
}

impl Drop for QqFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
