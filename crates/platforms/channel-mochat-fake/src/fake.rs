//! The fake as a test uses it: people, sessions, panels, messages and settings.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::{Feed, Pushed, TEXT_PANEL};
use crate::packet::{Packet, Serializer};
use crate::state::MochatState;
use crate::{handler, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct MochatFake {
    pub(crate) server: Server,
    pub(crate) state: Watched<MochatState>,
    /// Address of the socket, without a path.
    socket: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl MochatFake {
    /// Starts a fake without people and panels, whose packets are MessagePack.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        Self::start_with(Serializer::Msgpack).await
    }

    /// Starts a fake without people and panels, with this form of packets.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start_with(serializer: Serializer) -> Result<Self, TestkitError> {
        let state = Watched::new(MochatState::new(serializer));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = socket::listen(state.clone(), stop.clone(), &tasks).await?;
        let shared = state.clone();
        let serve = move |request| handler::handle(shared.clone(), request);
        Ok(Self {
            server: Server::start(serve).await?,
            state,
            socket: format!("http://{address}"),
            stop,
            tasks,
        })
    }

    /// Returns the base URL of the API, without a final slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.url()
    }

    /// Returns the URL of the socket (`http://…`), without its path and without a final slash.
    #[must_use]
    pub fn socket_url(&self) -> String {
        self.socket.clone()
    }

    /// Returns the server of the API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Advances the fake's clock, which dates messages.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Sets the path of the socket (`/socket.io` by default), without a final slash.
    pub fn serve_socket_at(&self, path: &str) {
        self.state
            .change(|state| path.clone_into(&mut state.socket_path));
    }

    /// Sets the time between pings of Engine.IO and the time limit for an answer (25 and 20 seconds
    /// by default). Clients learn them when they connect.
    pub fn ping_every(&self, interval: Duration, timeout: Duration) {
        self.state.change(|state| {
            state.ping_interval = interval;
            state.ping_timeout = timeout;
        });
    }

    /// Sets the time limit for the login of a connection (45 seconds by default).
    pub fn log_in_within(&self, limit: Duration) {
        self.state.change(|state| state.login_timeout = limit);
    }

    /// Sets the limit of a message's text in bytes (20,000 by default).
    pub fn limit_text(&self, bytes: usize) {
        self.state.change(|state| state.text_limit = bytes);
    }

    /// Sets the ways in which events reach connected clients ([`Feed::Both`] by default).
    pub fn feed(&self, feed: Feed) {
        self.state.change(|state| state.feed = feed);
    }

    /// Sets whether the bot's own messages are events, too (`true` by default).
    pub fn echo_sends(&self, is_echoed: bool) {
        self.state.change(|state| state.echoes_sends = is_echoed);
    }

    /// Leaves events above the limit of a subscription where they are: the client has to ask for
    /// them. By default they follow the acknowledgement.
    pub fn keep_backlog(&self) {
        self.state.change(|state| state.keeps_backlog = true);
    }

    /// Lists panels with the member `_id` instead of `id`.
    pub fn list_panels_by_underscore_id(&self) {
        self.state.change(|state| state.panel_id_key = "_id");
    }

    /// Adds a person, with a session.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a session (`session_…`) of several people.
    pub fn add_session(&self, id: &str, people: &[Person]) {
        self.state.change(|state| state.add_session(id, people));
    }

    /// Adds a text panel.
    pub fn add_panel(&self, id: &str) {
        self.add_panel_of_type(id, TEXT_PANEL);
    }

    /// Adds a panel of a type: 0 is text, 1 a folder, 2 a plugin.
    pub fn add_panel_of_type(&self, id: &str, kind: i64) {
        self.state.change(|state| state.add_panel(id, kind));
    }

    /// Removes the bot from a session or panel, or adds it again.
    pub fn set_membership(&self, chat: &str, has_robot: bool) {
        self.state.change(|state| {
            if let Some(chat) = state.chats.get_mut(chat) {
                chat.has_robot = has_robot;
            }
        });
    }

    /// Deletes a session or panel.
    pub fn dissolve(&self, chat: &str) {
        self.state.change(|state| state.chats.remove(chat));
    }

    /// Sends a message from a person. The first message adds its session or panel.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming))
    }

    /// Adds a message from a person that no connected client hears of: the history of a session or
    /// panel.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.add_message(incoming))
    }

    /// Sends two messages whose events reach connected clients in the wrong order.
    pub fn push_reversed(&self, earlier: Incoming, later: Incoming) -> [Pushed; 2] {
        self.state.change(|state| {
            let both = [state.add_message(earlier), state.add_message(later)];
            for pushed in both.iter().rev() {
                state.deliver(&pushed.chat_id, pushed.seq);
            }
            both
        })
    }

    /// Edits a message.
    pub fn update(&self, pushed: &Pushed, text: &str) -> Pushed {
        let content = Value::String(text.to_owned());
        self.state
            .change(|state| state.change_message(pushed, "update", Some(&content)))
    }

    /// Recalls a message.
    pub fn recall(&self, pushed: &Pushed) -> Pushed {
        self.state
            .change(|state| state.change_message(pushed, "recall", None))
    }

    /// Deletes a message.
    pub fn delete(&self, pushed: &Pushed) -> Pushed {
        self.state
            .change(|state| state.change_message(pushed, "delete", None))
    }

    /// Adds an event of any type to a session or panel, with any content.
    pub fn push_claw_event(&self, chat: &str, kind: &str, payload: Value) -> Pushed {
        self.state
            .change(|state| state.push_claw_event(chat, kind, payload))
    }

    /// Sends any event of Socket.IO to every client that is logged in.
    pub fn push_event(&self, name: &str, payload: &Value) {
        self.state
            .change(|state| state.send_to_all(&Packet::event(name, payload)));
    }

    /// Sends any packet of Socket.IO to every client that is logged in; `data` is not checked.
    pub fn push_packet(&self, kind: u64, id: Option<u64>, data: Value) {
        let packet = Packet {
            id,
            ..Packet::new(kind, data)
        };
        self.state.change(|state| state.send_to_all(&packet));
    }

    /// Delivers the same event again: to the clients that are subscribed, otherwise with the next
    /// subscription or long poll, whatever its cursor is.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state
            .change(|state| state.repeat(&pushed.chat_id, pushed.seq));
    }

    /// Scripts a fault for the next call of a method that has none yet; methods are named as in
    /// [`Call::method`](crate::Call::method), and `socket` is the handshake of a connection.
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Holds back every acknowledgement on the socket from now on.
    pub fn hold_acks(&self) {
        self.state.change(|state| state.holds_acks = true);
    }

    /// Sends the acknowledgements that were held back, and holds back no more.
    pub fn release_acks(&self) {
        self.state.change(MochatState::release_acks);
    }

    /// Answers every long poll that waits, without events.
    pub fn end_watches(&self) {
        self.state.change(|state| state.ended_watches += 1);
    }

    /// Makes the token invalid from now on, and closes every connection.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.close();
        });
    }

    /// Makes the token valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }
}

impl Drop for MochatFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
