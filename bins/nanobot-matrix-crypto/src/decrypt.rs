//! Decryption of events of rooms.

use matrix_sdk_common::deserialized_responses::{
    AlgorithmInfo, EncryptionInfo, VerificationLevel, VerificationState, WithheldCode,
};
use matrix_sdk_common::ruma::RoomId;
use matrix_sdk_crypto::{
    MegolmError,
    vodozemac::megolm::{DecryptionError, MegolmMessage},
};
use nanobot_matrix_crypto::{Decrypted, protocol::Failure};
use serde_json::Value;

use crate::{
    engine::{Engine, TRUST},
    events::raw,
    fault::{failed, refused},
    replay::Seen,
};

impl Engine {
    /// Decrypts an event of a room, and refuses it if its message was in another event.
    pub(crate) async fn decrypt(
        &mut self,
        room_id: &str,
        mut event: Value,
    ) -> Result<Decrypted, Failure> {
        let room = RoomId::parse(room_id).map_err(failed("the room id is invalid"))?;
        check_envelope(room_id, &event)?;
        // Bundled events would be decrypted with it, without protection against replays.
        if let Some(unsigned) = event.get_mut("unsigned").and_then(Value::as_object_mut) {
            unsigned.remove("m.relations");
        }
        let encrypted = raw(&event).ok_or_else(|| refused("an event is not an object"))?;
        let decrypting = self.machine.decrypt_room_event(&encrypted, &room, &TRUST);
        let decrypted = Box::pin(decrypting).await.map_err(reason)?;
        let is_verified = self.is_verified(&decrypted.encryption_info).await?;
        let message =
            message(room_id, &event).ok_or_else(|| refused("an encrypted event is incomplete"))?;
        let admitted = self
            .replays
            .admit(message)
            .map_err(failed("the store cannot be written"))?;
        if !admitted {
            return Err(refused("the event repeats the message of another event"));
        }
        let event = serde_json::from_str(decrypted.event.json().get())
            .map_err(failed("a decrypted event cannot be read"))?;
        Ok(Decrypted { event, is_verified })
    }

    /// Returns `true` if the device that sent an event belongs to its sender.
    async fn is_verified(&self, info: &EncryptionInfo) -> Result<bool, Failure> {
        match &info.verification_state {
            VerificationState::Verified
            | VerificationState::Unverified(VerificationLevel::UnverifiedIdentity) => Ok(true),
            VerificationState::Unverified(VerificationLevel::VerificationViolation) => Ok(false),
            VerificationState::Unverified(VerificationLevel::MismatchedSender) => Err(refused(
                "the key of the event belongs to another person than its sender",
            )),
            VerificationState::Unverified(
                VerificationLevel::UnsignedDevice | VerificationLevel::None(_),
            ) => self.is_verified_device(info).await,
        }
    }

    /// Returns `true` if the device was verified here, without cross-signing.
    async fn is_verified_device(&self, info: &EncryptionInfo) -> Result<bool, Failure> {
        let AlgorithmInfo::MegolmV1AesSha2 { curve25519_key, .. } = &info.algorithm_info else {
            return Ok(false);
        };
        let read = failed("the store cannot be read");
        let devices = self
            .machine
            .get_user_devices(&info.sender, None)
            .await
            .map_err(read)?;
        let is_sender = |key: Option<_>| key.is_some_and(|key| key_text(key) == *curve25519_key);
        Ok(devices
            .devices()
            .any(|device| is_sender(device.curve25519_key()) && device.is_verified()))
    }
}

fn key_text(key: matrix_sdk_crypto::vodozemac::Curve25519PublicKey) -> String {
    key.to_base64()
}

/// Refuses an event that says on its envelope that it is another.
fn check_envelope(room_id: &str, event: &Value) -> Result<(), Failure> {
    let text = |field: &str| event.get(field).and_then(Value::as_str);
    if text("type") != Some("m.room.encrypted") {
        return Err(refused("the event is not encrypted"));
    }
    if event.get("room_id").is_some() && text("room_id") != Some(room_id) {
        return Err(refused("the event is of another room"));
    }
    if event.get("state_key").is_some() {
        return Err(refused("encrypted state is not supported"));
    }
    Ok(())
}

/// Returns the message that is in an encrypted event.
fn message<'a>(room: &'a str, event: &'a Value) -> Option<Seen<'a>> {
    let content = event.get("content")?;
    let ciphertext = content.get("ciphertext")?.as_str()?;
    Some(Seen {
        room,
        session: content.get("session_id")?.as_str()?,
        index: MegolmMessage::from_base64(ciphertext).ok()?.message_index(),
        event: event.get("event_id")?.as_str()?,
        timestamp: event.get("origin_server_ts")?.as_u64()?,
    })
}

/// Returns why an event cannot be decrypted.
fn reason(error: MegolmError) -> Failure {
    match error {
        MegolmError::MissingRoomKey(None | Some(WithheldCode::NoOlm)) => Failure::MissingKey,
        MegolmError::MissingRoomKey(Some(code)) => refused(format!(
            "the sender withholds the key of the message: {code}"
        )),
        MegolmError::Decryption(DecryptionError::UnknownMessageIndex(..)) => {
            refused("the message is older than the key that this device has")
        }
        error @ (MegolmError::EventError(_)
        | MegolmError::JsonError(_)
        | MegolmError::MismatchedIdentityKeys(_)
        | MegolmError::Decode(_)
        | MegolmError::Decryption(_)
        | MegolmError::Store(_)
        | MegolmError::SenderIdentityNotTrusted(_)) => {
            failed("the message cannot be decrypted")(error)
        }
    }
}
