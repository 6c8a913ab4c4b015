//! Subscriptions of connections to chats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{CancellationToken, ChatId};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Maximum number of frames that wait for a client before it counts as too slow.
const QUEUE: usize = 64;

/// A frame on its way to a client.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    /// The text of the frame.
    pub(crate) frame: Utf8Bytes,
    /// Receives the result of writing it; dropped if it is never written.
    pub(crate) written: Option<oneshot::Sender<()>>,
}

/// The sending end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    queue: mpsc::Sender<OutgoingFrame>,
    cancel: CancellationToken,
}

impl Peer {
    /// A connection that ends with `cancel`, and the queue of its frames.
    pub(crate) fn new(cancel: CancellationToken) -> (Self, mpsc::Receiver<OutgoingFrame>) {
        let (queue, frames) = mpsc::channel(QUEUE);
        (Self { queue, cancel }, frames)
    }

    /// Queues a frame that must arrive. A client with a full queue is disconnected.
    pub(crate) fn send(&self, frame: Utf8Bytes) -> oneshot::Receiver<()> {
        let (written, receipt) = oneshot::channel();
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(OutgoingFrame {
            frame,
            written: Some(written),
        }) {
            tracing::warn!("a client does not keep up with its messages and is disconnected");
            self.cancel.cancel();
        }
        receipt
    }

    /// Queues a frame that may be lost, as long as the client keeps up.
    pub(crate) fn offer(&self, frame: Utf8Bytes) {
        if self.queue.capacity() > QUEUE / 2 {
            // A closed connection has no reader for the frame.
            drop(self.queue.try_send(OutgoingFrame {
                frame,
                written: None,
            }));
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.queue.same_channel(&other.queue)
    }
}

/// The chats with connections. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    chats: Arc<Mutex<HashMap<ChatId, Vec<Peer>>>>,
}

impl Hub {
    /// Adds a connection to a chat.
    pub(crate) fn attach(&self, chat: &ChatId, peer: &Peer) {
        let mut chats = self.chats.lock().unwrap_or_else(PoisonError::into_inner);
        let peers = chats.entry(chat.clone()).or_default();
        if !peers.iter().any(|known| known.is(peer)) {
            peers.push(peer.clone());
        }
    }

    /// Removes a connection from a chat.
    pub(crate) fn detach(&self, chat: &ChatId, peer: &Peer) {
        let mut chats = self.chats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peers) = chats.get_mut(chat) {
            peers.retain(|known| !known.is(peer));
            if peers.is_empty() {
                chats.remove(chat);
            }
        }
    }

    /// Returns the connections of a chat.
    pub(crate) fn peers(&self, chat: &ChatId) -> Vec<Peer> {
        self.chats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(chat)
            .cloned()
            .unwrap_or_default()
    }
}
