//! Requests, responses and events on the control socket.
//!
//! Decision: events describe what a terminal shows, not what the bus carries, so that a client
//! needs no knowledge of turns. Fields that are added later are optional; a gateway refuses an
//! unknown request and never ignores it.

use std::path::PathBuf;

use nanobot_bus::{EntryState, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{
    ChannelName, ChatId, FiredJob, MessageId, OutboundKind, OutboundMessage, Timestamp, TraceId,
    TurnActivity,
};
use serde::{Deserialize, Serialize};

use crate::{ChannelState, SessionEditError, UndoneExchange};

/// Maximum length of a request line, in bytes.
pub const REQUEST_LIMIT: usize = 1 << 20;
/// Maximum length of a response line, in bytes.
pub(crate) const ANSWER_LIMIT: usize = 16 << 20;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Asks for the gateway's description: [`ControlResponse::Pong`].
    Ping,
    /// Lists ledger entries, newest first: [`ControlResponse::Entry`] for each, then
    /// [`ControlResponse::Done`].
    InboxList {
        /// Queue to list.
        queue: Queue,
        /// Filter of its entries.
        filter: LedgerFilter,
        /// Maximum number of entries.
        limit: usize,
    },
    /// Shows one ledger entry: [`ControlResponse::Entry`].
    InboxShow {
        /// Its id.
        entry: String,
    },
    /// Makes an entry pending again: [`ControlResponse::Done`].
    InboxRetry {
        /// Its id.
        entry: String,
    },
    /// Settles an open entry: [`ControlResponse::Done`].
    InboxDiscard {
        /// Its id.
        entry: String,
    },
    /// Forks a conversation: [`ControlResponse::Copied`].
    SessionFork {
        /// Its key.
        session: String,
        /// Last message to copy; all of them if `None`.
        at: Option<u64>,
        /// Key of the copy; the first free one if `None`.
        to: Option<String>,
    },
    /// Rewinds a conversation in which no turn is running: [`ControlResponse::Done`].
    SessionRewind {
        /// Its key.
        session: String,
        /// The last message to keep.
        to: u64,
    },
    /// Names a conversation: [`ControlResponse::Done`].
    SessionRename {
        /// Its key.
        session: String,
        /// Its new name; no name removes the present one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Moves a conversation aside, in which no turn is running: [`ControlResponse::Done`].
    SessionDelete {
        /// Its key.
        session: String,
    },
    /// Restores a deleted conversation: [`ControlResponse::Done`].
    SessionRestore {
        /// Its key.
        session: String,
    },
    /// Undoes the last exchange of a conversation: [`ControlResponse::Undone`].
    SessionUndo {
        /// Its key.
        session: String,
    },
    /// Restores what was undone last in a conversation: [`ControlResponse::Done`].
    SessionRedo {
        /// Its key.
        session: String,
    },
    /// Asks for the states of the channels: [`ControlResponse::Channels`].
    Channels,
    /// Sends a message through a channel and waits for the outcome: [`ControlResponse::Entry`].
    ChannelTest {
        /// The channel.
        channel: ChannelName,
        /// The chat.
        chat: ChatId,
        /// Text of the message.
        text: String,
    },
    /// Requests an orderly shutdown: [`ControlResponse::Done`] before it begins.
    End {
        /// `true` to restart.
        again: bool,
    },
    /// Sends a message to a session. It has no response of its own unless it is refused. From then
    /// on this connection receives the session's events.
    Say {
        /// The session, as `channel:chat`; a name without a colon is a chat of the terminal's own
        /// channel.
        session: String,
        /// A message, or a command.
        text: String,
        /// Idempotency key chosen by the client: a message sent twice with the same id is processed
        /// once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<MessageId>,
        /// Attached files. The client has copied them into the gateway's folder for the files of
        /// terminals; any other path is refused.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<PathBuf>,
    },
    /// Lists the unfinished subagents of a session: [`ControlResponse::Subagents`].
    Subagents {
        /// The session, named as in [`ControlRequest::Say`].
        session: String,
    },
    /// Subscribes this connection to the events of a session without sending anything:
    /// [`ControlResponse::Done`], then the events. The session need not exist. It replaces an
    /// earlier session of this connection.
    Watch {
        /// The session, named as in [`ControlRequest::Say`], of at most 1,024 bytes.
        session: String,
        /// `true` to receive the messages of other terminals as well ([`TerminalEvent::Said`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        messages: bool,
    },
}

/// Response of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ControlResponse {
    /// The gateway's description.
    Pong(GatewayInfo),
    /// The states of the channels.
    Channels {
        /// All channels, sorted by name.
        channels: Vec<ChannelState>,
    },
    /// The unfinished subagents of a session.
    Subagents {
        /// The subagents, in the order of arrival.
        subagents: Vec<SubagentName>,
    },
    /// A ledger entry.
    Entry(Box<LedgerEntry>),
    /// The request is done, or the list is complete.
    Done,
    /// There is no such ledger entry.
    Unknown {
        /// The requested id.
        id: String,
    },
    /// The entry's state does not allow the request.
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
    /// An exchange was undone.
    Undone(UndoneExchange),
    /// A conversation was not changed; the reason is machine-readable.
    NotCut(SessionEditError),
    /// The request was refused.
    Refused {
        /// Reason for the user.
        why: String,
    },
    /// An event of the session that this connection takes part in.
    Event {
        /// The turn that it belongs to, if the gateway states it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TraceId>,
        /// Position among the messages of its turn; 0 is the turn's own reply.
        position: u32,
        /// Event to show.
        event: TerminalEvent,
    },
    /// A turn of that session has finished. Its own reply may still follow. There is none if the
    /// turn replied with a message of its own (an event at another position than 0).
    TurnFinished,
}

/// An unfinished subagent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentName {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: String,
}

/// A gateway's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayInfo {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Display name of the model.
    pub model: String,
    /// The workspace it works in.
    pub workspace: PathBuf,
    /// Start time, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

/// An event to show at a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum TerminalEvent {
    /// A piece of a streamed reply.
    Delta(String),
    /// A run of pieces has ended.
    StreamEnd {
        /// `true` if tools run now and another run follows.
        resuming: bool,
    },
    /// A thought or a notice during the turn.
    Progress(String),
    /// The tools that are running.
    ToolHint(String),
    /// A step of the turn.
    Activity(TurnActivity),
    /// A notice of the program itself, such as a restart; always shown.
    News(String),
    /// A question whether a call may run; the turn waits for the answer.
    Question {
        /// The text, in Markdown.
        text: String,
        /// The labels of its buttons, such as `Yes K7QX`. Each answers this question and no other.
        answers: Vec<String>,
    },
    /// The turn has ended, with or without a reply. Nothing to show.
    TurnEnd {
        /// The turn.
        turn: TraceId,
        /// Number of the session's subagents that have not finished.
        #[serde(default)]
        unfinished: u32,
    },
    /// A complete reply.
    Reply {
        /// The text, in Markdown.
        text: String,
        /// `true` if it has been streamed before.
        streamed: bool,
        /// `true` for a reply, `false` for the report of a failure.
        ok: bool,
        /// The run of a job that it is the result of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<FiredJob>,
    },
    /// A message from another terminal in the same session. Only a terminal that asks for them
    /// receives them ([`ControlRequest::Watch`]).
    Said {
        /// The beginning of the text.
        text: String,
        /// Number of attached files.
        #[serde(default)]
        files: usize,
    },
}

/// Maximum length of [`TerminalEvent::Said::text`], in characters.
pub(crate) const MAX_SAID: usize = 1_000;

impl TerminalEvent {
    /// Returns the event that shows a message to the other terminals of its session. A text that is
    /// too long ends with `…`.
    #[must_use]
    pub fn said(text: &str, files: usize) -> Self {
        let text = match text.char_indices().nth(MAX_SAID) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        };
        Self::Said { text, files }
    }
}

impl From<OutboundMessage> for TerminalEvent {
    fn from(message: OutboundMessage) -> Self {
        let text = message.content;
        let job = FiredJob::of(&message.metadata);
        let labels = message.buttons.into_iter().flatten();
        match message.kind {
            OutboundKind::Delta { .. } => Self::Delta(text),
            OutboundKind::StreamEnd { resuming, .. } => Self::StreamEnd { resuming },
            // Printed text cannot be withdrawn.
            OutboundKind::Withdrawn { .. } => Self::StreamEnd { resuming: true },
            OutboundKind::Progress => Self::Progress(text),
            OutboundKind::ToolHint => Self::ToolHint(text),
            OutboundKind::Activity { step } => Self::Activity(step),
            OutboundKind::TurnEnd { unfinished } => Self::TurnEnd {
                turn: message.key.turn,
                unfinished,
            },
            OutboundKind::Final => Self::Reply {
                text,
                streamed: message.completes.is_some(),
                ok: true,
                job,
            },
            OutboundKind::Question => Self::Question {
                text,
                answers: labels.map(|button| button.label).collect(),
            },
            OutboundKind::Notice => Self::Reply {
                text,
                streamed: false,
                ok: false,
                job,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_forms<const N: usize>(table: [(&str, ControlRequest); N]) {
        for (line, request) in table {
            assert_eq!(
                serde_json::from_str::<ControlRequest>(line).unwrap(),
                request
            );
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
        }
    }

    #[test]
    fn requests_have_a_stable_form() {
        let table = [
            (r#"{"request":"ping"}"#, ControlRequest::Ping),
            (r#"{"request":"channels"}"#, ControlRequest::Channels),
            (
                r#"{"request":"inbox_list","queue":"outbound","filter":"failed","limit":5}"#,
                ControlRequest::InboxList {
                    queue: Queue::Outbound,
                    filter: LedgerFilter::Failed,
                    limit: 5,
                },
            ),
            (
                r#"{"request":"inbox_retry","entry":"7"}"#,
                ControlRequest::InboxRetry {
                    entry: "7".to_owned(),
                },
            ),
            (
                r#"{"request":"say","session":"cli:direct","text":"hi"}"#,
                ControlRequest::Say {
                    session: "cli:direct".to_owned(),
                    text: "hi".to_owned(),
                    id: None,
                    media: Vec::new(),
                },
            ),
            (
                r#"{"request":"say","session":"notes","text":"hi","media":["/m/cli/a-0f.png"]}"#,
                ControlRequest::Say {
                    session: "notes".to_owned(),
                    text: "hi".to_owned(),
                    id: None,
                    media: vec!["/m/cli/a-0f.png".into()],
                },
            ),
            (
                r#"{"request":"subagents","session":"cli:a"}"#,
                ControlRequest::Subagents {
                    session: "cli:a".to_owned(),
                },
            ),
            (
                r#"{"request":"watch","session":"notes"}"#,
                ControlRequest::Watch {
                    session: "notes".to_owned(),
                    messages: false,
                },
            ),
            (
                r#"{"request":"watch","session":"notes","messages":true}"#,
                ControlRequest::Watch {
                    session: "notes".to_owned(),
                    messages: true,
                },
            ),
        ];
        assert_forms(table);
    }

    #[test]
    fn requests_about_sessions_have_a_stable_form() {
        let table = [
            (
                r#"{"request":"session_rename","session":"cli:a","name":"Trip"}"#,
                ControlRequest::SessionRename {
                    session: "cli:a".to_owned(),
                    name: Some("Trip".to_owned()),
                },
            ),
            (
                r#"{"request":"session_rename","session":"cli:a"}"#,
                ControlRequest::SessionRename {
                    session: "cli:a".to_owned(),
                    name: None,
                },
            ),
            (
                r#"{"request":"session_delete","session":"cli:a"}"#,
                ControlRequest::SessionDelete {
                    session: "cli:a".to_owned(),
                },
            ),
            (
                r#"{"request":"session_restore","session":"cli:a"}"#,
                ControlRequest::SessionRestore {
                    session: "cli:a".to_owned(),
                },
            ),
            (
                r#"{"request":"session_undo","session":"cli:a"}"#,
                ControlRequest::SessionUndo {
                    session: "cli:a".to_owned(),
                },
            ),
            (
                r#"{"request":"session_redo","session":"cli:a"}"#,
                ControlRequest::SessionRedo {
                    session: "cli:a".to_owned(),
                },
            ),
        ];
        assert_forms(table);
    }

    #[test]
    fn answers_have_a_stable_form() {
        let undone = ControlResponse::Undone(UndoneExchange {
            asked: "hi".to_owned(),
            effects: vec!["exec(\"ls\")".to_owned()],
        });
        let line = r#"{"answer":"undone","asked":"hi","effects":["exec(\"ls\")"]}"#;
        assert_eq!(serde_json::to_string(&undone).unwrap(), line);
        let refused = ControlResponse::NotCut(SessionEditError::Unknown {
            session: "cli:a".to_owned(),
        });
        let line = r#"{"answer":"not_cut","reason":"unknown","session":"cli:a"}"#;
        assert_eq!(serde_json::to_string(&refused).unwrap(), line);
        let event = ControlResponse::Event {
            turn: None,
            position: 0,
            event: TerminalEvent::StreamEnd { resuming: true },
        };
        let line = r#"{"answer":"event","position":0,"event":{"event":"stream_end","data":{"resuming":true}}}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        assert_eq!(
            serde_json::from_str::<ControlResponse>(line).unwrap(),
            event
        );
        let event = ControlResponse::Event {
            turn: Some("cli/direct/7".into()),
            position: 2,
            event: TerminalEvent::Delta("a".to_owned()),
        };
        let line = r#"{"answer":"event","turn":"cli/direct/7","position":2,"event":{"event":"delta","data":"a"}}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }

    #[test]
    fn reply_of_an_older_gateway_is_of_no_job() {
        let line = r#"{"event":"reply","data":{"text":"a","streamed":false,"ok":true}}"#;
        let mut reply = TerminalEvent::Reply {
            text: "a".to_owned(),
            streamed: false,
            ok: true,
            job: None,
        };
        assert_eq!(serde_json::from_str::<TerminalEvent>(line).unwrap(), reply);
        assert_eq!(serde_json::to_string(&reply).unwrap(), line);
        if let TerminalEvent::Reply { job, .. } = &mut reply {
            *job = Some(FiredJob {
                name: "喝水".to_owned(),
                at: "2026-11-25T08:00:00+01:00".parse().unwrap(),
            });
        }
        let line = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<TerminalEvent>(&line).unwrap(), reply);
    }

    #[test]
    fn long_message_of_another_terminal_is_shortened() {
        for (length, expected) in [
            (MAX_SAID, "好".repeat(MAX_SAID)),
            (MAX_SAID + 1, "好".repeat(MAX_SAID) + "…"),
        ] {
            let said = TerminalEvent::said(&"好".repeat(length), 2);
            let expected = TerminalEvent::Said {
                text: expected,
                files: 2,
            };
            assert_eq!(said, expected, "{length}");
        }
    }
}
