//! What each sync means for the encryption: keys, requests, verifications.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{Arrival, ChannelContext, ChatId, Liveness, SenderId};
use nanobot_channel_kit::{Trouble, backoff};
use nanobot_matrix_crypto::{CryptoError, SyncChanges, VerificationState};

use crate::channel::Matrix;
use crate::encryption::EncryptionError;
use crate::wire::text;

const FIRST_PAUSE: Duration = Duration::from_millis(500);

impl Matrix {
    /// Gives the changes of a sync to the encryption program, if it is needed, and sends its
    /// requests. With the first sync of a run, uploads the keys of a new device. Returns the rooms
    /// with new keys. Returns only after the program has the changes:
    /// the homeserver gives keys out once.
    pub(crate) async fn take_keys(
        self: &Arc<Self>,
        changes: SyncChanges,
        is_first_sync: bool,
        trouble: &Trouble,
        context: &ChannelContext,
        liveness: &dyn Liveness,
    ) -> Vec<String> {
        if !self.needs_encryption(&changes).await {
            if is_first_sync && self.encryption.is_first_start().await {
                self.upload_first_keys().await;
            }
            return Vec::new();
        }
        for tries in 0.. {
            let error = match self.encryption.receive_sync(changes.clone()).await {
                Ok(outcome) => {
                    trouble.set(None);
                    self.after_keys(context);
                    return outcome.rooms_with_new_keys;
                }
                Err(error) => error,
            };
            match &error {
                EncryptionError::Unusable(why) => {
                    self.encryption.report(&error);
                    trouble.set(Some(why.clone()));
                    return Vec::new();
                }
                EncryptionError::Program(CryptoError::Refused(why)) => {
                    tracing::warn!(channel = %self.base.name, why, "keys of a sync are refused");
                    return Vec::new();
                }
                EncryptionError::Program(_) | EncryptionError::Call(_) => {
                    liveness.degraded(&error.to_string());
                    tokio::time::sleep(backoff(FIRST_PAUSE, tries)).await;
                }
            }
        }
        Vec::new()
    }

    /// Uploads the keys of a new device, and ends the program again. After a failure it goes on,
    /// and its requests are sent after the next syncs.
    async fn upload_first_keys(&self) {
        match self.encryption.upload_keys().await {
            Ok(()) => self.encryption.close().await,
            Err(error) => {
                tracing::warn!(
                    channel = %self.base.name, %error,
                    "the keys of the device are not uploaded yet"
                );
            }
        }
    }

    async fn needs_encryption(&self, changes: &SyncChanges) -> bool {
        if !self.rooms.encrypted.with(|encrypted| encrypted.is_empty()) {
            return true;
        }
        let is_about_keys =
            |kind: &str| kind == "m.room.encrypted" || kind.starts_with("m.key.verification.");
        let has_keys = || {
            let mut events = changes.to_device.iter();
            events.any(|event| is_about_keys(text(event, "type")))
        };
        self.encryption.is_enabled() && (self.encryption.is_running().await || has_keys())
    }

    /// Sends the requests of the program and answers verifications, in the background.
    pub(crate) fn after_keys(self: &Arc<Self>, context: &ChannelContext) {
        let (platform, context) = (Arc::clone(self), context.clone());
        self.base.background.spawn(async move {
            if platform.config.sas_verification
                && let Err(error) = platform.answer_verifications(&context).await
            {
                tracing::warn!(%error, "a verification cannot be answered");
            }
            if let Err(error) = platform.encryption.pump().await {
                tracing::warn!(%error, "requests about keys wait for the next sync");
            }
        });
    }

    /// Accepts and confirms verifications of people with access. The answers of those in rooms need
    /// the key of the room.
    async fn answer_verifications(&self, context: &ChannelContext) -> Result<(), EncryptionError> {
        let _answering = self.encryption.answering.lock().await;
        for verification in self.encryption.verifications().await? {
            let (sender, chat) = (
                SenderId::from(verification.user_id.as_str()),
                ChatId::from(verification.user_id.as_str()),
            );
            let arrival = Arrival::direct();
            if !context.access.allows(&sender, &chat, &arrival).await {
                continue;
            }
            if let Some(room) = &verification.room_id {
                let shared = self.outgoing.share_key(room).await;
                if let Err(error) = shared {
                    tracing::warn!(
                        channel = %self.base.name, room, %error,
                        "a verification in a room waits for its key"
                    );
                }
            }
            match verification.state {
                VerificationState::Requested => self.encryption.accept(&verification.id).await?,
                VerificationState::Comparing { .. } => {
                    self.encryption.compare(&verification.id, true).await?;
                }
                VerificationState::Waiting
                | VerificationState::Confirmed
                | VerificationState::Done
                | VerificationState::Cancelled { .. } => {}
            }
        }
        Ok(())
    }
}
