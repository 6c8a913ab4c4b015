//! The encryption program: started on demand, fed with syncs, and its requests sent.
//!
//! Decision: the program starts with the first encrypted room, an invitation to one, or the first
//! message from device to device, so that an account without encryption does not pay for it. Other
//! people's clients encrypt for devices with keys only, so the keys of a new device are uploaded at
//! its first start, before there is such a room. A program that ended is started again with the
//! next call; its store has all that it answered for.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex as SyncMutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use nanobot_channel::Value;
use nanobot_matrix_crypto::{
    CryptoError, CryptoProcess, Decrypted, HomeserverRequest, OpenStore, SyncChanges, SyncOutcome,
    Verification,
};
use tokio::sync::Mutex;

use crate::MatrixConfig;
use crate::api::Api;
use crate::error::{CallError, Refusal};
use crate::id::digest;
use crate::wire::{member, text};

/// Most rounds of requests before the key of a room is shared.
const MAX_SHARE_ROUNDS: usize = 8;
/// Most attempts to encrypt an event; the key of the room may be due for rotation after each.
const MAX_ENCRYPT_ATTEMPTS: usize = 4;
/// Most rounds of requests that publish the identity.
const MAX_IDENTITY_ROUNDS: usize = 8;
/// Longest session of an interactive authentication, in bytes.
const MAX_AUTH_SESSION: usize = 1024;
/// The path of the request that uploads the keys of the device.
const KEYS_UPLOAD: &str = "/keys/upload";
/// The path of the request that publishes the identity.
const IDENTITY_UPLOAD: &str = "/keys/device_signing/upload";
/// The stage of an authentication by password.
const PASSWORD_STAGE: &str = "m.login.password";
/// Most rounds of requests after a sync.
const MAX_ROUNDS: usize = 16;
const NO_PROGRAM: &str = "the program nanobot-matrix-crypto, which encrypted rooms need, was not \
                          found: install it beside nanobot, or set cryptoProgram";
const DISABLED: &str = "the room is encrypted, and e2eeEnabled is false";
const NO_FOLDER: &str = "encrypted rooms need a data folder for their keys";

/// A failure of the encryption.
#[derive(Debug)]
pub(crate) enum EncryptionError {
    /// It cannot be used here, for this reason; a person can change that.
    Unusable(String),
    /// The program failed or refused.
    Program(CryptoError),
    /// A call of the homeserver failed.
    Call(CallError),
}

impl std::fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unusable(why) => f.write_str(why),
            Self::Program(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl From<CryptoError> for EncryptionError {
    fn from(error: CryptoError) -> Self {
        Self::Program(error)
    }
}

impl From<CallError> for EncryptionError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<EncryptionError> for CallError {
    /// Nothing was sent to the room.
    fn from(error: EncryptionError) -> Self {
        match error {
            EncryptionError::Unusable(why) => Self::Refused(Refusal::own(why)),
            EncryptionError::Program(CryptoError::Refused(why)) => Self::Refused(Refusal::own(
                format!("the message cannot be encrypted: {why}"),
            )),
            EncryptionError::Program(error) => Self::Unreachable(error.to_string()),
            EncryptionError::Call(error) => error.unambiguous(),
        }
    }
}

/// The encryption of one account.
#[derive(Debug)]
pub(crate) struct Encryption {
    api: Arc<Api>,
    is_enabled: bool,
    program: Option<PathBuf>,
    process: Mutex<Option<CryptoProcess>>,
    /// Held while requests of the program are sent, so that each is sent once.
    pump: Mutex<()>,
    /// Held while a key is shared and an event encrypted.
    sharing: Mutex<()>,
    /// Held while verifications are answered, so that each is answered once.
    pub(crate) answering: Mutex<()>,
    /// `true` if nothing is left to do about the identity until the next start.
    is_identity_settled: AtomicBool,
    /// The reason why encryption cannot be used, if it was logged.
    reported: SyncMutex<Option<String>>,
}

impl Encryption {
    pub(crate) fn new(config: &MatrixConfig, api: Arc<Api>) -> Self {
        Self {
            api,
            is_enabled: config.e2ee_enabled,
            program: config.crypto_program.clone(),
            process: Mutex::default(),
            pump: Mutex::default(),
            sharing: Mutex::default(),
            answering: Mutex::default(),
            is_identity_settled: AtomicBool::new(false),
            reported: SyncMutex::default(),
        }
    }

    /// `true` if the configuration allows encryption.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// `true` if the program was started.
    pub(crate) async fn is_running(&self) -> bool {
        self.process.lock().await.is_some()
    }

    /// Returns the program, started if it is not running.
    pub(crate) async fn process(&self) -> Result<CryptoProcess, EncryptionError> {
        if !self.is_enabled {
            return Err(EncryptionError::Unusable(DISABLED.to_owned()));
        }
        let mut process = self.process.lock().await;
        if let Some(process) = &*process {
            return Ok(process.clone());
        }
        let Some(program) = self.find_program() else {
            return Err(EncryptionError::Unusable(NO_PROGRAM.to_owned()));
        };
        let store = self.store().await?;
        tokio::fs::create_dir_all(&store.folder)
            .await
            .map_err(|error| EncryptionError::Unusable(format!("no folder for keys: {error}")))?;
        let started = CryptoProcess::start(&program, &store).await?;
        tracing::info!("the encryption program runs");
        Ok(process.insert(started).clone())
    }

    fn find_program(&self) -> Option<PathBuf> {
        CryptoProcess::find_program(self.program.as_deref())
    }

    /// Returns the store of the session's device, which may not exist yet.
    async fn store(&self) -> Result<OpenStore, EncryptionError> {
        let Some(folder) = &self.api.folder else {
            return Err(EncryptionError::Unusable(NO_FOLDER.to_owned()));
        };
        let mut session = self.api.session().await?;
        if session.device_id.is_empty() || session.user_id.is_empty() {
            session = self.api.identify().await?;
        }
        if session.device_id.is_empty() {
            let why = "the session has no device, which encryption needs: log in by password";
            return Err(EncryptionError::Unusable(why.to_owned()));
        }
        let device = digest(&session.device_id, 8);
        Ok(OpenStore {
            user_id: session.user_id,
            device_id: session.device_id,
            folder: folder.join(format!("device-{device}")),
        })
    }

    /// `true` if the program can be started for a device that has no keys yet.
    pub(crate) async fn is_first_start(&self) -> bool {
        if !self.is_enabled || self.api.folder.is_none() || self.find_program().is_none() {
            return false;
        }
        match self.store().await {
            Ok(store) => matches!(tokio::fs::try_exists(&store.folder).await, Ok(false)),
            Err(_) => false,
        }
    }

    /// Starts the program and sends its requests, among them the keys of the device.
    pub(crate) async fn upload_keys(&self) -> Result<(), EncryptionError> {
        self.process().await?;
        self.pump().await
    }

    /// Takes the changes of a sync. They are on disk afterwards.
    pub(crate) async fn receive_sync(
        &self,
        changes: SyncChanges,
    ) -> Result<SyncOutcome, EncryptionError> {
        let process = self.process().await?;
        self.checked(process.receive_sync(changes).await).await
    }

    /// Decrypts an event.
    pub(crate) async fn decrypt(
        &self,
        room: &str,
        event: &Value,
    ) -> Result<Decrypted, EncryptionError> {
        let process = self.process().await?;
        self.checked(process.decrypt(room, event).await).await
    }

    /// Gives the members the key of the room, and encrypts the content of an event.
    pub(crate) async fn encrypt(
        &self,
        room: &str,
        members: &[String],
        settings: &Value,
        (kind, content): (&str, &Value),
    ) -> Result<Value, EncryptionError> {
        let process = self.process().await?;
        let _sharing = self.sharing.lock().await;
        for _ in 0..MAX_ENCRYPT_ATTEMPTS {
            self.share_with(&process, room, members, settings).await?;
            match process.encrypt(room, kind, content).await {
                Err(CryptoError::KeyNotShared) => {}
                encrypted => return self.checked(encrypted).await,
            }
        }
        Err(EncryptionError::Program(CryptoError::KeyNotShared))
    }

    /// Gives the members the key of the room.
    pub(crate) async fn share(
        &self,
        room: &str,
        members: &[String],
        settings: &Value,
    ) -> Result<(), EncryptionError> {
        let process = self.process().await?;
        let _sharing = self.sharing.lock().await;
        self.share_with(&process, room, members, settings).await
    }

    async fn share_with(
        &self,
        process: &CryptoProcess,
        room: &str,
        members: &[String],
        settings: &Value,
    ) -> Result<(), EncryptionError> {
        for _ in 0..MAX_SHARE_ROUNDS {
            let shared = process.share_room_key(room, members, settings).await;
            let requests = self.checked(shared).await?;
            if requests.is_empty() {
                return Ok(());
            }
            for request in requests {
                self.send(process, &request).await?;
            }
        }
        let why = "the keys of the room cannot be shared".to_owned();
        Err(EncryptionError::Program(CryptoError::Program(why)))
    }

    /// Sends the requests of the program until it has none. A refused request is repeated with the
    /// next sync only, because the same request would be refused again. After the first time,
    /// publishes the identity of the account.
    pub(crate) async fn pump(&self) -> Result<(), EncryptionError> {
        if !self.is_running().await {
            return Ok(());
        }
        let _pump = self.pump.lock().await;
        let process = self.process().await?;
        // The program gives a repeated request another id.
        let mut refused: HashSet<(String, String)> = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let requests = self.checked(process.outgoing().await).await?;
            let target = |request: &HomeserverRequest| {
                let HomeserverRequest { method, path, .. } = request;
                (method.clone(), path.clone())
            };
            if requests
                .iter()
                .all(|request| refused.contains(&target(request)))
            {
                break;
            }
            // Several requests of one round may have the same target, each with its own body.
            let mut refused_now = Vec::new();
            for request in requests {
                let target = target(&request);
                if !refused.contains(&target) && !is_success(self.send(&process, &request).await?) {
                    refused_now.push(target);
                }
            }
            refused.extend(refused_now);
        }
        if refused.iter().any(|(_, path)| path.ends_with(KEYS_UPLOAD)) {
            // An identity signs the keys of the device, which the homeserver does not have.
            return Ok(());
        }
        if !self.is_identity_settled.load(Ordering::Relaxed) {
            self.publish_identity(&process).await?;
            self.is_identity_settled.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Publishes an identity of cross-signing, if the account has none. Without one, clients that
    /// follow MSC4153 exclude the device. A refusal is logged, and is no failure.
    async fn publish_identity(&self, process: &CryptoProcess) -> Result<(), EncryptionError> {
        for _ in 0..MAX_IDENTITY_ROUNDS {
            let requests = match self.checked(process.identity_requests().await).await {
                Err(EncryptionError::Program(CryptoError::Refused(why))) => {
                    tracing::warn!(why, "the account's identity is not published");
                    return Ok(());
                }
                requests => requests?,
            };
            if requests.is_empty() {
                return Ok(());
            }
            for request in requests {
                let status = if request.path.ends_with(IDENTITY_UPLOAD) {
                    self.send_identity(process, request).await?
                } else {
                    self.send(process, &request).await?
                };
                if !is_success(status) {
                    tracing::warn!(
                        status,
                        "the homeserver refuses the account's identity; other clients may show \
                         the device as unverified"
                    );
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends the upload of the identity, a second time with the password if the homeserver asks
    /// for it. Returns the last status.
    async fn send_identity(
        &self,
        process: &CryptoProcess,
        mut request: HomeserverRequest,
    ) -> Result<u16, EncryptionError> {
        let HomeserverRequest {
            method, path, body, ..
        } = &mut request;
        let (mut status, mut answer) = self.api.forward(method, path, body).await?;
        if status == 401
            && let Some(session) = password_session(&answer)
            && let Some(auth) = self.api.password_auth(session).await?
            && let Some(members) = body.as_object_mut()
        {
            members.insert("auth".to_owned(), auth);
            (status, answer) = self.api.forward(method, path, body).await?;
        }
        let answered = process.answered(&request.id, status, answer).await;
        self.checked(answered).await?;
        Ok(status)
    }

    /// Returns the verifications in progress.
    pub(crate) async fn verifications(&self) -> Result<Vec<Verification>, EncryptionError> {
        let process = self.process().await?;
        self.checked(process.verifications().await).await
    }

    /// Accepts a verification.
    pub(crate) async fn accept(&self, id: &str) -> Result<(), EncryptionError> {
        let process = self.process().await?;
        self.checked(process.accept(id).await).await
    }

    /// Confirms or cancels the comparison of a verification.
    pub(crate) async fn compare(&self, id: &str, is_same: bool) -> Result<(), EncryptionError> {
        let process = self.process().await?;
        self.checked(process.compare(id, is_same).await).await
    }

    /// Ends the program.
    pub(crate) async fn close(&self) {
        let process = self.process.lock().await.take();
        if let Some(process) = process {
            process.close().await;
        }
    }

    /// Logs why encryption cannot be used, unless that is what was logged last.
    pub(crate) fn report(&self, error: &EncryptionError) {
        let why = error.to_string();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.as_deref() != Some(why.as_str()) {
            tracing::error!(why, "encrypted rooms cannot be used");
            *reported = Some(why);
        }
    }

    async fn send(
        &self,
        process: &CryptoProcess,
        request: &HomeserverRequest,
    ) -> Result<u16, EncryptionError> {
        let HomeserverRequest {
            id,
            method,
            path,
            body,
        } = request;
        let (status, answer) = self.api.forward(method, path, body).await?;
        if !is_success(status) {
            tracing::warn!(status, path, "the homeserver refuses a request about keys");
        }
        self.checked(process.answered(id, status, answer).await)
            .await?;
        Ok(status)
    }

    /// Drops a program that failed, so that the next call starts it again.
    async fn checked<T>(&self, outcome: Result<T, CryptoError>) -> Result<T, EncryptionError> {
        if let Err(CryptoError::Program(why)) = &outcome {
            tracing::warn!(why, "the encryption program failed; it is started again");
            self.process.lock().await.take();
        }
        Ok(outcome?)
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Returns the session of an interactive authentication that a password completes.
fn password_session(answer: &Value) -> Option<&str> {
    let is_by_password = |flow: &Value| {
        let stages = member(flow, "stages").as_array();
        stages.is_some_and(|stages| matches!(stages.as_slice(), [only] if only == PASSWORD_STAGE))
    };
    let flows = member(answer, "flows").as_array()?;
    let session = text(answer, "session");
    let is_usable = flows.iter().any(is_by_password) && session.len() <= MAX_AUTH_SESSION;
    is_usable.then_some(session)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn password_is_given_where_it_is_the_only_stage() {
        let flow = |stages: Value| json!({"flows": [{"stages": stages}], "session": "S"});
        let long = "x".repeat(MAX_AUTH_SESSION + 1);
        let table = [
            (flow(json!([PASSWORD_STAGE])), Some("S")),
            (flow(json!([PASSWORD_STAGE, "m.login.dummy"])), None),
            (flow(json!(["m.login.sso"])), None),
            (flow(json!([])), None),
            (flow(json!(5)), None),
            (
                json!({"flows": [7, {"stages": [PASSWORD_STAGE]}]}),
                Some(""),
            ),
            (
                json!({"flows": [{"stages": [PASSWORD_STAGE]}], "session": long}),
                None,
            ),
            (json!({"errcode": "M_UNKNOWN_TOKEN"}), None),
            (json!(null), None),
        ];
        for (answer, expected) in table {
            assert_eq!(password_session(&answer), expected, "{answer}");
        }
    }
}
