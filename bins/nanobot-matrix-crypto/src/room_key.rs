//! The key of a room: sharing it, and encrypting with it.

use std::{collections::BTreeMap, time::Duration};

use matrix_sdk_common::ruma::{
    OwnedRoomId, OwnedUserId, RoomId, events::room::history_visibility::HistoryVisibility,
};
use matrix_sdk_crypto::{
    CollectStrategy, EncryptionSettings,
    types::{EventEncryptionAlgorithm, requests::AnyOutgoingRequest},
};
use nanobot_matrix_crypto::{HomeserverRequest, protocol::Failure};
use serde_json::Value;

use crate::{
    engine::Engine,
    events::raw,
    fault::{failed, refused},
};

/// Maximum number of members of an encrypted room.
const MAX_MEMBERS: usize = 20_000;

/// Maximum number of rooms whose members are remembered. Others have to be shared with again.
const MAX_ROOMS: usize = 2000;

/// Longest time for which a key is used, whatever the room says.
const MAX_PERIOD: Duration = Duration::from_hours(30 * 24);

/// Rooms whose key was shared since the start.
#[derive(Debug, Default)]
pub(crate) struct SharedRooms(BTreeMap<OwnedRoomId, Sharing>);

/// The members of a room that have its key, and the rules for the key.
#[derive(Clone, Debug)]
struct Sharing {
    members: Vec<OwnedUserId>,
    settings: EncryptionSettings,
}

impl Engine {
    /// Returns the requests by which the members get the key of a room: key queries, then claims of
    /// one-time keys, then the key itself.
    pub(crate) async fn share_room_key(
        &mut self,
        room_id: &str,
        members: &[String],
        encryption: &Value,
    ) -> Result<Vec<HomeserverRequest>, Failure> {
        let room = RoomId::parse(room_id).map_err(failed("the room id is invalid"))?;
        let settings = settings(encryption)?;
        if members.len() > MAX_MEMBERS {
            return Err(refused(format!(
                "the room has more than {MAX_MEMBERS} members"
            )));
        }
        // The homeserver lists members; an id that is invalid has no keys.
        let members: Vec<OwnedUserId> = members
            .iter()
            .filter_map(|member| OwnedUserId::try_from(member.as_str()).ok())
            .collect();
        self.rooms.0.remove(&room);
        let preparing = self.prepare_members(&members).await?;
        if !preparing.is_empty() {
            return Ok(preparing);
        }
        let sharing = Sharing { members, settings };
        let requests = self.share(&room, &sharing).await?;
        if requests.is_empty() {
            self.rooms.insert(room, sharing);
        }
        Ok(requests)
    }

    /// Returns the requests after which the devices of all members are known, and can be sent a
    /// key.
    async fn prepare_members(
        &mut self,
        members: &[OwnedUserId],
    ) -> Result<Vec<HomeserverRequest>, Failure> {
        let members = || members.iter().map(AsRef::as_ref);
        self.machine
            .update_tracked_users(members())
            .await
            .map_err(failed("the members of a room cannot be stored"))?;
        let mut requests = Vec::new();
        let read = failed("the store cannot be read");
        for request in self.machine.outgoing_requests().await.map_err(read)? {
            if let AnyOutgoingRequest::KeysQuery(query) = request.request() {
                requests.push(self.requests.issue_query(request.request_id(), query)?);
            }
        }
        if !requests.is_empty() {
            return Ok(requests);
        }
        let read = failed("the store cannot be read");
        let claim = self
            .machine
            .get_missing_sessions(members())
            .await
            .map_err(read)?;
        if let Some((id, claim)) = claim {
            requests.push(self.requests.issue_claim(&id, claim)?);
        }
        Ok(requests)
    }

    /// Returns the messages with the key to the devices that do not have it.
    async fn share(
        &mut self,
        room: &RoomId,
        sharing: &Sharing,
    ) -> Result<Vec<HomeserverRequest>, Failure> {
        let members = sharing.members.iter().map(AsRef::as_ref);
        let sharing = self
            .machine
            .share_room_key(room, members, sharing.settings.clone());
        let messages = Box::pin(sharing)
            .await
            .map_err(failed("the key of a room cannot be shared"))?;
        let issue = |message: &std::sync::Arc<_>| self.requests.issue_to_device(message);
        messages.iter().map(issue).collect()
    }

    /// Encrypts the content of an event, if all members have the key that is due.
    pub(crate) async fn encrypt(
        &mut self,
        room_id: &str,
        event_type: &str,
        content: &Value,
    ) -> Result<Value, Failure> {
        let room = RoomId::parse(room_id).map_err(failed("the room id is invalid"))?;
        let Some(content) = raw(content) else {
            return Err(refused("the content of an event is not an object"));
        };
        let sharing = self.rooms.0.get(&room).cloned();
        let sharing = sharing.ok_or(Failure::KeyNotShared)?;
        // Devices may have come or gone, and the key may be due for rotation. The machine would
        // panic if it has no key.
        if !self.share(&room, &sharing).await?.is_empty() {
            self.rooms.0.remove(&room);
            return Err(Failure::KeyNotShared);
        }
        let encrypting = self
            .machine
            .encrypt_room_event_raw(&room, event_type, &content);
        let encrypted = Box::pin(encrypting)
            .await
            .map_err(failed("an event cannot be encrypted"))?;
        serde_json::from_str(encrypted.content.json().get())
            .map_err(failed("an event cannot be encrypted"))
    }
}

impl SharedRooms {
    fn insert(&mut self, room: OwnedRoomId, sharing: Sharing) {
        if self.0.len() >= MAX_ROOMS {
            self.0.clear();
        }
        self.0.insert(room, sharing);
    }
}

/// Reads the content of `m.room.encryption`. The machine bounds the periods from below, and the
/// number of messages.
fn settings(encryption: &Value) -> Result<EncryptionSettings, Failure> {
    let algorithm = encryption.get("algorithm").and_then(Value::as_str);
    let algorithm = EventEncryptionAlgorithm::from(algorithm.unwrap_or_default());
    if algorithm != EventEncryptionAlgorithm::MegolmV1AesSha2 {
        return Err(refused("the room uses an unknown algorithm of encryption"));
    }
    let number = |field: &str| encryption.get(field).and_then(Value::as_u64);
    let mut settings = EncryptionSettings {
        algorithm,
        // The key is never marked as one that later members may get from others. Which members get
        // it now is the choice of the caller.
        history_visibility: HistoryVisibility::Joined,
        sharing_strategy: CollectStrategy::AllDevices,
        ..EncryptionSettings::default()
    };
    if let Some(period) = number("rotation_period_ms") {
        settings.rotation_period = Duration::from_millis(period).min(MAX_PERIOD);
    }
    if let Some(messages) = number("rotation_period_msgs") {
        settings.rotation_period_msgs = messages;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rotation_is_that_of_the_room() {
        let read = settings(&json!({
            "algorithm": "m.megolm.v1.aes-sha2",
            "rotation_period_ms": 7_200_000,
            "rotation_period_msgs": 5,
        }))
        .unwrap();
        assert_eq!(read.rotation_period, Duration::from_hours(2));
        assert_eq!(read.rotation_period_msgs, 5);
        let odd = settings(&json!({
            "algorithm": "m.megolm.v1.aes-sha2",
            "rotation_period_ms": u64::MAX,
            "rotation_period_msgs": "x",
        }))
        .unwrap();
        assert_eq!(odd.rotation_period, MAX_PERIOD);
        assert_eq!(odd.rotation_period_msgs, 100);
    }

    #[test]
    fn other_algorithms_are_refused() {
        for encryption in [json!(null), json!({}), json!({"algorithm": "m.olm"})] {
            assert!(settings(&encryption).is_err(), "{encryption}");
        }
    }
}
