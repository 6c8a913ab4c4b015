//! The protocol between [`CryptoProcess`](crate::CryptoProcess) and the program.
//!
//! Each line on the program's stdin is a [`Request`], each line on its stdout the [`Response`] to
//! one, in the same order. The first request is [`Operation::Open`], with the [`VERSION`]. The
//! program ends when its stdin is closed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CryptoError, OpenStore, SyncChanges};

/// The version of this protocol. Both sides are of the same release.
pub const VERSION: u32 = 1;

/// Maximum length of a line in bytes, without its end. A sync may contain thousands of events.
pub const MAX_LINE: usize = 32 * 1024 * 1024;

/// A request to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The id, which the response repeats. Not 0.
    pub id: u64,
    /// The operation.
    pub operation: Operation,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The id of the request; 0 if it could not be read.
    pub id: u64,
    /// The result.
    pub outcome: Outcome,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What the operation returns; `Null` for nothing.
    Done(Value),
    /// The operation failed.
    Failed(Failure),
}

/// A failed operation. The program goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The key of an event is not known.
    MissingKey,
    /// The key of the room is not shared.
    KeyNotShared,
    /// Any other reason, for a person.
    Refused(String),
}

impl From<Failure> for CryptoError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::MissingKey => Self::MissingKey,
            Failure::KeyNotShared => Self::KeyNotShared,
            Failure::Refused(why) => Self::Refused(why),
        }
    }
}

/// The operations, each of which is a method of [`CryptoProcess`](crate::CryptoProcess).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Opens the store. Returns nothing.
    Open {
        /// [`VERSION`] of the caller.
        version: u32,
        /// The store.
        store: OpenStore,
    },
    /// Takes the changes of a sync. Returns a [`SyncOutcome`](crate::SyncOutcome).
    ReceiveSync(SyncChanges),
    /// Returns a list of [`HomeserverRequest`](crate::HomeserverRequest).
    Outgoing,
    /// Reports the response of a request. Returns nothing.
    Answered {
        /// The id of the request to the homeserver.
        id: String,
        /// The status of its response.
        status: u16,
        /// The body of its response.
        body: Value,
    },
    /// Returns a list of [`HomeserverRequest`](crate::HomeserverRequest).
    ShareRoomKey {
        /// The room.
        room_id: String,
        /// Its members.
        members: Vec<String>,
        /// The content of `m.room.encryption`.
        encryption: Value,
    },
    /// Encrypts. Returns the content of `m.room.encrypted`.
    Encrypt {
        /// The room.
        room_id: String,
        /// The type of the event.
        event_type: String,
        /// The content of the event.
        content: Value,
    },
    /// Decrypts. Returns a [`Decrypted`](crate::Decrypted).
    Decrypt {
        /// The room.
        room_id: String,
        /// The event.
        event: Value,
    },
    /// Returns a list of [`HomeserverRequest`](crate::HomeserverRequest).
    IdentityRequests,
    /// Returns a list of [`Verification`](crate::Verification).
    Verifications,
    /// Asks for a verification. Returns a [`Verification`](crate::Verification).
    Verify {
        /// The other person.
        user_id: String,
        /// Their device.
        device_id: String,
    },
    /// Accepts a verification. Returns nothing.
    Accept {
        /// The id of the flow.
        verification: String,
    },
    /// Ends a comparison. Returns nothing.
    Compare {
        /// The id of the flow.
        verification: String,
        /// `true` if both sides show the same emoji.
        is_same: bool,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_written_as_documented() {
        let compare = Operation::Compare {
            verification: "id".to_owned(),
            is_same: true,
        };
        let cases = [
            (Operation::Outgoing, json!("outgoing")),
            (
                compare,
                json!({ "compare": { "verification": "id", "is_same": true } }),
            ),
        ];
        for (operation, written) in cases {
            let request = Request { id: 1, operation };
            let value = json!({ "id": 1, "operation": written });
            assert_eq!(serde_json::to_value(&request).unwrap(), value);
            assert_eq!(serde_json::from_value::<Request>(value).unwrap(), request);
        }
    }

    #[test]
    fn failures_are_errors_of_the_client() {
        let cases = [
            (json!("missing_key"), CryptoError::MissingKey),
            (json!("key_not_shared"), CryptoError::KeyNotShared),
            (
                json!({ "refused": "why" }),
                CryptoError::Refused("why".to_owned()),
            ),
        ];
        for (written, error) in cases {
            let outcome: Outcome = serde_json::from_value(json!({ "failed": written })).unwrap();
            let Outcome::Failed(failure) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(CryptoError::from(failure), error);
        }
    }
}
