//! Verifications in rooms: their messages are encrypted events.
//!
//! They are passed to the machine when they are decrypted, and its own wait until the key of the
//! room is shared. The machine ignores requests from devices that it does not know, so these are
//! held until the keys of their sender have come.

use matrix_sdk_common::ruma::{
    OwnedEventId, OwnedUserId,
    events::{AnyTimelineEvent, MessageLikeEventContent as _},
    serde::Raw,
};
use nanobot_matrix_crypto::protocol::Failure;
use serde::Deserialize;

use crate::{engine::Engine, events::raw, fault::failed};

/// The part of an event that shows if it is of a verification.
#[derive(Deserialize)]
struct Shape {
    #[serde(rename = "type")]
    kind: String,
    sender: OwnedUserId,
    event_id: OwnedEventId,
    content: Content,
}

#[derive(Deserialize)]
struct Content {
    msgtype: Option<String>,
    from_device: Option<String>,
}

impl Shape {
    fn is_request(&self) -> bool {
        let msgtype = self.content.msgtype.as_deref();
        self.kind == "m.room.message" && msgtype == Some("m.key.verification.request")
    }

    fn is_of_verification(&self) -> bool {
        self.is_request() || self.kind.starts_with("m.key.verification.")
    }
}

impl Engine {
    /// Passes a decrypted event to the machine if it is of a verification. To be called once for
    /// each: the machine cancels a verification whose messages are repeated.
    pub(crate) async fn note_room_event(
        &mut self,
        event: &Raw<AnyTimelineEvent>,
    ) -> Result<(), Failure> {
        let shape = serde_json::from_str::<Shape>(event.json().get());
        let Some(shape) = shape.ok().filter(Shape::is_of_verification) else {
            return Ok(());
        };
        if let Some(device) = shape.content.from_device.as_deref()
            && shape.is_request()
            && self.hold_room_request(&shape.sender, device, event).await?
        {
            return Ok(());
        }
        let Ok(AnyTimelineEvent::MessageLike(event)) = event.deserialize() else {
            return Ok(());
        };
        Box::pin(self.machine.receive_verification_event(&event))
            .await
            .map_err(failed("a message of a verification cannot be taken"))?;
        if shape.is_request() {
            self.note_flow(shape.sender, shape.event_id.to_string());
        }
        self.advance_verifications().await
    }

    /// Encrypts messages of verifications whose rooms have a shared key. Others wait.
    pub(crate) async fn encrypt_room_messages(&mut self) -> Result<(), Failure> {
        for message in self.requests.take_room_messages() {
            let room = message.room_id.as_str();
            let kind = message.content.event_type().to_string();
            let content = serde_json::to_value(&message.content)
                .map_err(failed("a message of a verification cannot be written"))?;
            match Box::pin(self.encrypt(room, &kind, &content)).await {
                Ok(encrypted) => {
                    if let Some(encrypted) = raw(&encrypted) {
                        self.requests.keep_room_message(&message, encrypted)?;
                    }
                }
                Err(Failure::KeyNotShared) => self.requests.put_in_room(&message),
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}
