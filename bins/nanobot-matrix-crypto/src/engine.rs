//! An open store, and the operations on it.

use matrix_sdk_common::ruma::{DeviceId, OwnedDeviceId, UserId};
use matrix_sdk_crypto::{DecryptionSettings, OlmMachine, TrustRequirement};
use matrix_sdk_sqlite::{SqliteCryptoStore, SqliteStoreConfig};
use nanobot_matrix_crypto::{
    HomeserverRequest, OpenStore,
    protocol::{Failure, Operation},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    fault::{failed, refused},
    folder::Folder,
    homeserver::Requests,
    identity::Publication,
    replay::ReplayGuard,
    room_key::SharedRooms,
    verification::Verifications,
};

/// Events of every device are decrypted. The caller decides on
/// [`is_verified`](nanobot_matrix_crypto::Decrypted::is_verified).
pub(crate) const TRUST: DecryptionSettings = DecryptionSettings {
    sender_device_trust_requirement: TrustRequirement::Untrusted,
};

/// Connections to the store: one that writes, one that reads.
const CONNECTIONS: usize = 2;

/// The machine of the encryption with what this program adds to it.
pub(crate) struct Engine {
    pub(crate) machine: OlmMachine,
    pub(crate) requests: Requests,
    pub(crate) rooms: SharedRooms,
    pub(crate) replays: ReplayGuard,
    pub(crate) verifications: Verifications,
    pub(crate) publication: Publication,
    /// `true` after a change could not be stored. Then the memory is ahead of the store, and a
    /// message that is taken again would be a repetition: the program has to start again.
    pub(crate) is_ahead: bool,
    /// Unlocked last.
    _folder: Folder,
}

impl Engine {
    /// Opens the store of an account and device, creating it if there is none.
    pub(crate) async fn open(folder: Folder, store: &OpenStore) -> Result<Self, Failure> {
        let user = UserId::parse(&store.user_id).map_err(failed("the user id is invalid"))?;
        if store.device_id.is_empty() || store.device_id.len() > 255 {
            return Err(refused("the device id is invalid"));
        }
        let device: OwnedDeviceId = store.device_id.as_str().into();
        let replays = ReplayGuard::open(folder.path()).map_err(failed("the store is damaged"))?;
        let config =
            SqliteStoreConfig::with_low_memory_config(folder.path()).pool_max_size(CONNECTIONS);
        let database = SqliteCryptoStore::open_with_config(&config)
            .await
            .map_err(failed("the store cannot be opened"))?;
        let machine = machine(&user, &device, database).await?;
        Ok(Self {
            machine,
            requests: Requests::default(),
            rooms: SharedRooms::default(),
            replays,
            verifications: Verifications::default(),
            publication: Publication::default(),
            is_ahead: false,
            _folder: folder,
        })
    }

    /// Performs an operation.
    pub(crate) async fn perform(&mut self, operation: Operation) -> Result<Value, Failure> {
        match operation {
            Operation::Open { .. } => Err(refused("a store is open already")),
            Operation::ReceiveSync(changes) => value(&Box::pin(self.receive_sync(changes)).await?),
            Operation::Outgoing => value(&Box::pin(self.outgoing()).await?),
            Operation::Answered { id, status, body } => {
                value(&Box::pin(self.answered(&id, status, &body)).await?)
            }
            Operation::ShareRoomKey {
                room_id,
                members,
                encryption,
            } => value(&Box::pin(self.share_room_key(&room_id, &members, &encryption)).await?),
            Operation::Encrypt {
                room_id,
                event_type,
                content,
            } => Box::pin(self.encrypt(&room_id, &event_type, &content)).await,
            Operation::Decrypt { room_id, event } => {
                value(&Box::pin(self.decrypt(&room_id, event)).await?)
            }
            Operation::IdentityRequests => value(&Box::pin(self.identity_requests()).await?),
            Operation::Verifications => value(&self.verifications.report()),
            Operation::Verify { user_id, device_id } => {
                value(&Box::pin(self.verify(&user_id, &device_id)).await?)
            }
            Operation::Accept { verification } => {
                value(&Box::pin(self.accept(&verification)).await?)
            }
            Operation::Compare {
                verification,
                is_same,
            } => value(&Box::pin(self.compare(&verification, is_same)).await?),
        }
    }

    /// Returns what has to be sent now.
    pub(crate) async fn outgoing(&mut self) -> Result<Vec<HomeserverRequest>, Failure> {
        let read = failed("the store cannot be read");
        let requests = self.machine.outgoing_requests().await.map_err(read)?;
        let mut outgoing = Vec::new();
        for request in requests {
            outgoing.extend(self.requests.issue(&request)?);
        }
        // Sessions with devices whose messages could not be decrypted are replaced.
        let read = failed("the store cannot be read");
        let users = std::iter::empty();
        let claim = self
            .machine
            .get_missing_sessions(users)
            .await
            .map_err(read)?;
        if let Some((id, claim)) = claim {
            outgoing.push(self.requests.issue_claim(&id, claim)?);
        }
        Ok(self.requests.with_kept(outgoing))
    }
}

async fn machine(
    user: &UserId,
    device: &DeviceId,
    database: SqliteCryptoStore,
) -> Result<OlmMachine, Failure> {
    use matrix_sdk_crypto::CryptoStoreError::MismatchedAccount;

    match Box::pin(OlmMachine::with_store(user, device, database, None)).await {
        Ok(machine) => Ok(machine),
        Err(MismatchedAccount { expected, .. }) => Err(refused(format!(
            "the store belongs to device {} of {}, not to device {device} of {user}",
            expected.1, expected.0
        ))),
        Err(error) => Err(failed("the store cannot be read")(error)),
    }
}

fn value(result: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(failed("the result cannot be written"))
}
