//! The view of a test on the fake, and its waits.

use nanobot_testkit::TestkitError;
use serde_json::Value;

use crate::account::{BOT_ID, Person};
use crate::fake::MatrixFake;
use crate::model::{Pushed, Receipt, SentMessage};
use crate::state::{Call, MatrixState};

impl MatrixFake {
    /// Returns every message the bot sent, in order, with its edits applied. Edits, redactions and
    /// state events are not messages of their own; reactions are, with an empty text.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the visible texts of the bot in one room, without redacted messages. Encrypted
    /// messages have none.
    #[must_use]
    pub fn texts_in(&self, room: &str) -> Vec<String> {
        let here = |message: &SentMessage| {
            message.room_id == room && message.kind == "m.room.message" && !message.is_redacted
        };
        let sent = self.sent().into_iter().filter(here);
        sent.map(|message| message.text).collect()
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
        self.state.wait_for(what, |state| probe(&state.sent)).await
    }

    /// Returns every call of the bot so far, in order, with the ones that need no token. Calls
    /// with an invalid token are not recorded.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state.read(|state| state.calls.all().to_vec())
    }

    /// Returns the calls of one method.
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

    /// Returns `true` if the bot has shown a `since` after the event, so that it does not need the
    /// event again.
    #[must_use]
    pub fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        self.state.read(|state| state.is_acknowledged(pushed))
    }

    /// Waits until the event is [acknowledged](MatrixFake::is_acknowledged).
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_acknowledged(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let is_reached = |state: &MatrixState| state.is_acknowledged(pushed);
        self.wait_until("a later `since`", is_reached).await
    }

    /// Returns the number of times that a sync of the bot had the event.
    #[must_use]
    pub fn deliveries(&self, pushed: &Pushed) -> usize {
        self.state.read(|state| state.deliveries(pushed))
    }

    /// Waits until syncs had the event at least `count` times.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_deliveries(
        &self,
        pushed: &Pushed,
        count: usize,
    ) -> Result<(), TestkitError> {
        let is_reached = |state: &MatrixState| state.deliveries(pushed) >= count;
        self.wait_until("deliveries", is_reached).await
    }

    /// Returns the number of syncs of the bot that wait for news.
    #[must_use]
    pub fn waiting_syncs(&self) -> usize {
        self.state.read(|state| state.waiting_syncs)
    }

    /// Waits until this many syncs of the bot wait for news.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_waiting_syncs(&self, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} waiting syncs");
        self.wait_until(&what, |state| state.waiting_syncs == count)
            .await
    }

    /// Returns the membership of the bot in a room; `leave` if it has none.
    #[must_use]
    pub fn membership(&self, room: &str) -> String {
        self.state.read(|state| state.bot_membership(room))
    }

    /// Waits until the bot has this membership in a room.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_membership(
        &self,
        room: &str,
        membership: &str,
    ) -> Result<(), TestkitError> {
        let what = format!("the membership {membership} in {room}");
        self.wait_until(&what, |state| state.bot_membership(room) == membership)
            .await
    }

    /// Returns `true` if the bot types in a room.
    #[must_use]
    pub fn is_typing(&self, room: &str) -> bool {
        self.state.read(|state| state.is_typing(room, BOT_ID))
    }

    /// Waits until the bot types in a room, or no longer.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_typing(&self, room: &str, is_typing: bool) -> Result<(), TestkitError> {
        let is_reached = |state: &MatrixState| state.is_typing(room, BOT_ID) == is_typing;
        self.wait_until("typing", is_reached).await
    }

    /// Returns the receipts of the bot in a room, the newest of each type and thread.
    #[must_use]
    pub fn receipts(&self, room: &str) -> Vec<Receipt> {
        self.state.read(|state| state.bot_receipts(room))
    }

    /// Waits until the bot has read up to an event (`m.read`).
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_read(&self, pushed: &Pushed) -> Result<(), TestkitError> {
        let is_reached = |state: &MatrixState| {
            let receipts = state.bot_receipts(&pushed.room_id);
            let mut read = receipts.iter().filter(|receipt| receipt.kind == "m.read");
            read.any(|receipt| receipt.event_id == pushed.event_id)
        };
        self.wait_until("a receipt", is_reached).await
    }

    /// Returns every event of a room in order, as its members see it.
    #[must_use]
    pub fn events(&self, room: &str) -> Vec<Value> {
        self.state.read(|state| {
            let room = state.rooms.get(room).into_iter();
            let entries = room.flat_map(|room| &room.entries);
            entries.map(|entry| entry.event.clone()).collect()
        })
    }

    /// Returns the ids of the bot's devices.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        self.devices_of(BOT_ID)
    }

    /// Returns the ids of a person's devices.
    #[must_use]
    pub fn devices_of_person(&self, person: &Person) -> Vec<String> {
        self.devices_of(&person.user_id)
    }

    fn devices_of(&self, user: &str) -> Vec<String> {
        self.state.read(|state| {
            let user = state.users.get(user).into_iter();
            user.flat_map(|user| user.devices.keys().cloned()).collect()
        })
    }

    /// Returns the to-device events that a device of the bot has not confirmed.
    #[must_use]
    pub fn to_device_inbox(&self, device_id: &str) -> Vec<Value> {
        self.state.read(|state| {
            let device = state.device(BOT_ID, device_id).into_iter();
            let events = device.flat_map(|device| device.inbox.values());
            events.cloned().collect()
        })
    }

    /// Returns the number of one-time keys of a bot's device that were not claimed.
    #[must_use]
    pub fn one_time_keys(&self, device_id: &str) -> usize {
        self.state.read(|state| {
            let device = state.device(BOT_ID, device_id);
            device.map_or(0, |device| device.one_time_keys.len())
        })
    }

    async fn wait_until(
        &self,
        what: &str,
        is_reached: impl Fn(&MatrixState) -> bool,
    ) -> Result<(), TestkitError> {
        let reached = |state: &MatrixState| is_reached(state).then_some(());
        self.state.wait_for(what, reached).await
    }

    /// Returns the client behaviour that the specification does not allow.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.state.read(|state| state.complaints.clone())
    }
}

impl MatrixState {
    fn bot_membership(&self, room: &str) -> String {
        let room = self.rooms.get(room);
        room.map_or_else(|| "leave".to_owned(), |room| room.membership(BOT_ID))
    }

    fn bot_receipts(&self, room: &str) -> Vec<Receipt> {
        let room = self.rooms.get(room).into_iter();
        let receipts = room.flat_map(|room| &room.receipts);
        let own = receipts.filter(|receipt| receipt.user_id == BOT_ID);
        own.cloned().collect()
    }
}
