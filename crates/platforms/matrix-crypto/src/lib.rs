//! The encryption of Matrix, in a process of its own.
//!
//! The state machine of Matrix encryption (`matrix-sdk-crypto`) and its store are in the program
//! `nanobot-matrix-crypto`, so that a gateway without Matrix neither carries nor feels them. This
//! crate has the [protocol] between the two, and [`CryptoProcess`], which starts the program and
//! asks it. The program does no network I/O: requests to the homeserver are returned, and the
//! caller sends them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the program needs to open its store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStore {
    /// The account (`@bot:server`).
    pub user_id: String,
    /// The device of the account.
    pub device_id: String,
    /// The folder of the store, which only one process may have open.
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

/// What became known by a sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncOutcome {
    /// Rooms with new keys: events that could not be decrypted may be tried again.
    pub rooms_with_new_keys: Vec<String>,
}

/// A request that the caller has to send to the homeserver, with the account's access token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HomeserverRequest {
    /// The id by which it is [answered](CryptoProcess::answered).
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
    /// The event with its real type and content (`type`, `content`, `sender`, `event_id`, …). What
    /// is in clear on the encrypted event, such as `m.relates_to`, is taken over.
    pub event: Value,
    /// `true` if the sending device is known to belong to the sender, by cross-signing or by a
    /// verification.
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
    pub state: VerificationState,
}

/// A running program with an open store. Clones share it.
#[derive(Clone, Debug)]
pub struct CryptoProcess {}

/// A failure of the encryption.
#[derive(Debug, thiserror::Error)]
pub enum CryptoError {
    /// The key of an event is not known (yet).
    #[error("the key of the message is not known")]
    MissingKey,
    /// The program refused the request, or an event cannot be decrypted.
    #[error("{0}")]
    Refused(String),
    /// The program cannot be started, ended, or does not answer.
    #[error("the encryption program {0}")]
    Program(String),
}

impl CryptoProcess {
    /// Returns the program: `named` if it is given, else `nanobot-matrix-crypto` beside this
    /// program, else the one in `PATH`.
    #[must_use]
    pub fn find_program(_named: Option<&std::path::Path>) -> Option<PathBuf> {
        None
    }

    /// Starts `program` and opens the store, creating it if there is none.
    pub async fn start(
        _program: &std::path::Path,
        _store: &OpenStore,
    ) -> Result<Self, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Takes the changes of a sync; they are on disk afterwards.
    pub async fn receive_sync(&self, _changes: SyncChanges) -> Result<SyncOutcome, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Returns the requests that have to be sent now: key uploads, key queries, to-device messages.
    pub async fn outgoing(&self) -> Result<Vec<HomeserverRequest>, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Reports the response of a request.
    pub async fn answered(&self, _id: &str, _status: u16, _body: Value) -> Result<(), CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Returns the requests by which the members get the key of a room, before an event is
    /// encrypted. To be called again after they were answered, until none is returned.
    /// `encryption` is the content of the room's `m.room.encryption`.
    pub async fn share_room_key(
        &self,
        _room_id: &str,
        _members: &[String],
        _encryption: &Value,
    ) -> Result<Vec<HomeserverRequest>, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Encrypts the content of an event. Returns the content of `m.room.encrypted`.
    pub async fn encrypt(
        &self,
        _room_id: &str,
        _event_type: &str,
        _content: &Value,
    ) -> Result<Value, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Decrypts an event of a room. [`CryptoError::MissingKey`] if its key may still come.
    pub async fn decrypt(&self, _room_id: &str, _event: &Value) -> Result<Decrypted, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Returns the verifications in progress and those that ended since the last call.
    pub async fn verifications(&self) -> Result<Vec<Verification>, CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Accepts a verification that was asked for, by emoji. Requests follow in
    /// [`Self::outgoing`].
    pub async fn accept(&self, _verification: &str) -> Result<(), CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Confirms (`is_same`) or cancels the comparison. Requests follow in [`Self::outgoing`].
    pub async fn compare(&self, _verification: &str, _is_same: bool) -> Result<(), CryptoError> {
        Err(CryptoError::MissingKey)
    }

    /// Ends the program, after it has written what it knows.
    pub async fn close(&self) {}
}
