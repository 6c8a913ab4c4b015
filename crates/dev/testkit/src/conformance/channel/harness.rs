//! The interface between the suite and a channel's own tests, which provide the platform's end of
//! the wire.
//!
//! Decision: a harness is one trait, and activity at the platform is described by values: messages
//! that people send ([`UserMessage`]), messages that they see ([`VisibleMessage`]) and other events
//! ([`PlatformEvent`]). The suite does the waiting, counting and comparing. The test declares each
//! ability that the platform lacks ([`Ability`]), with the reason, so that nothing is skipped
//! silently.

use std::fmt;
use std::sync::{Arc, Mutex};

use nanobot_channel::{Channel, SenderId, async_trait};

use crate::sync::lock;

/// A fresh fake platform and its users. Methods that wait return an error if the awaited event does
/// not happen in time.
#[async_trait]
pub trait ChannelHarness: Send {
    /// Returns the id of the friend, the person that the suite admits.
    fn friend(&self) -> SenderId;

    /// Returns the secrets, such as tokens. They must never appear in the log, in errors, in state
    /// reports or in `Debug` output.
    fn secrets(&self) -> Vec<String>;

    /// Returns a new channel for the platform, not yet running. The first is the channel under
    /// test; later ones stand in for the channel after a restart or for a second program with the
    /// same credentials. If the channel's configuration can filter group messages, it admits all of
    /// them.
    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>>;

    /// Sends a message as a person. Returns when the platform has accepted it, whatever the channel
    /// does with it.
    async fn post(&mut self, posted: UserMessage<'_>) -> anyhow::Result<()>;

    /// Returns `true` if the channel has acknowledged the friend's latest message, so that the
    /// platform may forget it.
    fn is_acknowledged(&self) -> bool;

    /// Waits until the channel has acknowledged the friend's latest message.
    async fn acknowledged(&mut self) -> anyhow::Result<()>;

    /// Waits until the assistant's messages that people see in a chat
    /// [match](MessageCondition::matching) a condition, and returns all of them, in order.
    async fn wait_for_messages(
        &mut self,
        chat: ObservedChat,
        condition: &MessageCondition<'_>,
    ) -> anyhow::Result<Vec<VisibleMessage>>;

    /// Returns every action of the channel that people in a chat can notice: messages, typing,
    /// reactions, downloads. Refusing a client of nanobot's own protocol does not count.
    fn visible_actions(&self, chat: ObservedChat) -> Vec<String>;

    /// Makes an event happen. The suite requests no events that belong to a missing ability.
    async fn trigger(&mut self, event: PlatformEvent) -> anyhow::Result<()>;

    /// Sends two messages of the friend so that the later one reaches the channel first. Platforms
    /// whose messages carry a timestamp have to override this.
    async fn post_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.post(UserMessage::directly(Participant::Friend, later))
            .await?;
        self.post(UserMessage::directly(Participant::Friend, earlier))
            .await
    }

    /// Sends every odd event that the platform's wire can carry: unknown types, missing fields,
    /// fields of the wrong type, absurd numbers. Returns the number of events sent. The number must
    /// not be 0, unless [`Ability::Oddities`] is missing.
    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        Ok(0)
    }

    /// Passes on, as the friend, what the stranger wrote, in the platform's way (forward, share).
    /// Not called without [`Ability::OthersWords`].
    async fn forward(&mut self, _text: &str) -> anyhow::Result<()> {
        anyhow::bail!("the harness does not say how people pass on what others wrote")
    }

    /// Returns the number of files that the channel has downloaded; 0 if files arrive within their
    /// message.
    fn downloads(&self) -> usize {
        0
    }

    /// Returns the size of the largest file that the platform accepts, in bytes. Must be `Some`,
    /// unless [`Ability::OutgoingFiles`] is missing.
    fn largest_file(&self) -> Option<u64> {
        None
    }

    /// Returns `true` if drafts are messages, which become the reply.
    fn drafts_are_messages(&self) -> bool {
        true
    }

    /// Lets so much time pass that the platform itself removes drafts that are no longer refreshed.
    /// Does nothing for platforms that keep drafts until they are deleted.
    fn drafts_expire(&mut self) {}

    /// Returns the length of the longest text that a person can send in one message, in bytes.
    fn longest_text(&self) -> usize {
        100_000
    }
}

/// An ability that not every platform has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Delivers messages twice, late, or after a restart.
    Redelivery,
    /// Lets people pass on another person's words.
    OthersWords,
    /// Has chats in which several people talk.
    Rooms,
    /// Lets the channel answer strangers with a pairing code.
    Pairing,
    /// Lets people send files.
    IncomingFiles,
    /// Can make a download fail. Not used without [`Ability::IncomingFiles`].
    BrokenDownloads,
    /// Lets the channel send files.
    OutgoingFiles,
    /// Can make a send fail.
    SendFaults,
    /// Can make a send fail in this way. Not used without [`Ability::SendFaults`].
    SendFault(SendFault),
    /// Has connections that can break.
    Transport,
    /// Can be unreachable for a while. Not used without [`Ability::Transport`].
    Outages,
    /// Can fall silent while its connections stay open.
    Pulse,
    /// Shows a text while it is being written.
    DraftView,
    /// Lets the channel find a draft although the answer that names it was lost. Not used without
    /// [`Ability::DraftView`], [`Ability::Redelivery`] and [`Ability::SendFaults`].
    LostDrafts,
    /// Can send undocumented events.
    Oddities,
    /// Has credentials that can stop working.
    Credentials,
    /// Allows another program with the same credentials.
    Rivals,
    /// Tells such programs about each other, so that a channel can report it, by
    /// [`ChannelError::Conflict`](nanobot_channel::ChannelError::Conflict) or as
    /// [degraded](nanobot_channel::Liveness::degraded). Not used without [`Ability::Rivals`].
    NewsOfRivals,
}

/// A person who talks to the assistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participant {
    /// The person that the suite admits.
    Friend,
    /// A person that the suite does not admit.
    Stranger,
}

/// The chat that a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The sender's direct chat, always the same one.
    Direct,
    /// The room, always the same one. The message is for the assistant if it is `addressed` (for
    /// example by a mention), otherwise for the other members.
    Room {
        /// `true` if the message is addressed to the assistant.
        addressed: bool,
    },
}

/// A chat that people look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedChat {
    /// The friend's direct chat.
    Friend,
    /// The stranger's direct chat.
    Stranger,
    /// The room.
    Room,
}

/// A message that a person sends.
#[derive(Clone, Copy, Debug)]
pub struct UserMessage<'a> {
    /// The sender.
    pub by: Participant,
    /// The chat.
    pub place: Destination,
    /// The text.
    pub text: &'a str,
    /// The attached file, if any.
    pub file: Option<&'a SampleFile>,
}

impl<'a> UserMessage<'a> {
    /// Returns a text message in a direct chat.
    pub(super) fn directly(by: Participant, text: &'a str) -> Self {
        Self {
            by,
            place: Destination::Direct,
            text,
            file: None,
        }
    }

    /// Returns the text, prefixed with `mention` if the message is addressed to the assistant in a
    /// room.
    #[must_use]
    pub fn text_with(&self, mention: &str) -> String {
        match self.place {
            Destination::Room { addressed: true } => format!("{mention} {}", self.text),
            Destination::Direct | Destination::Room { addressed: false } => self.text.to_owned(),
        }
    }
}

/// A file that a person sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    /// File name given by its sender. May be hostile.
    pub name: String,
    /// Media type given by its sender. May be false.
    pub mime: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// A message of the assistant, as people currently see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleMessage {
    /// Its text, without markup.
    pub text: String,
    /// Its files: name and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// `true` while the message is shown as a draft, distinguishable from a complete one.
    pub is_draft: bool,
}

impl VisibleMessage {
    /// Returns a message that is only text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            files: Vec::new(),
            is_draft: false,
        }
    }

    /// Replaces the files of the message: name and content of each.
    #[must_use]
    pub fn with_files(self, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self {
            files: files.into_iter().collect(),
            ..self
        }
    }
}

/// A condition that the suite waits for.
pub struct MessageCondition<'a> {
    is_there: &'a (dyn Fn(&[VisibleMessage]) -> bool + Sync),
    last: Mutex<Vec<VisibleMessage>>,
}

impl fmt::Debug for MessageCondition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageCondition")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl<'a> MessageCondition<'a> {
    pub(super) fn new(is_there: &'a (dyn Fn(&[VisibleMessage]) -> bool + Sync)) -> Self {
        Self {
            is_there,
            last: Mutex::default(),
        }
    }

    /// Returns the assistant's messages that people currently see in the chat if they meet the
    /// condition, otherwise `None`.
    #[must_use]
    pub fn matching(
        &self,
        seen: impl IntoIterator<Item = VisibleMessage>,
    ) -> Option<Vec<VisibleMessage>> {
        let seen: Vec<VisibleMessage> = seen.into_iter().collect();
        lock(&self.last).clone_from(&seen);
        (self.is_there)(&seen).then_some(seen)
    }

    /// Returns the messages passed to the most recent [`MessageCondition::matching`].
    pub(super) fn last(&self) -> Vec<VisibleMessage> {
        lock(&self.last).clone()
    }
}

/// An event at a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformEvent {
    /// The friend's latest message is offered again, because the channel could not hand it over.
    /// Nothing has to be done if the platform does so by itself.
    OfferedAgain,
    /// The friend's latest message is offered again, acknowledged or not ([`Ability::Redelivery`]).
    Repeated,
    /// The next download fails ([`Ability::BrokenDownloads`]).
    BrokenDownload,
    /// The next part that the channel sends meets this fault; later parts do not
    /// ([`Ability::SendFaults`]).
    FailedSend(SendFault),
    /// Every connection between platform and channel is cut. New ones are accepted
    /// ([`Ability::Transport`]).
    Cut,
    /// Every connection is cut, and no new ones are accepted. People can still write, and the
    /// platform keeps their messages ([`Ability::Outages`]).
    Down,
    /// The outage is over; the platform is reachable at the same address.
    Up,
    /// The platform sends a sign of life that is not a message: an empty poll response or a
    /// heartbeat acknowledgement ([`Ability::Pulse`]).
    Beat,
    /// From now on nothing arrives from the platform, although no connection breaks.
    Stalled,
    /// The stall is over; everything held back is delivered.
    Recovered,
    /// The platform rejects the channel's credentials from now on, and lets the channel notice it
    /// ([`Ability::Credentials`]).
    Revoked,
    /// The platform accepts the credentials again.
    Restored,
}

/// A way in which a send can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFault {
    /// The platform asks for a pause of [`SendFault::PAUSE_SECONDS`] and does not send the part.
    RateLimited,
    /// The platform reports an internal error and does not send the part.
    Broken,
    /// The platform accepts the part, and the connection breaks before it answers.
    CutAfterEffect,
    /// The platform refuses the part because of its content.
    Refused,
    /// The chat was deleted, or the bot was removed from it.
    ChatGone,
    /// The platform reports that the part is too large.
    TooLarge,
    /// The platform rejects the credentials.
    Unauthorized,
}

impl SendFault {
    /// Pause that the platform asks for, in seconds.
    pub const PAUSE_SECONDS: u32 = 1;

    /// All faults.
    pub(super) const ALL: [Self; 7] = [
        Self::RateLimited,
        Self::Broken,
        Self::CutAfterEffect,
        Self::Refused,
        Self::ChatGone,
        Self::TooLarge,
        Self::Unauthorized,
    ];
}
