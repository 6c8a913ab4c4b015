//! What a channel's own tests bring to the suite: the platform's end of the wire.
//!
//! Decision: what every platform has is a method of [`ChannelHarness`]; what only some have is a
//! trait of its own, handed out as an [`Ability`]. An ability that is not there has a reason that
//! the suite returns, so that nothing is left out silently.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{Channel, SenderId, async_trait};

/// Something a harness can do, or why nobody can.
#[derive(Debug)]
pub enum Ability<'a, T: ?Sized + 'a> {
    /// Here it is.
    Offered(&'a mut T),
    /// The platform has nothing of the kind, or its fake cannot do it: why, in one sentence.
    Missing(&'static str),
    /// Nobody has said yet. The suite fails until somebody does.
    Undeclared,
}

impl<'a, T: ?Sized + 'a> Ability<'a, T> {
    /// The handle.
    pub(super) fn take(self) -> anyhow::Result<&'a mut T> {
        match self {
            Self::Offered(ability) => Ok(ability),
            Self::Missing(_) | Self::Undeclared => {
                anyhow::bail!("the harness offers an ability at one time and not at another")
            }
        }
    }
}

/// Whether a harness could arrange what the suite asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arranged {
    /// It is so.
    Done,
    /// It cannot happen on this platform: why, in one sentence.
    Impossible(&'static str),
}

/// A fresh fake platform and the channel connected to it. Every method may wait, and fails when what
/// it waits for does not come.
#[async_trait]
pub trait ChannelHarness: Send {
    /// The channel under test, not running yet. Its configuration lets every message of a group
    /// through, where it has something to say about that.
    fn channel(&self) -> Arc<dyn Channel>;

    /// A person whom the suite lets in.
    fn friend(&self) -> SenderId;

    /// The friend writes to the assistant in a direct chat, always the same. Returns when the
    /// platform has the message, whatever the channel does about it.
    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()>;

    /// Somebody whom the suite does not let in writes in a direct chat of their own.
    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()>;

    /// Everything that the channel did where the stranger can notice it: messages, typing,
    /// reactions, downloads. Telling a client of our own protocol that it may not talk is none.
    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>>;

    /// The channel could not hand the last message over. Offers it again, unless the platform
    /// does so by itself.
    async fn offer_again(&mut self) -> anyhow::Result<()>;

    /// Whether the platform was told that it may forget the friend's last message.
    async fn is_acknowledged(&mut self) -> anyhow::Result<bool>;

    /// Waits until the platform is told so.
    async fn acknowledged(&mut self) -> anyhow::Result<()>;

    /// Waits until the friend was shown `count` messages and returns the texts of all of them as
    /// they stand now, in order, without markup.
    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>>;

    /// What must never be seen: tokens and the like.
    fn secrets(&self) -> Vec<String>;

    /// The longest text that a person can send in one message, in bytes.
    fn longest_text(&self) -> usize {
        100_000
    }

    /// Messages that come twice, late, or after a restart.
    fn redelivery(&mut self) -> Ability<'_, dyn Redelivery> {
        Ability::Undeclared
    }

    /// Chats in which several people talk.
    fn rooms(&mut self) -> Ability<'_, dyn Rooms> {
        Ability::Undeclared
    }

    /// What strangers are told on purpose.
    fn pairing(&mut self) -> Ability<'_, dyn Pairing> {
        Ability::Undeclared
    }

    /// Files that people send.
    fn incoming_files(&mut self) -> Ability<'_, dyn IncomingFiles> {
        Ability::Undeclared
    }

    /// Files that people get.
    fn outgoing_files(&mut self) -> Ability<'_, dyn OutgoingFiles> {
        Ability::Undeclared
    }

    /// Sends that go wrong.
    fn send_faults(&mut self) -> Ability<'_, dyn SendFaults> {
        Ability::Undeclared
    }

    /// Connections that break, and a platform that is away.
    fn transport(&mut self) -> Ability<'_, dyn Transport> {
        Ability::Undeclared
    }

    /// A platform that falls silent with its connections open.
    fn pulse(&mut self) -> Ability<'_, dyn Pulse> {
        Ability::Undeclared
    }

    /// Text that is shown while it is being written.
    fn draft_view(&mut self) -> Ability<'_, dyn DraftView> {
        Ability::Undeclared
    }

    /// Events that no documentation promises.
    fn oddities(&mut self) -> Ability<'_, dyn Oddities> {
        Ability::Undeclared
    }

    /// Credentials that stop working.
    fn credentials(&mut self) -> Ability<'_, dyn Credentials> {
        Ability::Undeclared
    }

    /// Another program with the same credentials.
    fn rivals(&mut self) -> Ability<'_, dyn Rivals> {
        Ability::Undeclared
    }
}

/// Messages that come twice, late, or after a restart.
#[async_trait]
pub trait Redelivery: Send {
    /// A new channel at the same platform, as after a restart of the program. The old one does not
    /// run any more; what it held in memory is gone.
    async fn reopen(&mut self) -> anyhow::Result<Arc<dyn Channel>>;

    /// The platform offers the friend's last message once more, acknowledged or not.
    async fn repeat(&mut self) -> anyhow::Result<()>;

    /// The friend wrote two messages, and the later one gets to the channel first.
    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()>;
}

/// Chats in which several people talk; the suite uses one, always the same.
#[async_trait]
pub trait Rooms: Send {
    /// The friend writes in the room: to the assistant when `addressed` (by mentioning it, say),
    /// else to the others.
    async fn friend_says_in_room(&mut self, text: &str, addressed: bool) -> anyhow::Result<()>;

    /// The stranger writes to the assistant in the same room.
    async fn stranger_says_in_room(&mut self, text: &str) -> anyhow::Result<()>;

    /// Everything that the channel did where the people of the room can notice it.
    async fn room_noticed(&mut self) -> anyhow::Result<Vec<String>>;
}

/// What strangers are told on purpose.
#[async_trait]
pub trait Pairing: Send {
    /// Waits until the stranger was told something in the direct chat, and returns all of it.
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>>;
}

/// A file on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    /// What its sender calls it. May be hostile.
    pub name: String,
    /// What its sender says it is. May be a lie.
    pub mime: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Files that people send.
#[async_trait]
pub trait IncomingFiles: Send {
    /// The friend sends a file with a text to the direct chat.
    async fn friend_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()>;

    /// The stranger does the same in a chat of their own.
    async fn stranger_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()>;

    /// How many files the channel has fetched. 0 where files come within their message.
    async fn downloads(&mut self) -> anyhow::Result<usize>;

    /// Makes the next download fail.
    async fn break_next_download(&mut self) -> anyhow::Result<Arranged>;
}

/// Files that people get.
#[async_trait]
pub trait OutgoingFiles: Send {
    /// Waits until the friend got `count` files and returns all of them, in order.
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<SampleFile>>;

    /// The largest file that the platform takes, in bytes.
    fn largest_file(&self) -> u64;
}

/// How a send goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFault {
    /// The platform asks for a pause of that many seconds and does nothing.
    RateLimited(u32),
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

/// Sends that go wrong.
#[async_trait]
pub trait SendFaults: Send {
    /// The next part that the channel sends meets this fault, those after it do not.
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged>;
}

/// Connections that break, and a platform that is away.
#[async_trait]
pub trait Transport: Send {
    /// Cuts every connection between platform and channel. New ones are taken.
    async fn cut(&mut self) -> anyhow::Result<()>;

    /// Cuts every connection and takes no new ones. People can write all the same, and the platform
    /// keeps what they write.
    async fn go_down(&mut self) -> anyhow::Result<Arranged>;

    /// Ends what [`Transport::go_down`] began, at the same address.
    async fn come_back(&mut self) -> anyhow::Result<()>;
}

/// A platform that falls silent with its connections open.
#[async_trait]
pub trait Pulse: Send {
    /// The platform gives a sign of life that is no message: an empty answer to a poll, the
    /// acknowledgement of a heartbeat.
    async fn beat(&mut self) -> anyhow::Result<()>;

    /// From now on nothing comes through from the platform, though no connection breaks.
    async fn stall(&mut self) -> anyhow::Result<()>;

    /// Ends what [`Pulse::stall`] began; what was held back comes through.
    async fn recover(&mut self) -> anyhow::Result<()>;
}

/// Text that is shown while it is being written.
#[async_trait]
pub trait DraftView: Send {
    /// Waits until the friend is shown exactly `text` in a message that may still grow.
    async fn friend_sees(&mut self, text: &str) -> anyhow::Result<()>;

    /// Waits until the friend is shown these messages, in this order, and nothing else: neither one
    /// that may still grow nor one that is to grow no more.
    async fn friend_sees_only(&mut self, texts: &[&str]) -> anyhow::Result<()>;
}

/// Events that no documentation promises.
#[async_trait]
pub trait Oddities: Send {
    /// Sends everything odd that the platform's wire can carry: events of unknown types, events
    /// without what they should have, members of the wrong type, absurd numbers. Returns how many.
    async fn send_oddities(&mut self) -> anyhow::Result<usize>;
}

/// Credentials that stop working.
#[async_trait]
pub trait Credentials: Send {
    /// The platform knows the channel's credentials no more, and lets the channel notice it.
    async fn revoke(&mut self) -> anyhow::Result<()>;

    /// It knows them again.
    async fn restore(&mut self) -> anyhow::Result<()>;
}

/// Another program with the same credentials.
#[async_trait]
pub trait Rivals: Send {
    /// Another channel at the same platform with the same credentials, as a second program would have
    /// it. Both run at the same time.
    async fn rival(&mut self) -> anyhow::Result<Arc<dyn Channel>>;

    /// Whether the platform lets its clients know that there are two, so that a channel can say so: by
    /// [`ChannelError::Conflict`](nanobot_channel::ChannelError::Conflict), or as
    /// [degraded](nanobot_channel::Progress::degraded).
    fn tells(&self) -> Arranged;
}

/// How long the suite's rate limit lasts.
pub(super) const RATE_LIMIT: u32 = 1;

impl SendFault {
    /// All of them.
    pub(super) const ALL: [Self; 7] = [
        Self::RateLimited(RATE_LIMIT),
        Self::Broken,
        Self::CutAfterEffect,
        Self::Refused,
        Self::ChatGone,
        Self::TooLarge,
        Self::Unauthorized,
    ];

    /// Its name in what the suite returns.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RateLimited(_) => "send faults: rate limited",
            Self::Broken => "send faults: broken",
            Self::CutAfterEffect => "send faults: cut after effect",
            Self::Refused => "send faults: refused",
            Self::ChatGone => "send faults: chat gone",
            Self::TooLarge => "send faults: too large",
            Self::Unauthorized => "send faults: unauthorized",
        }
    }

    /// The pause that the platform asks for.
    pub(super) fn pause() -> Duration {
        Duration::from_secs(RATE_LIMIT.into())
    }
}
