//! Services that the assistant provides to a running channel.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_types::{ChatId, ChatKind, CommandInfo, InboundMessage, MediaRef, SenderId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Notes;

/// Decision whether a sender may talk to the assistant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// The sender may talk.
    Allowed,
    /// The sender may not talk. Stay silent.
    Denied,
    /// The sender may not talk yet: send this text to the person, in a direct chat only.
    Ask(String),
}

/// Circumstances of a message, taken from platform metadata and never from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Kind of the chat.
    pub kind: ChatKind,
    /// `true` if the message addresses the assistant: by a mention, a reply or a command. Always
    /// `true` in a direct chat.
    pub addressed: bool,
    /// Containers of the chat, nearest first (the channel of a thread, the server of a channel).
    /// Rules for a container apply to everything in it.
    pub parents: Vec<ChatId>,
}

impl Arrival {
    /// Creates the arrival of a message in a direct chat.
    #[must_use]
    pub fn direct() -> Self {
        Self {
            kind: ChatKind::Direct,
            addressed: true,
            parents: Vec::new(),
        }
    }

    /// Creates the arrival of a message in a group; `addressed` if it addresses the assistant.
    #[must_use]
    pub fn group(addressed: bool) -> Self {
        Self {
            kind: ChatKind::Group,
            addressed,
            parents: Vec::new(),
        }
    }
}

/// Decides who may talk, and which group messages are for the assistant. Must be asked before any
/// download, reaction or typing indicator.
#[async_trait]
pub trait Access: Send + Sync {
    /// Decides on a message from `sender` in `chat`, by the identities in platform metadata. The
    /// rules are read at every call, so a change takes effect immediately.
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision;

    /// Returns `true` if a message from `sender` would be allowed, without an answer to strangers
    /// and without a record of them: for events that are no messages, such as invitations. The
    /// default asks [`check`](Self::check).
    async fn allows(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> bool {
        self.check(sender, chat, arrival).await == AccessDecision::Allowed
    }
}

/// Outcome of delivering a message to the assistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The message is durable. Acknowledge it to the platform.
    Accepted,
    /// The message was already known. Acknowledge it to the platform.
    Duplicate,
    /// The sender may not talk. Acknowledge the message to the platform and stay silent.
    NotAllowed,
    /// The message could not be stored now. Do not acknowledge it; deliver it again after a pause.
    TryLater,
    /// The assistant is shutting down. Do not acknowledge the message.
    ShuttingDown,
}

impl Admission {
    /// `true` if the message is to be acknowledged, so the platform may forget it.
    #[must_use]
    pub fn acknowledges(self) -> bool {
        matches!(self, Self::Accepted | Self::Duplicate | Self::NotAllowed)
    }
}

/// Accepts inbound messages.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Delivers one message. Returns when it is durable, or reports why it is not. Asks [`Access`]
    /// again, so that a channel that forgets to ask lets no one in.
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission;
}

/// Reports the liveness of a channel to its supervisor.
pub trait Liveness: Send + Sync {
    /// Reports inbound progress. Call it on every completed poll or heartbeat acknowledgement;
    /// never because of a send, and never because a socket is open.
    fn alive(&self);

    /// Reports that the channel works, but not fully; `why` is shown to the operator. The next
    /// [`Liveness::alive`] clears it.
    fn degraded(&self, why: &str);

    /// Reports inbound progress while the channel does not work fully. Call it in place of
    /// [`Liveness::alive`], so that `why` stays shown.
    fn impaired(&self, why: &str);
}

/// Reason why a file could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The file is larger than allowed.
    #[error("larger than the {limit} bytes that are allowed")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file could not be written.
    #[error("cannot be stored")]
    Io(#[from] std::io::Error),
}

/// Stores files that came with messages.
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// Returns the maximum size of a stored file, in bytes. Check it before downloading.
    fn limit(&self) -> u64;

    /// Stores a file under a generated name. `id` is the platform's id of the file. `name` is the
    /// sender's file name, of which only a harmless extension is kept.
    ///
    /// # Errors
    /// Returns [`MediaError::TooLarge`] if the file is larger than the limit, and
    /// [`MediaError::Io`] if it cannot be written. Nothing is stored then.
    async fn store(
        &self,
        id: &str,
        name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError>;
}

/// Reason why a recording could not be transcribed.
#[derive(Debug, thiserror::Error)]
pub enum TranscribeError {
    /// The recording is larger or longer than allowed.
    #[error("the recording is too long: {0}")]
    TooLong(String),
    /// The service could not be reached or failed.
    #[error("cannot be transcribed: {0}")]
    Failed(String),
}

/// Turns speech into text.
#[async_trait]
pub trait Transcriber: Send + Sync + std::fmt::Debug {
    /// Transcribes a recording stored by [`MediaStore::store`]. Waits about a minute at most.
    ///
    /// # Errors
    /// Returns [`TranscribeError::TooLong`] if the recording exceeds a limit, and
    /// [`TranscribeError::Failed`] if the service fails. The recording is then shown as a file.
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError>;
}

/// Services for a running channel.
#[derive(Clone)]
pub struct ChannelContext {
    /// Decides who may talk.
    pub access: Arc<dyn Access>,
    /// Accepts inbound messages.
    pub intake: Arc<dyn Intake>,
    /// Receives liveness reports.
    pub progress: Arc<dyn Liveness>,
    /// Stores received files.
    pub media: Arc<dyn MediaStore>,
    /// Small texts that the channel keeps across restarts.
    pub notes: Arc<dyn Notes>,
    /// Speech to text, if it is configured.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    /// The slash commands of the assistant, for the platform's menu.
    pub commands: Arc<[CommandInfo]>,
    /// Semaphore with one permit, shared by all channels and turns. Work that may have crashed the
    /// process earlier runs only while holding it, so that such suspects run one at a time.
    pub suspects: Arc<Semaphore>,
    /// Tracker to spawn tasks on, so that shutdown can wait for them.
    pub tasks: TaskTracker,
    /// Cancelled when the channel has to stop.
    pub cancel: CancellationToken,
}

impl std::fmt::Debug for ChannelContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelContext")
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}
