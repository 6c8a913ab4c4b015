//! The login with a person: checks the credentials, and offers a verification by emoji.
//!
//! Decision: the position of the gateway is not touched. The program of the encryption lets one
//! process use its store, so a login while a gateway runs ends with its error.

use std::time::Duration;

use nanobot_channel::{ChannelError, SignIn, SignInPrompt, async_trait};
use nanobot_matrix_crypto::{Verification, VerificationState};
use serde_json::json;

use crate::api::SyncAnswer;
use crate::channel::Matrix;
use crate::encryption::EncryptionError;
use crate::error::{CallError, required_call_error};
use crate::wire::SyncResponse;

/// Time that the homeserver waits for messages from device to device.
const POLL: Duration = Duration::from_secs(2);

#[async_trait]
impl SignIn for Matrix {
    async fn sign_in(&self, prompt: &dyn SignInPrompt) -> Result<String, ChannelError> {
        self.api.session().await.map_err(required_call_error)?;
        let session = self.api.identify().await.map_err(required_call_error)?;
        let user = session.user_id;
        prompt.show(&format!("{user} is logged in."));
        if !self.config.e2ee_enabled {
            return Ok(user);
        }
        if let Err(error) = self.encryption.process().await {
            prompt.show(&format!("Encrypted rooms cannot be used: {error}"));
            return Ok(user);
        }
        let question = "Verify this session by emoji from another session of the account?";
        let outcome = if prompt.confirm(question).await {
            let device = session.device_id;
            prompt.show(&format!(
                "Open the other client, start a verification of the session {device}, and choose \
                 emoji."
            ));
            self.verify(&user, prompt).await
        } else {
            self.encryption.pump().await.map_err(unverified)
        };
        self.encryption.close().await;
        outcome.map(|()| user)
    }
}

impl Matrix {
    /// Answers a verification by another session of the account.
    async fn verify(&self, user: &str, prompt: &dyn SignInPrompt) -> Result<(), ChannelError> {
        let mut since: Option<String> = None;
        let mut compared = false;
        loop {
            self.encryption.pump().await.map_err(unverified)?;
            let wait = if since.is_some() {
                POLL
            } else {
                Duration::ZERO
            };
            let changes = self.sync_keys(since.as_deref(), wait).await?;
            since = Some(changes.next_batch.clone());
            let taken = self.encryption.receive_sync(changes.encryption).await;
            taken.map_err(unverified)?;
            let verifications = self.encryption.verifications().await;
            for verification in verifications.map_err(unverified)? {
                if verification.user_id != user {
                    continue;
                }
                let Verification { id, state, .. } = verification;
                match state {
                    VerificationState::Requested => {
                        prompt.show("The other session asks; accepting.");
                        self.encryption.accept(&id).await.map_err(unverified)?;
                    }
                    VerificationState::Comparing { emoji } if !compared => {
                        compared = true;
                        let shown: Vec<String> = emoji
                            .iter()
                            .map(|(symbol, name)| format!("{symbol} {name}"))
                            .collect();
                        prompt.show(&shown.join("   "));
                        let is_same = prompt.confirm("Does the other client show the same?").await;
                        let compared = self.encryption.compare(&id, is_same).await;
                        compared.map_err(unverified)?;
                    }
                    VerificationState::Done => {
                        prompt.show("The session is verified.");
                        return self.encryption.pump().await.map_err(unverified);
                    }
                    VerificationState::Cancelled { why } => {
                        self.encryption.pump().await.map_err(unverified)?;
                        let why = format!("the verification was cancelled: {why}");
                        return Err(ChannelError::Refused(why));
                    }
                    VerificationState::Waiting
                    | VerificationState::Comparing { .. }
                    | VerificationState::Confirmed => {}
                }
            }
        }
    }

    /// Waits for messages from device to device, without those of rooms.
    async fn sync_keys(
        &self,
        since: Option<&str>,
        wait: Duration,
    ) -> Result<SyncResponse, ChannelError> {
        let nothing = json!({"types": [], "not_types": ["*"]});
        let filter = json!({
            "presence": nothing, "account_data": nothing, "room": {"rooms": []},
        });
        let (filter, timeout) = (filter.to_string(), wait.as_millis().to_string());
        let mut query = vec![("filter", filter.as_str()), ("timeout", timeout.as_str())];
        query.extend(since.map(|since| ("since", since)));
        match self.api.sync(&query, wait).await {
            Ok(SyncAnswer::Changes(answer)) => SyncResponse::read(answer).ok_or_else(|| {
                ChannelError::Unavailable("a sync names no next position".to_owned())
            }),
            Ok(SyncAnswer::TooLarge) => {
                let why = "the answer to a sync is larger than what is read".to_owned();
                Err(ChannelError::Unavailable(why))
            }
            Err(error) => Err(required_call_error(error)),
        }
    }
}

fn unverified(error: EncryptionError) -> ChannelError {
    CallError::from(error).repeatable()
}
