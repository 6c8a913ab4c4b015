//! The fake as a test uses it: people, chats, messages and settings.

use std::time::Duration;

use nanobot_testkit::{TestkitError, Watched, accept_connections};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::TOKEN;
use crate::auth::WRONG_TOKEN;
use crate::connection::{Out, Role};
use crate::fault::Fault;
use crate::incoming::{Incoming, Person};
use crate::link::{REPLACED, Status};
use crate::model::Pushed;
use crate::socket;
use crate::state::WhatsAppState;

/// A running fake; it stops on drop.
#[derive(Debug)]
pub struct WhatsAppFake {
    pub(crate) state: Watched<WhatsAppState>,
    url: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl WhatsAppFake {
    /// Starts a bridge of version 2 that is linked and connected, without people and groups. Its
    /// token is [`TOKEN`].
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        Self::serve(Role::Version2, TOKEN).await
    }

    /// Starts a bridge of version 2 with another token.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start_with_token(token: &str) -> Result<Self, TestkitError> {
        Self::serve(Role::Version2, token).await
    }

    /// Starts a bridge of version 1: no `ready`, no journal, no files except
    /// [paths](Incoming::with_path), answers without `requestId`, and `sent` for any unknown frame.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start_version_1() -> Result<Self, TestkitError> {
        Self::serve(Role::Version1, TOKEN).await
    }

    async fn serve(role: Role, token: &str) -> Result<Self, TestkitError> {
        let state = Watched::new(WhatsAppState::new(role, token));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shared = state.clone();
        let serve = move |stream| socket::serve(shared.clone(), stream);
        let address = accept_connections(stop.clone(), &tasks, serve).await?;
        Ok(Self {
            state,
            url: format!("ws://{address}"),
            stop,
            tasks,
        })
    }

    /// Returns the address of the bridge.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the token that clients have to send.
    #[must_use]
    pub fn token(&self) -> String {
        self.state.read(|state| state.token.clone())
    }

    /// Advances the fake's clock: files and QR codes grow older, pings and the time limit of `auth`
    /// become due.
    pub fn advance(&self, time: Duration) {
        self.state.change(|state| state.advanced += time);
    }

    /// Sets the size of the pieces of received files (512 KiB by default).
    pub fn limit_piece(&self, bytes: usize) {
        let bytes = bytes.clamp(1, crate::state::PIECE_LIMIT);
        self.state.change(|state| state.piece_limit = bytes);
    }

    /// Sets the size of the largest file in both directions (100 MiB by default).
    pub fn limit_file(&self, bytes: usize) {
        self.state.change(|state| state.file_limit = bytes);
    }

    /// Sets the length of the longest text, in characters (65,536 by default).
    pub fn limit_text(&self, characters: usize) {
        self.state.change(|state| state.text_limit = characters);
    }

    /// Sets the limits of the journal (10,000 messages and 64 MiB by default).
    pub fn limit_journal(&self, messages: usize, bytes: usize) {
        self.state.change(|state| {
            state.journal.count_limit = messages;
            state.journal.size_limit = bytes;
        });
    }

    /// Sets the number of ids of sent messages that the bridge knows (10,000 by default).
    pub fn limit_ids(&self, count: usize) {
        self.state.change(|state| state.id_limit = count);
    }

    /// Adds a person, with a direct chat.
    pub fn add_person(&self, person: &Person) {
        self.state.change(|state| state.add_person(person));
    }

    /// Adds a group; `has_bot` is `true` if the account is a member.
    pub fn add_group(&self, id: &str, has_bot: bool) {
        self.state.change(|state| state.add_group(id, has_bot));
    }

    /// Removes the account from a group, or adds it again. In a direct chat, the person blocks the
    /// account.
    pub fn set_membership(&self, chat: &str, has_bot: bool) {
        self.state.change(|state| {
            let chat = state.canonical(chat);
            if let Some(known) = state.chats.get_mut(&chat) {
                *known = has_bot;
            }
        });
    }

    /// Removes a group or the account of a person.
    pub fn dissolve(&self, chat: &str) {
        self.state.change(|state| {
            let chat = state.canonical(chat);
            state.chats.remove(&chat)
        });
    }

    /// Sends a message from a person. The first message adds its chat, as a group, and its person.
    /// While the account is not connected, the message waits at WhatsApp.
    pub fn push(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, true))
    }

    /// Adds a message from a person that the client does not get; it can be quoted.
    pub fn push_silently(&self, incoming: Incoming) -> Pushed {
        self.state.change(|state| state.push(incoming, false))
    }

    /// Puts any members as a message into the journal. `type` and `seq` are added if they are
    /// missing.
    pub fn push_payload(&self, body: &Value) -> Pushed {
        let message_id = self.state.change(|state| state.push_payload(body));
        let sender = body.get("sender").and_then(Value::as_str);
        Pushed {
            chat_id: sender.unwrap_or_default().to_owned(),
            message_id,
        }
    }

    /// Sends the same message again, with a new `seq`.
    pub fn repeat(&self, pushed: &Pushed) {
        self.state.change(|state| state.repeat(&pushed.message_id));
    }

    /// Scripts a fault for the next frame of a type that has none yet; `socket` is the handshake of
    /// a connection, which knows [`Fault::Status`], [`Fault::Drop`] and [`Fault::Hang`].
    pub fn fail_next(&self, method: &str, fault: Fault) {
        self.state
            .change(|state| state.calls.fail_next(method, fault));
    }

    /// Makes the token invalid from now on, and closes every connection with 4003.
    pub fn revoke_credentials(&self) {
        self.state.change(|state| {
            state.is_revoked = true;
            state.leave(&Out::Close(WRONG_TOKEN));
        });
    }

    /// Makes the token valid again.
    pub fn restore_credentials(&self) {
        self.state.change(|state| state.is_revoked = false);
    }

    /// Removes the device, as a person does in the app; a QR code follows.
    pub fn unlink(&self) {
        self.state.change(|state| {
            state.set_status(Status::Unlinked, Some("logged_out"), Some(true));
            let qr = state.next_id("2@TESTqr");
            state.show_qr(&qr);
        });
    }

    /// Shows another QR code.
    pub fn show_qr(&self, qr: &str) {
        self.state.change(|state| state.show_qr(qr));
    }

    /// Links the device, as a person does who scans the QR code: the bridge restarts its connection
    /// to WhatsApp, and is connected.
    pub fn link(&self) {
        self.disconnect("restart", true);
        self.reconnect();
    }

    /// Disconnects the bridge from WhatsApp.
    pub fn disconnect(&self, reason: &str, retry: bool) {
        self.state
            .change(|state| state.set_status(Status::Disconnected, Some(reason), Some(retry)));
    }

    /// Disconnects the bridge because another program uses its keys.
    pub fn replace(&self) {
        self.disconnect(REPLACED, false);
    }

    /// Connects the bridge to WhatsApp again; messages that waited there arrive.
    pub fn reconnect(&self) {
        self.state.change(|state| {
            state.set_status(Status::Connecting, None, None);
            state.set_status(Status::Connected, None, None);
        });
    }

    /// Sets the status, and tells every client.
    pub fn set_status(&self, status: Status) {
        self.state
            .change(|state| state.set_status(status, None, None));
    }
}

impl Drop for WhatsAppFake {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}
