//! The contract a chat platform implements; all that a third party needs to write one.
//!
//! Decision: five small methods, and abilities as handles. What a platform cannot do it does not
//! offer ([`Channel::drafts`] is `None`), so nothing pretends with an `Ok(())`. A channel never
//! decides who may talk, never renders or splits text and never retries a send: it asks
//! [`Access`], gets finished parts, and reports errors that say what they mean.
//!
//! The crate re-exports the vocabulary it uses, so that a channel depends on it alone.

mod context;
mod error;
mod lesson;
mod notes;
mod outbound;

use std::sync::Arc;

pub use async_trait::async_trait;
pub use nanobot_types::{
    Button, ChannelName, ChatId, ChatKind, CommandInfo, DeliveryContext, InboundMessage, Map,
    MediaRef, MessageId, Origin, OutboundKey, OutboundKind, OutboundMessage, SenderId, SessionKey,
    StreamId, Timestamp, TraceId, json,
};
pub use serde_json::Value;
pub use tokio::sync::Semaphore;
pub use tokio_util::sync::CancellationToken;
pub use tokio_util::task::TaskTracker;

pub use context::{
    Access, AccessDecision, Admission, Arrival, ChannelContext, Intake, MediaError, MediaStore,
    Progress, TranscribeError, Transcriber,
};
pub use error::{ChannelError, SendRecovery};
pub use lesson::{Lesson, Task};
pub use notes::{Aside, LONGEST_ASIDE, LONGEST_NOTE, MOST_ASIDE, NoteError, Notes};
pub use outbound::{
    Block, DeliveryGuarantee, Dialect, Drafts, Measure, OutboundPart, Probe, Sent, Table,
    TextStyle, TurnEnds, Typing,
};

/// One configured connection to a chat platform.
#[async_trait]
pub trait Channel: Send + Sync + std::fmt::Debug {
    /// The name of this instance, as configured.
    fn name(&self) -> &ChannelName;

    /// Receives until `context.cancel` fires, then returns `Ok` within two seconds. Returning
    /// early, with `Ok` or `Err`, means that the channel is down: its supervisor starts it again
    /// after a pause unless the error [is permanent](ChannelError::is_permanent).
    ///
    /// # Errors
    /// Why it cannot receive.
    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError>;

    /// Sends one finished part. Called for one part at a time per channel, in order, also while
    /// [`Channel::run`] is not running. `Ok` means that the platform has it.
    ///
    /// # Errors
    /// What went wrong; [`ChannelError::recovery`] decides what follows.
    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError>;

    /// What the platform guarantees about a part that is sent twice.
    fn guarantee(&self) -> DeliveryGuarantee;

    /// How text has to look and how much fits into one part.
    fn text_style(&self) -> TextStyle;

    /// Live drafts, if text can be shown while it is being written.
    fn drafts(&self) -> Option<&dyn Drafts> {
        None
    }

    /// The typing indicator, if there is one.
    fn typing(&self) -> Option<&dyn Typing> {
        None
    }

    /// Who is told that a turn is over, if that is worth telling here.
    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        None
    }

    /// A look at the platform without receiving or sending anything, where it has one.
    fn probe(&self) -> Option<&dyn Probe> {
        None
    }

    /// A key of the section that is learned when a person sets the channel up, where there is one.
    fn lesson(&self) -> Option<&dyn Lesson> {
        None
    }
}

/// A channel's section of the configuration, and what all channels share.
#[derive(Clone)]
pub struct RawConfig {
    /// The section as it stands in the file, keys in camelCase.
    pub section: Value,
    /// The proxy every client has to use, when one is configured; empty for none, not even the one
    /// that the environment names.
    pub proxy: Option<String>,
    /// What the channel keeps for itself, the same as in its [context](ChannelContext::notes): for
    /// credentials that change with their use, which is before it runs when it is only
    /// [looked at](Channel::probe). `None` where nothing is kept.
    pub notes: Option<Arc<dyn Notes>>,
}

impl RawConfig {
    /// A section without a proxy, for a channel that keeps nothing before it runs.
    #[must_use]
    pub fn new(section: Value) -> Self {
        Self {
            section,
            proxy: None,
            notes: None,
        }
    }
}

impl std::fmt::Debug for RawConfig {
    /// Sections hold tokens: nothing of them is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawConfig").finish_non_exhaustive()
    }
}

/// What a person gets from a platform and writes into a channel's section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The key of the section (`token`).
    pub key: &'static str,
    /// What it is called, and where a person gets it: one line.
    pub about: &'static str,
    /// It is not to be shown.
    pub is_secret: bool,
    /// It says, with all others that do, on whose behalf messages are received: only one program at
    /// a time may receive with it.
    pub is_identity: bool,
}

impl Credential {
    /// A secret by which the platform knows who receives, such as a bot's token.
    #[must_use]
    pub const fn token(key: &'static str, about: &'static str) -> Self {
        Self {
            key,
            about,
            is_secret: true,
            is_identity: true,
        }
    }

    /// A secret that says nothing about who receives.
    #[must_use]
    pub const fn secret(key: &'static str, about: &'static str) -> Self {
        Self {
            key,
            about,
            is_secret: true,
            is_identity: false,
        }
    }

    /// A name by which the platform knows who receives, such as a mailbox.
    #[must_use]
    pub const fn account(key: &'static str, about: &'static str) -> Self {
        Self {
            key,
            about,
            is_secret: false,
            is_identity: true,
        }
    }

    /// Something else that has to be known, such as the name of a server.
    #[must_use]
    pub const fn detail(key: &'static str, about: &'static str) -> Self {
        Self {
            key,
            about,
            is_secret: false,
            is_identity: false,
        }
    }
}

/// Makes channels of one platform.
pub trait ChannelFactory: Send + Sync + std::fmt::Debug {
    /// The platform (`telegram`), which is also the default name of an instance.
    fn kind(&self) -> &'static str;

    /// The section a new configuration gets: every key with its default, `enabled` false.
    fn default_config(&self) -> Value;

    /// What `nanobot channels login` asks a person for, in that order; empty where nothing is
    /// needed. Two channels with the same [identity](Credential::is_identity) never run at a time.
    fn credentials(&self) -> &'static [Credential] {
        &[]
    }

    /// Makes an instance. Does no I/O: what needs the network happens in [`Channel::run`].
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError>;
}
