//! What a channel's own tests bring to the suite: the platform's end of the wire.
//!
//! Decision: a harness is one trait, and what goes on at a platform are values: what people say
//! ([`Said`]), what they see ([`Seen`]) and what else happens ([`Event`]). Waiting, counting and
//! comparing are the suite's. What a platform cannot do ([`Ability`]) the test tells the suite, with
//! the reason, so that nothing is left out silently.

use std::fmt;
use std::sync::{Arc, Mutex};

use nanobot_channel::{Channel, SenderId, async_trait};

use crate::sync::lock;

/// A fresh fake platform and those who use it. Whatever waits fails when what it waits for does not
/// come.
#[async_trait]
pub trait ChannelHarness: Send {
    /// A person whom the suite lets in.
    fn friend(&self) -> SenderId;

    /// What must never be seen: tokens and the like.
    fn secrets(&self) -> Vec<String>;

    /// A new channel at the platform, not running yet: the one that is tested, and after it what a
    /// restart of the program has, or a second program with the same credentials. Its configuration
    /// lets every message of a group through, where it has something to say about that.
    fn connect(&mut self) -> anyhow::Result<Arc<dyn Channel>>;

    /// Somebody says something. Returns when the platform has it, whatever the channel does about it.
    async fn say(&mut self, said: Said<'_>) -> anyhow::Result<()>;

    /// Whether the platform was told that it may forget what the friend said last.
    fn is_acknowledged(&self) -> bool;

    /// Waits until the platform is told so.
    async fn acknowledged(&mut self) -> anyhow::Result<()>;

    /// Waits until people see in a chat what is [wanted](Wanted::among), and returns everything that
    /// they see there of the assistant's, in order.
    async fn see(&mut self, chat: Chat, wanted: &Wanted<'_>) -> anyhow::Result<Vec<Seen>>;

    /// Everything that the channel did where the people of a chat can notice it: messages, typing,
    /// reactions, downloads. Telling a client of our own protocol that it may not talk is none.
    fn noticed(&self, chat: Chat) -> Vec<String>;

    /// Lets something happen. Events that belong to an ability which is missing do not come.
    async fn arrange(&mut self, event: Event) -> anyhow::Result<()>;

    /// The friend wrote two messages, and the later one gets to the channel first. Platforms whose
    /// messages say when they were written have more to do here.
    async fn say_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.say(Said::directly(Who::Friend, later)).await?;
        self.say(Said::directly(Who::Friend, earlier)).await
    }

    /// Sends everything odd that the platform's wire can carry: events of unknown types, events
    /// without what they should have, members of the wrong type, absurd numbers. Returns how many:
    /// none fails, unless [`Ability::Oddities`] is missing.
    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        Ok(0)
    }

    /// The friend passes on what the stranger wrote, in the way of the platform (forwards it, shares it).
    /// Not asked for without [`Ability::OthersWords`].
    async fn pass_on(&mut self, _text: &str) -> anyhow::Result<()> {
        anyhow::bail!("the harness does not say how people pass on what others wrote")
    }

    /// How many files the channel has fetched. 0 where files come within their message.
    fn downloads(&self) -> usize {
        0
    }

    /// The largest file that the platform takes, in bytes. Has to be known, unless
    /// [`Ability::OutgoingFiles`] is missing.
    fn largest_file(&self) -> Option<u64> {
        None
    }

    /// The longest text that a person can send in one message, in bytes.
    fn longest_text(&self) -> usize {
        100_000
    }
}

/// What not every platform can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Messages that come twice, late, or after a restart.
    Redelivery,
    /// Messages that pass on another person's words.
    OthersWords,
    /// Chats in which several people talk.
    Rooms,
    /// Telling strangers something on purpose.
    Pairing,
    /// Files that people send.
    IncomingFiles,
    /// Downloads that fail. Not asked for without [`Ability::IncomingFiles`].
    BrokenDownloads,
    /// Files that people get.
    OutgoingFiles,
    /// Sends that go wrong.
    SendFaults,
    /// Sends that go wrong in this way. Not asked for without [`Ability::SendFaults`].
    SendFault(SendFault),
    /// Connections that break.
    Transport,
    /// A platform that is away for a while. Not asked for without [`Ability::Transport`].
    Outages,
    /// A platform that falls silent with its connections open.
    Pulse,
    /// Text that is shown while it is being written.
    DraftView,
    /// Events that no documentation promises.
    Oddities,
    /// Credentials that stop working.
    Credentials,
    /// Another program with the same credentials.
    Rivals,
    /// The platform lets such programs know of each other, so that a channel can say so: by
    /// [`ChannelError::Conflict`](nanobot_channel::ChannelError::Conflict), or as
    /// [degraded](nanobot_channel::Progress::degraded). Not asked for without [`Ability::Rivals`].
    NewsOfRivals,
}

/// Who talks to the assistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The person whom the suite lets in.
    Friend,
    /// Somebody whom it does not let in.
    Stranger,
}

/// Where something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the direct chat of who says it, always the same.
    Direct,
    /// In the room, always the same: to the assistant when `addressed` (by mentioning it, say), else
    /// to the others.
    Room {
        /// Whether it is for the assistant.
        addressed: bool,
    },
}

/// A chat that people look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chat {
    /// The direct chat of the friend.
    Friend,
    /// That of the stranger.
    Stranger,
    /// The room.
    Room,
}

/// Something that a person says.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Who says it.
    pub by: Who,
    /// Where.
    pub place: Place,
    /// What.
    pub text: &'a str,
    /// The file that comes with it.
    pub file: Option<&'a SampleFile>,
}

impl<'a> Said<'a> {
    /// A text in a direct chat.
    pub(super) fn directly(by: Who, text: &'a str) -> Self {
        Self {
            by,
            place: Place::Direct,
            text,
            file: None,
        }
    }

    /// The text, behind `mention` where it takes one to mean the assistant.
    #[must_use]
    pub fn text_with(&self, mention: &str) -> String {
        match self.place {
            Place::Room { addressed: true } => format!("{mention} {}", self.text),
            Place::Direct | Place::Room { addressed: false } => self.text.to_owned(),
        }
    }
}

/// A file that a person sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    /// What its sender calls it. May be hostile.
    pub name: String,
    /// What its sender says it is. May be a lie.
    pub mime: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// A message of the assistant's, as people see it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its text, without markup.
    pub text: String,
    /// Its files: name and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether it is told apart from one that is complete.
    pub is_draft: bool,
}

impl Seen {
    /// A message that is only text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            files: Vec::new(),
            is_draft: false,
        }
    }

    /// The same with files: name and content of each.
    #[must_use]
    pub fn with_files(self, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self {
            files: files.into_iter().collect(),
            ..self
        }
    }
}

/// What the suite waits for.
pub struct Wanted<'a> {
    is_there: &'a (dyn Fn(&[Seen]) -> bool + Sync),
    last: Mutex<Vec<Seen>>,
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl<'a> Wanted<'a> {
    pub(super) fn new(is_there: &'a (dyn Fn(&[Seen]) -> bool + Sync)) -> Self {
        Self {
            is_there,
            last: Mutex::default(),
        }
    }

    /// What people see of the assistant in the chat now, if what is wanted is among it.
    #[must_use]
    pub fn among(&self, seen: impl IntoIterator<Item = Seen>) -> Option<Vec<Seen>> {
        let seen: Vec<Seen> = seen.into_iter().collect();
        lock(&self.last).clone_from(&seen);
        (self.is_there)(&seen).then_some(seen)
    }

    /// What people saw when somebody looked last.
    pub(super) fn last(&self) -> Vec<Seen> {
        lock(&self.last).clone()
    }
}

/// Something that happens to a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// What the friend said last is offered again, because the channel could not hand it over. Nothing
    /// has to be done where the platform does so by itself.
    OfferedAgain,
    /// It is offered once more, acknowledged or not ([`Ability::Redelivery`]).
    Repeated,
    /// The next download fails ([`Ability::BrokenDownloads`]).
    BrokenDownload,
    /// The next part that the channel sends meets this fault, those after it do not
    /// ([`Ability::SendFaults`]).
    FailedSend(SendFault),
    /// Every connection between platform and channel is cut. New ones are taken
    /// ([`Ability::Transport`]).
    Cut,
    /// Every connection is cut, and no new ones are taken. People can write all the same, and the
    /// platform keeps what they write ([`Ability::Outages`]).
    Down,
    /// That is over, at the same address.
    Up,
    /// The platform gives a sign of life that is no message: an empty answer to a poll, the
    /// acknowledgement of a heartbeat ([`Ability::Pulse`]).
    Beat,
    /// From now on nothing comes through from the platform, though no connection breaks.
    Stalled,
    /// That is over; what was held back comes through.
    Recovered,
    /// The platform knows the channel's credentials no more, and lets the channel notice it
    /// ([`Ability::Credentials`]).
    Revoked,
    /// It knows them again.
    Restored,
}

/// How a send goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFault {
    /// The platform asks for a pause of [`SendFault::PAUSE_SECONDS`] and does nothing.
    RateLimited,
    /// The platform says that it is broken and does nothing.
    Broken,
    /// The platform takes the part, and the connection breaks before it says so.
    CutAfterEffect,
    /// The platform refuses the part for what is in it.
    Refused,
    /// The chat was deleted, or the bot was removed from it.
    ChatGone,
    /// The platform says that the part is too large.
    TooLarge,
    /// The platform does not know the credentials.
    Unauthorized,
}

impl SendFault {
    /// The pause that the platform asks for, in seconds.
    pub const PAUSE_SECONDS: u32 = 1;

    /// All of them.
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
