//! The client of the program.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    CryptoError, Decrypted, HomeserverRequest, OpenStore, SyncChanges, SyncOutcome, Verification,
    depth::{is_flat, prune},
    protocol::{Operation, VERSION},
    worker::Worker,
};

/// The name of the program.
const PROGRAM: &str = "nanobot-matrix-crypto";

/// Maximum time that the program takes for a request. After it, the program is killed.
const REQUEST_TIME: Duration = Duration::from_secs(60);

/// A running program with an open store. Clones share it. The program ends when the last of them is
/// dropped.
///
/// Requests are handled one after the other. A cancelled request may still be carried out. When the
/// store fails, the program ends, and the request fails with [`CryptoError::Program`].
#[derive(Clone, Debug)]
pub struct CryptoProcess {
    worker: Worker,
}

impl CryptoProcess {
    /// Returns the program: `named` if it is given, else `nanobot-matrix-crypto` in the folder of
    /// this program, else the one in `PATH`. Returns `None` if it is not there.
    #[must_use]
    pub fn find_program(named: Option<&Path>) -> Option<PathBuf> {
        match named {
            Some(named) => Some(named.to_owned()).filter(|path| path.is_file()),
            None => nanobot_programs::find_installed(PROGRAM),
        }
    }

    /// Starts `program` and opens the store, creating it if there is none.
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if another process has the store open, or if it is the
    /// store of another account or device.
    pub async fn start(program: &Path, store: &OpenStore) -> Result<Self, CryptoError> {
        Self::start_with(program, store, REQUEST_TIME).await
    }

    pub(crate) async fn start_with(
        program: &Path,
        store: &OpenStore,
        request_time: Duration,
    ) -> Result<Self, CryptoError> {
        let worker = Worker::start(program, &store.folder, request_time)?;
        let process = Self { worker };
        let open = Operation::Open {
            version: VERSION,
            store: store.clone(),
        };
        process.ask::<()>(open).await?;
        Ok(process)
    }

    /// Takes the changes of a sync; they are on disk afterwards. To-device events that are nested
    /// too deeply are left out.
    ///
    /// # Errors
    /// Returns [`CryptoError::Program`] if the changes could not be stored. Start the program
    /// again, and take the same sync again.
    pub async fn receive_sync(&self, mut changes: SyncChanges) -> Result<SyncOutcome, CryptoError> {
        let received = changes.to_device.len();
        changes.to_device.retain(is_flat);
        let left_out = received - changes.to_device.len();
        if left_out > 0 {
            tracing::warn!(left_out, "to-device events of Matrix are nested too deeply");
        }
        prune(&mut changes.device_lists);
        prune(&mut changes.one_time_keys_count);
        self.ask(Operation::ReceiveSync(changes)).await
    }

    /// Returns the requests that have to be sent now: key uploads, key queries, to-device messages.
    /// A request is returned again until it was [answered](Self::answered) with success, so send
    /// and answer all before the next call.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub async fn outgoing(&self) -> Result<Vec<HomeserverRequest>, CryptoError> {
        self.ask(Operation::Outgoing).await
    }

    /// Reports the response of a request. After a status other than 2xx, the request has to be sent
    /// again later, and is returned again. Parts of `body` that are nested too deeply are left out.
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if no such request was returned, or if a response with
    /// success is invalid.
    pub async fn answered(
        &self,
        id: &str,
        status: u16,
        mut body: Value,
    ) -> Result<(), CryptoError> {
        prune(&mut body);
        let operation = Operation::Answered {
            id: id.to_owned(),
            status,
            body,
        };
        self.ask(operation).await
    }

    /// Returns the requests by which the members get the key of a room, before an event is
    /// encrypted. To be called again after they were answered, until none is returned; stop if one
    /// of them fails. `encryption` is the content of the room's `m.room.encryption`.
    ///
    /// `members` are the joined members, and also the invited ones unless the room's history
    /// visibility is `joined`. The key goes to all their devices, verified or not. When members or
    /// devices leave, the next call creates a new key.
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if the room uses another algorithm than Megolm.
    pub async fn share_room_key(
        &self,
        room_id: &str,
        members: &[String],
        encryption: &Value,
    ) -> Result<Vec<HomeserverRequest>, CryptoError> {
        let operation = Operation::ShareRoomKey {
            room_id: room_id.to_owned(),
            members: members.to_vec(),
            encryption: encryption.clone(),
        };
        self.ask(operation).await
    }

    /// Encrypts the content of an event. Returns the content of `m.room.encrypted`.
    ///
    /// # Errors
    /// Returns [`CryptoError::KeyNotShared`] if [`Self::share_room_key`] has to be called (again)
    /// first: it was not called since the start, or the key is due for rotation.
    pub async fn encrypt(
        &self,
        room_id: &str,
        event_type: &str,
        content: &Value,
    ) -> Result<Value, CryptoError> {
        let operation = Operation::Encrypt {
            room_id: room_id.to_owned(),
            event_type: event_type.to_owned(),
            content: content.clone(),
        };
        self.ask(operation).await
    }

    /// Decrypts an event of a room. An event may be decrypted several times.
    ///
    /// # Errors
    /// Returns [`CryptoError::MissingKey`] if its key may still come, and [`CryptoError::Refused`]
    /// if it never can be read: it is damaged, a replay of another event, or not from its sender.
    pub async fn decrypt(&self, room_id: &str, event: &Value) -> Result<Decrypted, CryptoError> {
        let operation = Operation::Decrypt {
            room_id: room_id.to_owned(),
            event: event.clone(),
        };
        self.ask(operation).await
    }

    /// Returns the requests that publish a cross-signing identity of this account, and sign its
    /// device with it. Other clients then show the device as one of its owner. To be called again
    /// after they were answered, until none is returned; stop if one of them fails.
    ///
    /// The homeserver may answer the upload of the identity with 401, and ask for the password:
    /// the caller adds `auth` to the body and sends the request again.
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if the account has an identity that is not of this store.
    /// Then another client of the account has to verify this device.
    pub async fn identity_requests(&self) -> Result<Vec<HomeserverRequest>, CryptoError> {
        self.ask(Operation::IdentityRequests).await
    }

    /// Returns the verifications in progress and those that ended since the last call. They do not
    /// outlive the program.
    ///
    /// # Errors
    /// Returns an error if the program does not answer.
    pub async fn verifications(&self) -> Result<Vec<Verification>, CryptoError> {
        self.ask(Operation::Verifications).await
    }

    /// Asks the user of a device for a verification by emoji. Requests follow in
    /// [`Self::outgoing`].
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if the device is unknown.
    pub async fn verify(
        &self,
        user_id: &str,
        device_id: &str,
    ) -> Result<Verification, CryptoError> {
        let operation = Operation::Verify {
            user_id: user_id.to_owned(),
            device_id: device_id.to_owned(),
        };
        self.ask(operation).await
    }

    /// Accepts a verification that was asked for, by emoji. Requests follow in
    /// [`Self::outgoing`].
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if there is no such verification, or if it cannot be
    /// accepted (any more).
    pub async fn accept(&self, verification: &str) -> Result<(), CryptoError> {
        let verification = verification.to_owned();
        self.ask(Operation::Accept { verification }).await
    }

    /// Confirms (`is_same`) or cancels the comparison. Requests follow in [`Self::outgoing`]. With
    /// `false` it cancels a verification in any state.
    ///
    /// # Errors
    /// Returns [`CryptoError::Refused`] if there is no such verification, or nothing to compare.
    pub async fn compare(&self, verification: &str, is_same: bool) -> Result<(), CryptoError> {
        let operation = Operation::Compare {
            verification: verification.to_owned(),
            is_same,
        };
        self.ask(operation).await
    }

    /// Ends the program, after the requests before. Later requests fail.
    pub async fn close(&self) {
        self.worker.close().await;
    }

    async fn ask<T: DeserializeOwned>(&self, operation: Operation) -> Result<T, CryptoError> {
        let value = self.worker.ask(operation).await?;
        serde_json::from_value(value)
            .map_err(|error| CryptoError::Program(format!("returned something else: {error}")))
    }
}

#[cfg(all(test, unix))]
mod tests;
