//! A platform of the day, and the contract of its module in `platforms`.

use async_trait::async_trait;
use serde_json::Value;

use super::judge::Judge;

/// Pause that platforms ask for, in seconds.
pub(super) const PAUSE: u32 = 1;

/// A chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The name of the platform's section.
    pub(super) platform: &'static str,
    /// The platform's own name of the chat.
    pub(super) chat: &'static str,
    /// `true` if all messages of the chat belong to one conversation.
    pub(super) is_one_conversation: bool,
}

impl Place {
    pub(super) const fn of(platform: &'static str, chat: &'static str) -> Self {
        Self {
            platform,
            chat,
            is_one_conversation: true,
        }
    }

    /// Returns a chat in which every mention begins a thread.
    pub(super) const fn with_threads(platform: &'static str, chat: &'static str) -> Self {
        Self {
            platform,
            chat,
            is_one_conversation: false,
        }
    }
}

/// A failure of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
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
    /// The credentials are refused for a while; afterwards the gateway is killed and started again.
    Revoked,
}

/// A platform: its fake, the people on it, and how a test talks to them.
#[async_trait]
pub(super) trait DayPlatform {
    /// Returns the name of the section of the configuration.
    fn name(&self) -> &'static str;

    /// Returns the section of the configuration.
    fn section(&self) -> Value;

    /// Returns the chats, all of the same platform.
    fn places(&self) -> Vec<Place>;

    /// Returns the failures that the day has, each once.
    fn faults(&self) -> Vec<Fault>;

    /// Returns the chat that gets reminders, and its address for jobs.
    fn reminded(&self) -> Option<(Place, String)> {
        None
    }

    /// Returns what the gateway logs once it receives, if the platform delivers nothing from before
    /// that.
    fn log_when_ready(&self) -> Option<&'static str> {
        None
    }

    /// Called after the gateway was killed and started again.
    fn restarted(&mut self) {}

    /// Begins a failure.
    async fn begin(&mut self, fault: Fault);

    /// Ends a failure.
    async fn end(&mut self, fault: Fault);

    /// Sends a message that needs an answer, and reports it to the judge.
    fn say(&mut self, place: Place, token: String, judge: &mut Judge);

    /// Returns everything that was shown in a chat, in order.
    fn shown(&self, place: Place) -> Vec<String>;

    /// Returns the protocol violations on all connections.
    fn violations(&self) -> Vec<String>;
}

/// Returns the text of a message that needs an answer.
pub(super) fn question(token: &str) -> String {
    format!("please look into {token}")
}
