//! The fake as a test uses it: people, chats, messages and settings.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched, accept_connections};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Out;
use crate::event::{EVENT, MESSAGE};
use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::{CallbackKind, Pushed};
use crate::state::WeComState;
use crate::{files, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct WeComFake {
    pub(crate) server: Server,
    pub(crate) state: Watched<WeComState>,
    ws_url: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl WeComFake {
    /// Starts a fake without people and groups.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(WeComState::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shared = state.clone();
        let serve = move |stream| socket::serve(shared.clone(), stream);
        let address = accept_connections(stop.clone(), &tasks, serve).await?;
        let shared = state.clone();
        let server = Server::start(move |request| files::handle(shared.clone(), request)).await?;
        state.change(|state| state.media = server.url());
        Ok(Self {
            server,
            state,
            ws_url: format!("ws://{address}"),
            stop,
            tasks,
        })
    }

    /// Returns the replacement for `wss://openws.work.weixin.qq.com`.
    #[must_use]
    pub fn ws_url(&self) -> String {
        self.ws_url.clone()
    }

    /// Returns the beginning of the addresses of files, without a final slash.
    #[must_use]
    pub fn media_url(&self) -> String {
        self.server.url()
    }

    /// Returns the server of the files: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Advances the fake's clock: addresses, callbacks, streams and uploads grow older.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Sets the limit of a message's text in bytes (20,480 by default).
    pub fn limit_text(&self, bytes: usize) {
        self.state.change(|state| state.text_limit = bytes);
    }

    /// Limits each chat to 30 messages a minute and 1,000 an hour, as WeCom does (846607). Each
    /// frame of a stream counts.
    pub fn limit_messages(&self) {
        self.state.change(|state| state.limits.apply = true);
    }

    /// Keeps pushes without a connection for the next subscription. By default they are lost.
    pub fn keep_messages(&self) {
        self.state.change(|state| state.keeps_messages = true);
    }

    /// Adds a person, with a private chat.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a group; `has_bot` is `true` if the bot is a member.
    pub fn add_group(&self, id: &str, has_bot: bool) {
        self.state.change(|state| state.add_group(id, has_bot));
    }

    /// Removes the bot from a chat, or adds it again.
    pub fn set_membership(&self, chat: &str, has_bot: bool) {
        self.state.change(|state| {
            if let Some(chat) = state.chats.get_mut(chat) {
                chat.has_bot = has_bot;
            }
        });
    }

    /// Dissolves a group, or removes a person from the organisation.
    pub fn dissolve(&self, chat: &str) {
        self.state.change(|state| state.chats.remove(chat));
    }

    /// Sends a message from a person. The first message adds its chat, as a group, and its person.
    /// A message of a group that does not mention the bot is pushed to no connection. WeCom has
    /// images, files, voices and videos in private chats only; the fake pushes them everywhere.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Adds a message from a person without a push; it can be quoted.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Pushes any body as the callback of a message.
    pub fn push_payload(&self, body: &Value) -> Pushed {
        let body = body.clone();
        self.state
            .change(|state| state.queue(MESSAGE, body, CallbackKind::Message))
    }

    /// Pushes any body as the callback of an event.
    pub fn push_event_payload(&self, body: &Value) -> Pushed {
        self.push_callback(EVENT, body)
    }

    /// Pushes a callback of any command.
    pub fn push_callback(&self, cmd: &str, body: &Value) -> Pushed {
        let body = body.clone();
        self.state
            .change(|state| state.queue(cmd, body, CallbackKind::Other))
    }

    /// Pushes an event of a person in a chat. `event` has the `eventtype`.
    pub fn push_event(&self, chat: &str, person: &Person, event: &Value) -> Pushed {
        self.state
            .change(|state| state.push_event(chat, person, event))
    }

    /// Opens the person's private chat for the first time today (`enter_chat`).
    pub fn enter(&self, person: &Person) -> Pushed {
        self.push_event(
            &person.direct(),
            person,
            &json!({"eventtype": "enter_chat"}),
        )
    }

    /// Presses a button of a card by the key of its message; `None` if there is no such message.
    pub fn press(&self, key: &str, person: &Person, button: &str) -> Option<Pushed> {
        self.state.change(|state| state.press(key, person, button))
    }

    /// Rates a message of the bot (`feedback_event`). `id` is the id that the bot gave to the
    /// feedback, 1 the type of praise.
    pub fn rate(&self, person: &Person, id: &str) -> Pushed {
        let event = json!({
            "eventtype": "feedback_event", "feedback_event": {"id": id, "type": 1, "content": ""},
        });
        self.push_event(&person.direct(), person, &event)
    }

    /// Pushes the same callback again, with the same `req_id`.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(pushed));
    }

    /// Scripts a fault for the next call of a method that has none yet; methods are named as in
    /// [`Call::method`](crate::Call::method), and `socket` is the handshake of a connection, which
    /// knows [`Fault::Status`], [`Fault::Drop`] and [`Fault::Hang`].
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the secret invalid from now on, and closes every connection.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.leave(&Out::Close);
        });
    }

    /// Makes the secret valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }
}

impl Drop for WeComFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
