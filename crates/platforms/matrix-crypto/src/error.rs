//! Failures of the encryption.

/// A failure of the encryption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// The key of an event is not known (yet).
    #[error("the key of the message is not known")]
    MissingKey,
    /// The members of the room do not have its current key: call
    /// [`share_room_key`](crate::CryptoProcess::share_room_key) again before encrypting.
    #[error("the key of the room is not shared with its members")]
    KeyNotShared,
    /// The program refused the request, or an event cannot be decrypted.
    #[error("{0}")]
    Refused(String),
    /// The program cannot be started, ended, or does not answer.
    #[error("the encryption program {0}")]
    Program(String),
}
