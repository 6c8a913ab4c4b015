//! The contract of a chat platform: everything a third party needs to write a channel.
//!
//! Decision: five small methods, and optional abilities as handles. A channel does not offer what
//! its platform cannot do ([`Channel::drafts`] returns `None`), so no method has to pretend with an
//! `Ok(())`. A channel never decides who may talk, never renders or splits text, and never retries
//! a send: it asks [`Access`], receives finished parts, and returns errors from which the caller
//! can derive what to do.
//!
//! The crate re-exports the vocabulary that it uses, so a channel needs no other crate of the
//! workspace; [`markup`] is for a channel with a markup of its own.
//!
//! ```
//! use nanobot_channel::{
//!     Channel, ChannelContext, ChannelError, ChannelName, DeliveryGuarantee, Format, Measure,
//!     OutboundPart, Sent, TextStyle, async_trait,
//! };
//!
//! /// A platform that can only be written to: standard output.
//! #[derive(Debug)]
//! struct Console(ChannelName);
//!
//! #[async_trait]
//! impl Channel for Console {
//!     fn name(&self) -> &ChannelName {
//!         &self.0
//!     }
//!
//!     async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
//!         // A real channel receives here: access first, then `context.intake.deliver(…)`.
//!         context.cancel.cancelled().await;
//!         Ok(())
//!     }
//!
//!     async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
//!         println!("{}: {}", part.message.chat_id, part.text);
//!         Ok(Sent { message_id: None })
//!     }
//!
//!     fn guarantee(&self) -> DeliveryGuarantee {
//!         DeliveryGuarantee::BestEffort
//!     }
//!
//!     fn text_style(&self) -> TextStyle {
//!         TextStyle { format: Format::Markdown, measure: Measure::CodePoints, limit: 4000 }
//!     }
//! }
//!
//! let channel = Console("console".into());
//! assert_eq!(channel.text_style().limit, 4000);
//! // Abilities that it does not have are not pretended.
//! assert!(channel.drafts().is_none() && channel.typing().is_none());
//! ```

mod context;
mod error;
mod key_discovery;
mod notes;
mod outbound;
mod sign_in;

use std::path::PathBuf;
use std::sync::Arc;

pub use async_trait::async_trait;
pub use nanobot_markup as markup;
pub use nanobot_markup::{Block, Format, Markup, Measure, PlainText, Table, TextStyle};
pub use nanobot_types::{
    Button, ChannelName, ChatAddress, ChatId, ChatKind, CommandInfo, DeliveryContext,
    InboundMessage, Map, MediaRef, MessageId, NoticeKind, OWN_LINE_KEY, Origin, OutboundKey,
    OutboundKind, OutboundMessage, OutboundSlot, SenderId, SessionKey, StreamId, Timestamp,
    TraceId, UNTRUSTED_KEY, chain, json,
};
pub use serde_json::Value;
pub use tokio::sync::Semaphore;
pub use tokio_util::sync::CancellationToken;
pub use tokio_util::task::TaskTracker;

pub use context::{
    Access, AccessDecision, Admission, Arrival, ChannelContext, Intake, Liveness, MediaError,
    MediaStore, TranscribeError, Transcriber,
};
pub use error::{ChannelError, SendRecovery};
pub use key_discovery::{KeyDiscovery, SetupTask};
pub use notes::{
    MAX_NOTE_BYTES, MAX_QUARANTINED_BYTES, MAX_QUARANTINED_FILES, NoteError, Notes, Quarantined,
};
pub use outbound::{DeliveryGuarantee, Drafts, OutboundPart, Probe, Sent, TurnEnds, Typing};
pub use sign_in::{SignIn, SignInPrompt};

/// One configured connection to a chat platform.
#[async_trait]
pub trait Channel: Send + Sync + std::fmt::Debug {
    /// Returns the configured name of this instance.
    fn name(&self) -> &ChannelName;

    /// Receives messages until `context.cancel` is cancelled, then returns `Ok` within two seconds.
    /// Returning earlier, with `Ok` or `Err`, means that the channel is down: its supervisor
    /// restarts it after a pause, or only rarely if the error
    /// [is permanent](ChannelError::is_permanent).
    ///
    /// # Errors
    /// Returns an error if the channel cannot receive.
    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError>;

    /// Sends one finished part. Parts are sent in order and one at a time per channel, also while
    /// [`Channel::run`] is not running. `Ok` means that the platform has the part.
    ///
    /// # Errors
    /// Returns an error if the part was not sent, or if it is unknown whether it was sent;
    /// [`ChannelError::recovery`] decides what follows.
    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError>;

    /// Returns the platform's guarantee for a part that is sent twice.
    fn guarantee(&self) -> DeliveryGuarantee;

    /// Returns the markup of the platform and the limit of one part.
    fn text_style(&self) -> TextStyle;

    /// Returns the live drafts, if the platform can show text while it is being written.
    fn drafts(&self) -> Option<&dyn Drafts> {
        None
    }

    /// Returns the typing indicator, if there is one.
    fn typing(&self) -> Option<&dyn Typing> {
        None
    }

    /// Returns the receiver of turn ends, if the platform can make use of them.
    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        None
    }

    /// Returns the probe, which checks the platform without receiving or sending, if there is one.
    fn probe(&self) -> Option<&dyn Probe> {
        None
    }

    /// Returns the discovery of a key that a person cannot enter, if there is one.
    fn key_discovery(&self) -> Option<&dyn KeyDiscovery> {
        None
    }

    /// Returns the login in which a person acts on the platform, if there is one.
    fn sign_in(&self) -> Option<&dyn SignIn> {
        None
    }
}

/// A channel's section of the configuration, and settings shared by all channels.
#[derive(Clone)]
pub struct RawConfig {
    /// The section as it is in the file, with keys in camelCase.
    pub section: Value,
    /// The proxy that every client has to use, if one is configured. Empty for no proxy at all, not
    /// even one from the environment.
    pub proxy: Option<String>,
    /// Private networks, such as `198.18.0.0/15`, in which files may be whose addresses the
    /// platform names: the key `tools.ssrfWhitelist`.
    pub opened_networks: Vec<String>,
    /// The channel's notes, the same as in its [context](ChannelContext::notes). A channel needs
    /// them here for credentials that change when they are used, because a [probe](Channel::probe)
    /// uses them without running the channel. `None` if nothing is kept.
    pub notes: Option<Arc<dyn Notes>>,
    /// The folder of the program's data. A channel that keeps more than notes, such as the database
    /// of a library, has a folder of its own in it. `None` if nothing is kept.
    pub data_dir: Option<PathBuf>,
}

impl RawConfig {
    /// Creates a configuration without a proxy, without opened networks, and without a place for
    /// notes and files.
    #[must_use]
    pub fn new(section: Value) -> Self {
        Self {
            section,
            proxy: None,
            opened_networks: Vec::new(),
            notes: None,
            data_dir: None,
        }
    }
}

impl std::fmt::Debug for RawConfig {
    /// Shows nothing of the section, because it holds tokens.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawConfig").finish_non_exhaustive()
    }
}

/// A value that a person gets from a platform and writes into the channel's section. It is required
/// unless it is [optional](Self::optional), or another one [replaces](Self::unless) it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The key of the section (`token`).
    pub key: &'static str,
    /// Its name, and where a person gets it, in one line.
    pub about: &'static str,
    /// `true` if the value must not be shown.
    pub is_secret: bool,
    /// `true` if the value is part of the receiver's identity. Only one program at a time may
    /// receive with the same values of all such credentials.
    pub is_identity: bool,
    /// The consequence of leaving it empty, in a few words (`to log in with the password`). `None`
    /// if the value is required.
    pub when_empty: Option<&'static str>,
    /// The key of an earlier credential that replaces this one: if that one is set, this one is
    /// neither asked for nor required.
    pub replaced_by: Option<&'static str>,
}

impl Credential {
    const fn new(
        key: &'static str,
        about: &'static str,
        is_secret: bool,
        is_identity: bool,
    ) -> Self {
        Self {
            key,
            about,
            is_secret,
            is_identity,
            when_empty: None,
            replaced_by: None,
        }
    }

    /// Creates a secret that identifies the receiver, such as a bot's token.
    #[must_use]
    pub const fn token(key: &'static str, about: &'static str) -> Self {
        Self::new(key, about, true, true)
    }

    /// Creates a secret that does not identify the receiver.
    #[must_use]
    pub const fn secret(key: &'static str, about: &'static str) -> Self {
        Self::new(key, about, true, false)
    }

    /// Creates a public name that identifies the receiver, such as a mailbox.
    #[must_use]
    pub const fn account(key: &'static str, about: &'static str) -> Self {
        Self::new(key, about, false, true)
    }

    /// Creates another value, such as the name of a server.
    #[must_use]
    pub const fn detail(key: &'static str, about: &'static str) -> Self {
        Self::new(key, about, false, false)
    }

    /// Makes it optional. `when_empty` completes "leave empty …".
    ///
    /// ```
    /// use nanobot_channel::Credential;
    ///
    /// let token = Credential::secret("accessToken", "the token of a session")
    ///     .optional("to log in with the password");
    /// let password = Credential::secret("password", "the password").unless("accessToken");
    /// assert!(token.when_empty.is_some() && password.when_empty.is_none());
    /// ```
    #[must_use]
    pub const fn optional(self, when_empty: &'static str) -> Self {
        Self {
            when_empty: Some(when_empty),
            ..self
        }
    }

    /// Leaves it out if the credential `key`, which is asked for earlier, is set.
    #[must_use]
    pub const fn unless(self, key: &'static str) -> Self {
        Self {
            replaced_by: Some(key),
            ..self
        }
    }
}

/// A note that begins with a file of the Python program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierNote {
    /// The name of the note.
    pub note: &'static str,
    /// The path of the file, below the data folder (`mochat/session_cursors.json`).
    pub file: &'static str,
}

/// Creates the channels of one platform.
pub trait ChannelFactory: Send + Sync + std::fmt::Debug {
    /// Returns the name of the platform (`telegram`), which is also the default name of an
    /// instance.
    fn kind(&self) -> &'static str;

    /// Returns the section for a new configuration: every key with its default, and `enabled`
    /// false.
    fn default_config(&self) -> Value;

    /// Returns a JSON Schema whose `properties` describe the keys of the section: meaning
    /// (`description`), type and allowed values. `None` leaves the keys without a description.
    fn config_schema(&self) -> Option<Value> {
        None
    }

    /// Returns the values that `nanobot channels login` asks for, in this order; empty if there are
    /// none. Two channels with the same [identity](Credential::is_identity) never run at the same
    /// time.
    fn credentials(&self) -> &'static [Credential] {
        &[]
    }

    /// Returns the notes that begin with what the Python program wrote, for platforms whose
    /// positions are continued.
    fn earlier_notes(&self) -> &'static [EarlierNote] {
        &[]
    }

    /// Creates an instance. Does no I/O: the network is used in [`Channel::run`].
    ///
    /// # Errors
    /// Returns [`ChannelError::Config`], which names the key, if the configuration is invalid.
    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError>;
}
