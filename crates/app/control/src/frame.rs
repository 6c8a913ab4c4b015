//! What the lines say.
//!
//! Decision: events are what a terminal shows, not what the bus carries, so that a client needs to
//! know nothing of turns. A field that is added later is optional; a request that a gateway does
//! not know is refused, never ignored.

use std::path::PathBuf;

use nanobot_bus::{EntryState, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{
    ChannelName, ChatId, MessageId, OutboundKind, OutboundMessage, Timestamp, TraceId,
};
use serde::{Deserialize, Serialize};

use crate::{ChannelState, CutError};

/// The longest line of a client, in bytes.
pub(crate) const REQUEST_LIMIT: usize = 1 << 20;
/// The longest line of a gateway, in bytes.
pub(crate) const ANSWER_LIMIT: usize = 16 << 20;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Who is there? Answered by [`Answer::Pong`].
    Ping,
    /// Ledger entries, newest first: [`Answer::Entry`] each, then [`Answer::Done`].
    InboxList {
        /// Which queue.
        queue: Queue,
        /// Which of its entries.
        filter: LedgerFilter,
        /// At most so many.
        limit: usize,
    },
    /// One ledger entry: [`Answer::Entry`].
    InboxShow {
        /// Its id.
        entry: String,
    },
    /// Makes an entry pending again: [`Answer::Done`].
    InboxRetry {
        /// Its id.
        entry: String,
    },
    /// Settles an open entry: [`Answer::Done`].
    InboxDiscard {
        /// Its id.
        entry: String,
    },
    /// Copies a conversation: [`Answer::Copied`].
    SessionFork {
        /// Its key.
        session: String,
        /// Up to this message, otherwise everything.
        at: Option<u64>,
        /// The key of the copy, otherwise the first free one.
        to: Option<String>,
    },
    /// Goes back in a conversation that no turn is at work in: [`Answer::Done`].
    SessionRewind {
        /// Its key.
        session: String,
        /// The last message that stands.
        to: u64,
    },
    /// How are the channels? Answered by [`Answer::Channels`].
    Channels,
    /// Sends a message by a channel, and waits for what comes of it: [`Answer::Entry`].
    ChannelTest {
        /// The channel.
        channel: ChannelName,
        /// The chat.
        chat: ChatId,
        /// What to say there.
        text: String,
    },
    /// Ends the gateway in order: [`Answer::Done`] before it does.
    End {
        /// It begins again.
        again: bool,
    },
    /// Says something in a session. No answer of its own unless it is refused; from now on this
    /// connection gets the session's events.
    Say {
        /// The session, as `channel:chat`; a name without a colon is a chat of the terminal's own
        /// channel.
        session: String,
        /// A message, or a command.
        text: String,
        /// The client's name for it; said twice under one name it counts once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<MessageId>,
    },
}

/// What a gateway answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Who is there.
    Pong(About),
    /// How the channels are.
    Channels {
        /// All of them, in the order of their names.
        channels: Vec<ChannelState>,
    },
    /// A ledger entry.
    Entry(Box<LedgerEntry>),
    /// It is done, or the list is at its end.
    Done,
    /// There is no such ledger entry.
    Unknown {
        /// The id asked for.
        id: String,
    },
    /// The entry is in a state that does not allow this.
    Conflict {
        /// The entry.
        id: String,
        /// Its state.
        state: EntryState,
    },
    /// A conversation was copied.
    Copied {
        /// The key of the copy.
        session: String,
    },
    /// A conversation was not cut: why, for a program to tell apart.
    NotCut(CutError),
    /// It was not done.
    Refused {
        /// Why.
        why: String,
    },
    /// Something to show in the session that this connection talks in.
    Event {
        /// Its place among the messages of its turn; 0 is the turn's own reply.
        position: u32,
        /// What to show.
        event: TerminalEvent,
    },
    /// A turn of that session ended. Its own reply may still be on the way; there is none when the
    /// turn answered by a message of its own (an event at another position than 0).
    TurnFinished,
}

/// A gateway, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Who answers, for people.
    pub model: String,
    /// The workspace it works in.
    pub workspace: PathBuf,
    /// When it began, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

/// Something to show at a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum TerminalEvent {
    /// A piece of a reply as it is written.
    Delta(String),
    /// A run of pieces ended.
    StreamEnd {
        /// Tools run now and another run follows.
        resuming: bool,
    },
    /// A thought or a notice on the way.
    Progress(String),
    /// Which tools run.
    ToolHint(String),
    /// News of the program itself, such as a restart; shown in any case.
    News(String),
    /// The turn of this name is over, whether or not it said anything. Nothing to show.
    TurnEnd {
        /// The turn.
        turn: TraceId,
        /// How many subagents of the session are not done with.
        #[serde(default)]
        unfinished: u32,
    },
    /// A whole reply.
    Reply {
        /// Its Markdown.
        text: String,
        /// Its pieces were shown before.
        streamed: bool,
        /// It is what was asked for, not the report of a failure.
        ok: bool,
    },
}

impl From<OutboundMessage> for TerminalEvent {
    fn from(message: OutboundMessage) -> Self {
        let text = message.content;
        match message.kind {
            OutboundKind::Delta { .. } => Self::Delta(text),
            OutboundKind::StreamEnd { resuming, .. } => Self::StreamEnd { resuming },
            // What was printed stays printed.
            OutboundKind::Withdrawn { .. } => Self::StreamEnd { resuming: true },
            OutboundKind::Progress => Self::Progress(text),
            OutboundKind::ToolHint => Self::ToolHint(text),
            OutboundKind::TurnEnd { unfinished } => Self::TurnEnd {
                turn: message.key.turn,
                unfinished,
            },
            OutboundKind::Final => Self::Reply {
                text,
                streamed: message.completes.is_some(),
                ok: true,
            },
            OutboundKind::Notice => Self::Reply {
                text,
                streamed: false,
                ok: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_third_parties_write() {
        let table = [
            (r#"{"request":"ping"}"#, Request::Ping),
            (r#"{"request":"channels"}"#, Request::Channels),
            (
                r#"{"request":"inbox_list","queue":"outbound","filter":"failed","limit":5}"#,
                Request::InboxList {
                    queue: Queue::Outbound,
                    filter: LedgerFilter::Failed,
                    limit: 5,
                },
            ),
            (
                r#"{"request":"inbox_retry","entry":"7"}"#,
                Request::InboxRetry {
                    entry: "7".to_owned(),
                },
            ),
            (
                r#"{"request":"say","session":"cli:direct","text":"hi"}"#,
                Request::Say {
                    session: "cli:direct".to_owned(),
                    text: "hi".to_owned(),
                    id: None,
                },
            ),
        ];
        for (line, request) in table {
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
        }
        let event = Answer::Event {
            position: 0,
            event: TerminalEvent::StreamEnd { resuming: true },
        };
        let line = r#"{"answer":"event","position":0,"event":{"event":"stream_end","data":{"resuming":true}}}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        assert_eq!(serde_json::from_str::<Answer>(line).unwrap(), event);
    }
}
