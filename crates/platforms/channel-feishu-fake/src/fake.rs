//! The fake as a test uses it: people, chats, messages and settings.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::ClientConfig;
use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::{ChatKind, Pushed};
use crate::state::FeishuState;
use crate::{handler, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct FeishuFake {
    pub(crate) server: Server,
    pub(crate) state: Watched<FeishuState>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl FeishuFake {
    /// Starts a fake with no chats.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(FeishuState::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = socket::listen(state.clone(), stop.clone(), &tasks).await?;
        let shared = state.clone();
        let server = Server::start(move |request| handler::handle(shared.clone(), request)).await?;
        state.change(|state| state.socket = format!("ws://{address}"));
        Ok(Self {
            server,
            state,
            stop,
            tasks,
        })
    }

    /// Returns the replacement for Feishu's domain, without a final slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.url()
    }

    /// Returns the server of the open API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Advances the fake's clock: tokens, `uuid`s, streaming and card entities grow older.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Sets the time limit for acknowledging an event (three seconds by default).
    pub fn acknowledge_within(&self, limit: Duration) {
        self.state.change(|state| state.acknowledge_timeout = limit);
    }

    /// Sets the configuration that clients receive with their URL and with each pong.
    pub fn configure_clients(&self, config: ClientConfig) {
        self.state.change(|state| state.client_config = config);
    }

    /// Sets the number of connections that the app may have (50 by default).
    pub fn limit_connections(&self, count: usize) {
        self.state.change(|state| state.connection_limit = count);
    }

    /// Sets the number of table elements that a card may have (one by default). With 0, the refusal
    /// is no complaint.
    pub fn limit_tables(&self, count: usize) {
        self.state.change(|state| state.table_limit = count);
    }

    /// Delivers events in this many frames from now on, as far as their length allows.
    pub fn split_events(&self, parts: usize) {
        self.state.change(|state| state.parts = parts);
    }

    /// Delivers the parts of an event in reverse order from now on.
    pub fn reverse_parts(&self) {
        self.state.change(|state| state.reverses_parts = true);
    }

    /// Loses the last frame of each of the next `count` deliveries.
    pub fn lose_parts(&self, count: usize) {
        self.state.change(|state| state.lost_parts = count);
    }

    /// Limits the messages of the bot to a chat in a second; Feishu's limit is five. There is no
    /// limit by default.
    pub fn limit_sends(&self, per_second: usize) {
        self.state
            .change(|state| state.send_limit = Some(per_second));
    }

    /// Limits the changes of a message or a card in a second; Feishu's limits are five for a message
    /// and ten for a card. There is no limit by default.
    pub fn limit_updates(&self, per_second: usize) {
        self.state
            .change(|state| state.update_limit = Some(per_second));
    }

    /// Sends no events for group messages that do not mention the bot, as to an app that may only
    /// read its mentions.
    pub fn report_only_mentions(&self) {
        self.state.change(|state| state.only_mentions = true);
    }

    /// Adds a person, with a direct chat.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a group; `has_bot` is `true` if the bot is a member.
    pub fn add_group(&self, id: &str, has_bot: bool) {
        self.state
            .change(|state| state.add_chat(id, ChatKind::Group, has_bot));
    }

    /// Adds a group in which each message starts a thread.
    pub fn add_topic_group(&self, id: &str) {
        self.state
            .change(|state| state.add_chat(id, ChatKind::Topics, true));
    }

    /// Removes the bot from a chat, or adds it again.
    pub fn set_membership(&self, chat: &str, has_bot: bool) {
        self.state.change(|state| {
            if let Some(chat) = state.chats.get_mut(chat) {
                chat.has_bot = has_bot;
            }
        });
    }

    /// Dissolves a group.
    pub fn dissolve(&self, chat: &str) {
        self.state.change(|state| {
            if let Some(chat) = state.chats.get_mut(chat) {
                chat.is_dissolved = true;
            }
        });
    }

    /// Sends a message from a person. The first message creates its chat, a group, and its person.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Adds a message from a person without sending an event.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Withdraws a message, as its sender would.
    pub fn withdraw(&self, message: &str) {
        self.state.change(|state| {
            if let Some(message) = state.messages.get_mut(message) {
                message.is_deleted = true;
            }
        });
    }

    /// Sends an event of any type; `event` is the member `event` of the payload.
    pub fn push_event(&self, event_type: &str, event: &Value) -> Pushed {
        self.state
            .change(|state| alone(state.queue_event(event_type, event)))
    }

    /// Sends any payload in data frames of type `event`, whether it is JSON or not.
    pub fn push_payload(&self, payload: impl Into<Vec<u8>>) -> Pushed {
        self.state
            .change(|state| alone(state.queue_payload("event", payload.into())))
    }

    /// Sends any payload in data frames of the old type `card`, which clients do not answer.
    pub fn push_card_frame(&self, payload: impl Into<Vec<u8>>) -> Pushed {
        self.state.change(|state| {
            let number = state.queue_payload("card", payload.into());
            if let Some(event) = state.events.get_mut(number) {
                event.is_callback = true;
            }
            alone(number)
        })
    }

    /// Presses the button with this text on a card of the bot; `None` if there is none.
    pub fn press(&self, message: &str, person: &Person, label: &str) -> Option<Pushed> {
        self.state
            .change(|state| state.press(message, person, label))
    }

    /// Sends the same events again, whether they were acknowledged or not.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(pushed));
    }

    /// Scripts a fault for the next call of a method that has none yet; methods are named as in
    /// [`Call::method`](crate::Call::method), and `socket` is the handshake of the long connection.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes calls that need this permission fail, for example `cardkit:card:write`.
    pub fn deny_scope(&self, scope: &str) {
        self.state
            .change(|state| state.denied_scopes.insert(scope.to_owned()));
    }

    /// Grants a permission that was denied.
    pub fn grant_scope(&self, scope: &str) {
        self.state.change(|state| state.denied_scopes.remove(scope));
    }

    /// Invalidates every token issued so far.
    pub fn revoke_tokens(&self) {
        self.state.change(|state| state.tokens.clear());
    }

    /// Makes the secret invalid from now on, and closes every connection.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.tokens.clear();
            state.close();
        });
    }

    /// Makes the secret valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }
}

/// Returns an event that belongs to no chat.
fn alone(event: usize) -> Pushed {
    Pushed {
        chat_id: String::new(),
        message_id: String::new(),
        events: vec![event],
    }
}

impl Drop for FeishuFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
