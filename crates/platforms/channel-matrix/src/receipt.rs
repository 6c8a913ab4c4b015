//! Read receipts.
//!
//! Decision: a receipt means every message up to its own, so each room needs that of its newest
//! message only. They are sent one after another, [`PAUSE`] apart; a message that arrives meanwhile
//! replaces an earlier one of its room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel_kit::BackgroundWork;
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, Path};

/// Pause after a receipt, so that a flood of messages is received first.
const PAUSE: Duration = Duration::from_millis(50);

/// The receipts that are still to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(Arc<Mutex<WaitingReceipts>>);

#[derive(Debug, Default)]
struct WaitingReceipts {
    /// The newest message of each room; the room that has waited longest is the first.
    rooms: VecDeque<(String, String)>,
    is_sending: bool,
}

impl Receipts {
    /// Begins a run: what an earlier one has not sent is left out.
    pub(crate) fn open(&self) {
        *self.waiting() = WaitingReceipts::default();
    }

    /// Shows that a message was received. Returns at once; does nothing while the channel does not
    /// run.
    pub(crate) fn send(
        &self,
        room: String,
        event: String,
        api: &Arc<Api>,
        background: &BackgroundWork,
    ) {
        {
            let mut waiting = self.waiting();
            match waiting.rooms.iter_mut().find(|(known, _)| *known == room) {
                Some((_, newest)) => *newest = event,
                None => waiting.rooms.push_back((room, event)),
            }
            if std::mem::replace(&mut waiting.is_sending, true) {
                return;
            }
        }
        let (receipts, api) = (self.clone(), Arc::clone(api));
        background.spawn(async move {
            while let Some((room, event)) = receipts.next() {
                let path = [
                    "_matrix", "client", "v3", "rooms", &room, "receipt", "m.read", &event,
                ];
                let body = json!({});
                let sent = api.call(Method::POST, Path::new(&path), Some(&body));
                if let Err(error) = sent.await {
                    tracing::debug!(%error, "a receipt could not be sent");
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Takes the next receipt. `None` ends the sending.
    fn next(&self) -> Option<(String, String)> {
        let mut waiting = self.waiting();
        let next = waiting.rooms.pop_front();
        waiting.is_sending = next.is_some();
        next
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingReceipts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
