//! What a running channel may ask of the assistant.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_types::{ChatId, ChatKind, CommandInfo, InboundMessage, MediaRef, SenderId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Notes;

/// Whether somebody may talk to the assistant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// Yes.
    Allowed,
    /// No. Stay silent.
    Denied,
    /// Not yet: tell this text to the person, in a direct chat only.
    Ask(String),
}

/// How a message reached the assistant, as the platform's metadata says and never its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who else hears it.
    pub kind: ChatKind,
    /// Whether it means the assistant: a mention of it, an answer to it, a command for it.
    /// Always so in a direct chat.
    pub addressed: bool,
    /// What the chat is a part of, nearest first (the channel of a thread, the server of a channel):
    /// rules for a whole hold for its parts.
    pub parents: Vec<ChatId>,
}

impl Arrival {
    /// In a chat with one person.
    #[must_use]
    pub fn direct() -> Self {
        Self {
            kind: ChatKind::Direct,
            addressed: true,
            parents: Vec::new(),
        }
    }

    /// Where several people talk; `addressed` when the message means the assistant.
    #[must_use]
    pub fn group(addressed: bool) -> Self {
        Self {
            kind: ChatKind::Group,
            addressed,
            parents: Vec::new(),
        }
    }
}

/// Decides who may talk, and which messages of a group are for the assistant. Asked before any
/// download, reaction or typing indicator.
#[async_trait]
pub trait Access: Send + Sync {
    /// Decides about a message of `sender` in `chat`, by identities from platform metadata. Read
    /// anew at every call, so that a change works at once.
    async fn check(&self, sender: &SenderId, chat: &ChatId, arrival: &Arrival) -> AccessDecision;
}

/// What became of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is durable. Acknowledge it to the platform.
    Accepted,
    /// It was known already. Acknowledge it to the platform.
    Duplicate,
    /// Its sender may not talk. Acknowledge it to the platform, say nothing.
    NotAllowed,
    /// It could not be stored now. Do not acknowledge it; offer it again after a pause.
    TryLater,
    /// The assistant is going down. Do not acknowledge it.
    ShuttingDown,
}

impl Admission {
    /// Whether the platform may forget the message.
    #[must_use]
    pub fn acknowledges(self) -> bool {
        matches!(self, Self::Accepted | Self::Duplicate | Self::NotAllowed)
    }
}

/// Takes messages in.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Takes one in. Returns when it is durable, or says why it is not. Asks [`Access`] again,
    /// so that forgetting to ask opens no door.
    async fn deliver(&self, message: InboundMessage, arrival: &Arrival) -> Admission;
}

/// Tells the supervisor that the channel lives.
pub trait Progress: Send + Sync {
    /// Call on every completed poll or heartbeat acknowledgement, that is on inbound progress;
    /// never because of a send, nor because a socket is open.
    fn alive(&self);

    /// The channel works, but not fully; `why` is shown to the operator. The next [`Progress::alive`]
    /// ends that.
    fn degraded(&self, why: &str);

    /// Call in place of [`Progress::alive`] for as long as the channel receives, but not fully: a sign
    /// of life that keeps `why` shown.
    fn impaired(&self, why: &str);
}

/// Why a file could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// It is larger than allowed.
    #[error("larger than the {limit} bytes that are allowed")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It could not be written.
    #[error("cannot be stored")]
    Io(#[from] std::io::Error),
}

/// Keeps files that came with messages.
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// The largest file that is kept, in bytes. Ask before downloading.
    fn limit(&self) -> u64;

    /// Keeps a file under a name of its own making: `id` is the platform's id of the file and
    /// `name` what the sender called it, of which only a harmless ending survives.
    ///
    /// # Errors
    /// [`MediaError::TooLarge`] and [`MediaError::Io`]; nothing is kept then.
    async fn keep(
        &self,
        id: &str,
        name: &str,
        mime: Option<&str>,
        bytes: &[u8],
    ) -> Result<MediaRef, MediaError>;
}

/// Why a recording has no text.
#[derive(Debug, thiserror::Error)]
pub enum TranscribeError {
    /// It is larger or longer than allowed.
    #[error("the recording is too long: {0}")]
    TooLong(String),
    /// The service could not be reached, or failed.
    #[error("cannot be transcribed: {0}")]
    Failed(String),
}

/// Turns speech into text.
#[async_trait]
pub trait Transcriber: Send + Sync + std::fmt::Debug {
    /// What is said in a recording that [`MediaStore::keep`] keeps. Waits at most a minute or so.
    ///
    /// # Errors
    /// Why there is no text; the recording is shown as a file then.
    async fn transcribe(&self, recording: &MediaRef) -> Result<String, TranscribeError>;
}

/// What a running channel may use.
#[derive(Clone)]
pub struct ChannelContext {
    /// Who may talk.
    pub access: Arc<dyn Access>,
    /// Where messages go.
    pub intake: Arc<dyn Intake>,
    /// Signs of life.
    pub progress: Arc<dyn Progress>,
    /// Where files go.
    pub media: Arc<dyn MediaStore>,
    /// What the channel keeps for itself over restarts.
    pub notes: Arc<dyn Notes>,
    /// Speech to text, where it is configured.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    /// The slash commands that the assistant understands, for the platform's menu.
    pub commands: Arc<[CommandInfo]>,
    /// One permit for all that may have ended the process before, in any channel and among turns: it is
    /// handled while nothing else of that kind is.
    pub suspects: Arc<Semaphore>,
    /// Spawn here, so that shutdown can wait.
    pub tasks: TaskTracker,
    /// Fires when the channel has to stop.
    pub cancel: CancellationToken,
}

impl std::fmt::Debug for ChannelContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelContext")
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}
