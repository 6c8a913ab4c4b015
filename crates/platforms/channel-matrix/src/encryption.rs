//! The encryption program: started on demand, fed with syncs, and its requests sent.
//!
//! Decision: the program starts with the first encrypted room or the first message from device to
//! device, so that an account without encryption does not pay for it. A program that ended is
//! started again with the next call; its store has all that it answered for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex as SyncMutex;
use std::sync::PoisonError;

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

/// Most rounds of requests before an event is encrypted.
const MAX_SHARE_ROUNDS: usize = 8;
/// Most rounds of requests after a sync.
const MAX_ROUNDS: usize = 16;
const NO_PROGRAM: &str = "encrypted rooms need the program nanobot-matrix-crypto, which was not \
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
        let Some(program) = CryptoProcess::find_program(self.program.as_deref()) else {
            return Err(EncryptionError::Unusable(NO_PROGRAM.to_owned()));
        };
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
        let store = OpenStore {
            user_id: session.user_id,
            device_id: session.device_id,
            folder: folder.join(format!("device-{device}")),
        };
        tokio::fs::create_dir_all(&store.folder)
            .await
            .map_err(|error| EncryptionError::Unusable(format!("no folder for keys: {error}")))?;
        let started = CryptoProcess::start(&program, &store).await?;
        tracing::info!("the encryption program runs");
        Ok(process.insert(started).clone())
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
        for _ in 0..MAX_SHARE_ROUNDS {
            let shared = process.share_room_key(room, members, settings).await;
            let requests = self.checked(shared).await?;
            if requests.is_empty() {
                let encrypted = process.encrypt(room, kind, content).await;
                return self.checked(encrypted).await;
            }
            for request in requests {
                self.send(&process, &request).await?;
            }
        }
        let why = "the keys of the room cannot be shared".to_owned();
        Err(EncryptionError::Program(CryptoError::Program(why)))
    }

    /// Sends the requests of the program until it has none.
    pub(crate) async fn pump(&self) -> Result<(), EncryptionError> {
        if !self.is_running().await {
            return Ok(());
        }
        let _pump = self.pump.lock().await;
        let process = self.process().await?;
        for _ in 0..MAX_ROUNDS {
            let requests = self.checked(process.outgoing().await).await?;
            if requests.is_empty() {
                break;
            }
            for request in requests {
                self.send(&process, &request).await?;
            }
        }
        Ok(())
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
    ) -> Result<(), EncryptionError> {
        let HomeserverRequest {
            id,
            method,
            path,
            body,
        } = request;
        let (status, answer) = self.api.forward(method, path, body).await?;
        if !(200..300).contains(&status) {
            tracing::warn!(status, path, "the homeserver refuses a request about keys");
        }
        self.checked(process.answered(id, status, answer).await)
            .await
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
