//! What is asked of the program, and what it returns.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The account and the folder of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStore {
    /// The account (`@bot:server`).
    pub user_id: String,
    /// The device of the account.
    pub device_id: String,
    /// The folder of the store, an absolute path. Only one process may have it open.
    pub folder: PathBuf,
}

/// The part of a `/sync` response that encryption needs. Values are as in the response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncChanges {
    /// `to_device.events`.
    pub to_device: Vec<Value>,
    /// `device_lists`.
    pub device_lists: Value,
    /// `device_one_time_keys_count`.
    pub one_time_keys_count: Value,
    /// `device_unused_fallback_key_types`; `None` if the response has none.
    pub unused_fallback_keys: Option<Vec<String>>,
    /// `next_batch`.
    pub next_batch: String,
}

/// The effect of a sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncOutcome {
    /// Rooms with new keys: events that could not be decrypted may be tried again.
    pub rooms_with_new_keys: Vec<String>,
}

/// A request that the caller has to send to the homeserver, with the account's access token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HomeserverRequest {
    /// The id by which it is [answered](crate::CryptoProcess::answered).
    pub id: String,
    /// The method (`POST`).
    pub method: String,
    /// The path with its query (`/_matrix/client/v3/keys/upload`).
    pub path: String,
    /// The body; `Null` for none.
    pub body: Value,
}

/// A decrypted event of a room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decrypted {
    /// The event with its real type and content (`type`, `content`, `sender`, `event_id`, …).
    /// `m.relates_to` of the encrypted event is taken over.
    pub event: Value,
    /// `true` if the sending device is known to belong to the sender: it is cross-signed by an
    /// identity of the sender that was not replaced, or it was verified here.
    pub is_verified: bool,
}

/// The state of an interactive verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum VerificationState {
    /// The other person has asked; nothing was accepted.
    Requested,
    /// Accepted, and not yet at the comparison.
    Waiting,
    /// Both show these emoji (symbol and name); they have to be compared.
    Comparing {
        /// Seven emoji.
        emoji: Vec<(String, String)>,
    },
    /// The comparison is confirmed here, and not yet by the other person.
    Confirmed,
    /// Verified.
    Done,
    /// Ended without a result.
    Cancelled {
        /// The reason, for a person.
        why: String,
    },
}

impl VerificationState {
    /// Returns `true` if the verification has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Done | Self::Cancelled { .. })
    }
}

/// An interactive verification by emoji.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The id of the flow.
    pub id: String,
    /// The other person.
    pub user_id: String,
    /// Their device, if it is known.
    pub device_id: Option<String>,
    /// The state.
    #[serde(flatten)]
    pub state: VerificationState,
}
