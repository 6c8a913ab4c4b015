//! The fake as a test uses it: people, chats, messages and settings.

use std::time::Duration;

use nanobot_testkit::http::Server;
use nanobot_testkit::{TestkitError, Watched};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::model::Pushed;
use crate::route::Host;
use crate::state::DingTalkState;
use crate::{handler, socket};

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct DingTalkFake {
    pub(crate) server: Server,
    pub(crate) oapi: Server,
    pub(crate) state: Watched<DingTalkState>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl DingTalkFake {
    /// Starts a fake without people and groups.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let state = Watched::new(DingTalkState::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let address = socket::listen(state.clone(), stop.clone(), &tasks).await?;
        let serve = async |host| {
            let shared = state.clone();
            Server::start(move |request| handler::handle(shared.clone(), host, request)).await
        };
        let (server, oapi) = (serve(Host::Open).await?, serve(Host::Oapi).await?);
        state.change(|state| {
            state.socket = format!("ws://{address}/connect");
            state.oapi = oapi.url();
        });
        Ok(Self {
            server,
            oapi,
            state,
            stop,
            tasks,
        })
    }

    /// Returns the replacement for the host of the open API, without a final slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.url()
    }

    /// Returns the replacement for the host of the older API, without a final slash. Files and
    /// `sessionWebhook`s are there, too.
    #[must_use]
    pub fn oapi_url(&self) -> String {
        self.oapi.url()
    }

    /// Returns the server of the open API: abandoned requests, shutdown.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the server of the older API.
    #[must_use]
    pub fn oapi_server(&self) -> &Server {
        &self.oapi
    }

    /// Advances the fake's clock: tokens, tickets and addresses grow older.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Sets the time limit for acknowledging a push (five seconds by default).
    pub fn acknowledge_within(&self, limit: Duration) {
        self.state.change(|state| state.acknowledge_timeout = limit);
    }

    /// Sets the limit of a message's text in bytes (20,000 by default).
    pub fn limit_text(&self, bytes: usize) {
        self.state.change(|state| state.text_limit = bytes);
    }

    /// Refuses uploads of files whose type is not in DingTalk's list. By default only web pages are
    /// refused, because DingTalk takes more types than it lists.
    pub fn take_only_listed_files(&self) {
        self.state.change(|state| state.only_listed_files = true);
    }

    /// Begins new connections with the frames `CONNECTED` and `REGISTERED`, as some gateways do.
    pub fn announce_connections(&self) {
        self.state
            .change(|state| state.announces_connections = true);
    }

    /// Adds a person, with a private chat. People from outside cannot get private messages.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a group; `has_robot` is `true` if the robot is a member.
    pub fn add_group(&self, id: &str, has_robot: bool) {
        self.state.change(|state| state.add_group(id, has_robot));
    }

    /// Removes the robot from a group, or adds it again.
    pub fn set_membership(&self, chat: &str, has_robot: bool) {
        self.state.change(|state| {
            if let Some(chat) = state.chats.get_mut(chat) {
                chat.has_robot = has_robot;
            }
        });
    }

    /// Dissolves a group.
    pub fn dissolve(&self, chat: &str) {
        self.state.change(|state| state.chats.remove(chat));
    }

    /// Removes a person from the organisation: private messages name them as invalid.
    pub fn remove_person(&self, person: &Person) {
        self.state
            .change(|state| state.people.remove(&person.staff_id));
    }

    /// Puts a person under flow control, or ends it: private messages do not reach them meanwhile.
    pub fn control_flow(&self, person: &Person, is_controlled: bool) {
        self.state.change(|state| {
            if is_controlled {
                state.controlled.insert(person.staff_id.clone());
            } else {
                state.controlled.remove(&person.staff_id);
            }
        });
    }

    /// Adds a published template of cards, with its variable that can be streamed.
    pub fn add_template(&self, id: &str, key: &str) {
        self.state
            .change(|state| state.templates.insert(id.to_owned(), key.to_owned()));
    }

    /// Sends a message from a person. The first message adds its chat, as a group, and its person.
    /// A message of a group that does not mention the robot is pushed to no connection.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Adds a message from a person without a push; it can be quoted.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Pushes any text as the content of a message to the robot, whether it is JSON or not.
    pub fn push_payload(&self, data: &str) -> Pushed {
        self.push_callback(crate::account::MESSAGE_TOPIC, data)
    }

    /// Pushes any callback, whether a connection subscribed to its topic or not.
    pub fn push_callback(&self, topic: &str, data: &str) -> Pushed {
        self.state
            .change(|state| alone(state.force_push("CALLBACK", topic, "", data)))
    }

    /// Pushes an event of any type, whether a connection subscribed to it or not.
    pub fn push_event(&self, event_type: &str, data: &Value) -> Pushed {
        let data = data.to_string();
        self.state
            .change(|state| alone(state.force_push("EVENT", "*", event_type, &data)))
    }

    /// Presses a button of a card. `params` are the values that the button reports.
    pub fn press(&self, card: &str, person: &Person, params: &Value) -> Pushed {
        self.state
            .change(|state| alone(state.press(card, person, params)))
    }

    /// Sends the same pushes again, whether they were acknowledged or not.
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

    /// Makes calls that need this permission fail: `qyapi_robot_sendmsg`, `Card.Instance.Write` or
    /// `Card.Streaming.Write`.
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

/// Returns a push that belongs to no chat.
fn alone(push: usize) -> Pushed {
    Pushed {
        chat_id: String::new(),
        message_id: String::new(),
        pushes: vec![push],
    }
}

impl Drop for DingTalkFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
