//! The trait of all fakes, and its types.

use async_trait::async_trait;
use serde_json::Value;

use crate::error::FakeError;

/// Pause that platforms ask for, in seconds.
pub(crate) const PAUSE: u32 = 1;

/// Beginning of the answer in a mail: [`ChatFake::shown`] leaves out all other lines of a mail that
/// has a line which begins with it.
pub const ANSWER_PREFIX: &str = "done";

/// A chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the platform's section.
    pub platform: &'static str,
    /// The platform's own name of the chat.
    pub chat: &'static str,
    /// `true` if all messages of the chat belong to one conversation.
    pub is_one_conversation: bool,
    /// `true` if only messages that mention the assistant are for it.
    pub needs_mention: bool,
}

impl Place {
    /// Returns a chat in which every message is for the assistant.
    pub(crate) const fn of(platform: &'static str, chat: &'static str) -> Self {
        Self {
            platform,
            chat,
            is_one_conversation: true,
            needs_mention: false,
        }
    }

    /// Returns a chat in which messages mention the assistant.
    pub(crate) const fn group(platform: &'static str, chat: &'static str) -> Self {
        Self {
            needs_mention: true,
            ..Self::of(platform, chat)
        }
    }

    /// Returns a chat in which every mention begins a thread.
    pub(crate) const fn group_with_threads(platform: &'static str, chat: &'static str) -> Self {
        Self {
            is_one_conversation: false,
            ..Self::group(platform, chat)
        }
    }
}

/// A thread in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The name of the platform's section.
    pub platform: &'static str,
    /// The platform's id of the thread.
    pub id: String,
    /// The Python program's key of its session, if threads have sessions there.
    pub session: Option<String>,
}

/// A failure of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The platform cannot be reached.
    Down,
    /// Connections stay open without a sign of life.
    Silent,
    /// The next sends are asked to wait, or fail for a moment.
    Busy,
    /// The next sends fail without an effect.
    Broken,
    /// The connection of the next send breaks after its effect.
    CutsSends,
    /// Messages arrive several times, and out of order where the platform may do that.
    Repeats,
    /// The platform asks for a new connection, and ends the old one later.
    Reconnects,
    /// Connections are cut.
    Cuts,
    /// The credentials are refused until the fault ends.
    Revoked,
}

/// A platform: its fake, the people on it, and how a test talks to them.
///
/// A token names a message. It consists of a letter, a minus and four digits, and is used once.
#[async_trait]
pub trait ChatFake: Send + Sync + std::fmt::Debug {
    /// Returns the name of the section of the configuration.
    fn name(&self) -> &'static str;

    /// Returns the section of the configuration.
    fn section(&self) -> Value;

    /// Returns the chats, all of the same platform.
    fn places(&self) -> Vec<Place>;

    /// Returns the failures that the fake can have.
    fn faults(&self) -> Vec<Fault>;

    /// Returns the chat that gets reminders, and its address for jobs.
    fn reminded(&self) -> Option<(Place, String)> {
        None
    }

    /// Returns the text that the gateway logs once it receives, if the platform delivers nothing
    /// from before that.
    fn log_when_ready(&self) -> Option<&'static str> {
        None
    }

    /// Called after the gateway was killed and started again.
    fn restarted(&mut self) {}

    /// Begins a failure.
    ///
    /// # Errors
    /// Returns [`FakeError::NoSuchFault`] for a fault that [`faults`](Self::faults) does not list,
    /// and the error of the fake.
    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError>;

    /// Ends a failure.
    ///
    /// # Errors
    /// Returns the error of the fake.
    async fn end(&mut self, fault: Fault) -> Result<(), FakeError>;

    /// Sends a message that needs an answer and contains `token`. In a chat that needs mentions, a
    /// message without one is sent first, with the text `noise`. Returns the tokens that need an
    /// answer, in the order in which their messages are delivered: during [`Fault::Repeats`] an
    /// older message may be delivered late.
    fn say(&mut self, place: Place, token: &str, noise: Option<&str>) -> Vec<String>;

    /// Begins a thread in a group, without a word to the assistant. Returns `None` if the platform
    /// has no threads.
    fn begin_thread(&mut self) -> Option<Thread> {
        None
    }

    /// Sends a message that needs an answer and contains `token` in a thread.
    fn say_in(&mut self, _thread: &Thread, _token: &str) {}

    /// Returns everything that was shown in a thread, in order.
    fn shown_in(&self, _thread: &Thread) -> Vec<String> {
        Vec::new()
    }

    /// Adds a crowd of `count` people with a direct chat each. These people are not among those that
    /// the section allows. On some platforms they exist without being added.
    fn add_crowd(&mut self, _count: u32) {}

    /// Sends a direct message from person `number` of the crowd, beginning at 0.
    fn crowd_says(&self, number: u32, token: &str);

    /// Returns everything that was shown in a chat, in order.
    fn shown(&self, place: Place) -> Vec<String>;

    /// Returns the names of the calls that the gateway has made, in order; none if the gateway is
    /// the server.
    fn calls(&self) -> Vec<String>;

    /// Returns the protocol violations on all connections.
    fn violations(&self) -> Vec<String>;
}

/// Returns the text of a message that needs an answer.
pub(crate) fn question(token: &str) -> String {
    format!("please look into {token}")
}
