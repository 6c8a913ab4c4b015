//! The client's side of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{BusError, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{ChannelName, ChatId, OutboundKey, OutboundSlot, TraceId};
use tokio::io::{ReadHalf, WriteHalf};

use crate::frame::{ANSWER_LIMIT, REQUEST_LIMIT};
use crate::lines::{self, LineReader};
use crate::socket::{Stream, connect};
use crate::terminals::terminal_message;
use crate::{
    ChannelState, ControlError, ControlRequest, ControlResponse, GatewayInfo, SessionEditError,
    SessionEditor, SubagentName, TerminalEvent, UndoneExchange,
};

/// Timeout for the handshake. The caller decides what a timeout means: a gateway that owns the
/// home's lock is running even if it does not answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Client of a running gateway. Each request opens a connection of its own.
#[derive(Clone, Debug)]
pub struct ControlClient {
    path: PathBuf,
    about: GatewayInfo,
}

/// A connection.
#[derive(Debug)]
struct ControlConnection {
    answers: LineReader<ReadHalf<Stream>>,
    writer: WriteHalf<Stream>,
}

impl ControlConnection {
    async fn open(path: &Path) -> Result<Self, ControlError> {
        let (reader, writer) = tokio::io::split(connect(path).await?);
        Ok(Self {
            answers: LineReader::new(reader, ANSWER_LIMIT),
            writer,
        })
    }

    async fn send_request(&mut self, request: &ControlRequest) -> Result<(), ControlError> {
        let line = lines::line(request).map_err(ControlError::Broken)?;
        if line.len() > REQUEST_LIMIT {
            return Err(ControlError::TooLong {
                limit: REQUEST_LIMIT,
            });
        }
        lines::write_line(&mut self.writer, &line)
            .await
            .map_err(ControlError::Broken)
    }

    async fn ping(&mut self) -> Result<GatewayInfo, ControlError> {
        self.send_request(&ControlRequest::Ping).await?;
        match self.next().await? {
            ControlResponse::Pong(about) => Ok(about),
            other => Err(unexpected(&other)),
        }
    }

    async fn next(&mut self) -> Result<ControlResponse, ControlError> {
        let answer = self.answers.next().await.map_err(ControlError::Broken)?;
        answer.ok_or_else(|| ControlError::Broken(io::ErrorKind::UnexpectedEof.into()))
    }
}

impl ControlClient {
    /// Connects to the gateway that listens on `path`.
    ///
    /// # Errors
    /// Returns [`ControlError::Unreachable`] if no gateway listens, [`ControlError::Broken`] if it
    /// does not answer within 5 seconds, and [`ControlError::Unsupported`] on systems without Unix
    /// sockets.
    pub async fn reach(path: &Path) -> Result<Self, ControlError> {
        let handshake = async {
            let mut connection = ControlConnection::open(path).await?;
            Ok(Self {
                path: path.to_owned(),
                about: connection.ping().await?,
            })
        };
        let timed_out = |_elapsed| ControlError::Broken(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake)
            .await
            .map_err(timed_out)?
    }

    /// Returns the gateway's description of itself.
    #[must_use]
    pub fn about(&self) -> &GatewayInfo {
        &self.about
    }

    /// Joins one of the gateway's sessions.
    ///
    /// # Errors
    /// Returns [`ControlError::Unreachable`] if no gateway listens any more.
    pub async fn converse(
        &self,
        session: impl Into<String>,
    ) -> Result<ControlConversation, ControlError> {
        Ok(ControlConversation {
            connection: ControlConnection::open(&self.path).await?,
            session: session.into(),
        })
    }

    /// Joins one of the gateway's sessions and receives its events from the beginning, with the
    /// messages of other terminals. A gateway that is too old for this sends them after the first
    /// message.
    ///
    /// # Errors
    /// Returns [`ControlError::Unreachable`] if no gateway listens any more,
    /// [`ControlError::Broken`] if it does not answer within 5 seconds, and
    /// [`ControlError::Refused`] if it refuses the name of the session.
    pub async fn watch(
        &self,
        session: impl Into<String>,
    ) -> Result<ControlConversation, ControlError> {
        let session = session.into();
        let watching = async {
            let mut conversation = self.converse(session.clone()).await?;
            let request = ControlRequest::Watch {
                session: session.clone(),
                messages: true,
            };
            let connection = &mut conversation.connection;
            connection.send_request(&request).await?;
            match connection.next().await? {
                ControlResponse::Done => Ok(conversation),
                // An unknown request ends the connection, a refused one does not.
                ControlResponse::Refused { why } => match connection.ping().await {
                    Ok(_) => Err(ControlError::Refused { why }),
                    Err(_) => self.converse(session.clone()).await,
                },
                other => Err(unexpected(&other)),
            }
        };
        let timed_out = |_elapsed| ControlError::Broken(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(HANDSHAKE_TIMEOUT, watching)
            .await
            .map_err(timed_out)?
    }

    /// Returns the states of the gateway's channels, sorted by name.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`], also if the gateway is too old to support the request.
    pub async fn channels(&self) -> Result<Vec<ChannelState>, ControlError> {
        let mut connection = ControlConnection::open(&self.path).await?;
        connection.send_request(&ControlRequest::Channels).await?;
        match connection.next().await? {
            ControlResponse::Channels { channels } => Ok(channels),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the unfinished subagents of a session, in the order of arrival.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`], also if the gateway is too old to support the request.
    pub async fn subagents(&self, session: &str) -> Result<Vec<SubagentName>, ControlError> {
        let mut connection = ControlConnection::open(&self.path).await?;
        let session = session.to_owned();
        connection
            .send_request(&ControlRequest::Subagents { session })
            .await?;
        match connection.next().await? {
            ControlResponse::Subagents { subagents } => Ok(subagents),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests an orderly shutdown, or a restart if `again` is set. This returns before the
    /// gateway ends, which it does after the grace period of its turns.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`], also if the gateway is too old to support the request.
    pub async fn end(&self, again: bool) -> Result<(), ControlError> {
        let mut connection = ControlConnection::open(&self.path).await?;
        connection
            .send_request(&ControlRequest::End { again })
            .await?;
        match connection.next().await? {
            ControlResponse::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a message through one of the gateway's channels, and returns its ledger entry once it
    /// is settled, or after 30 seconds.
    ///
    /// # Errors
    /// Returns [`BusError::Unknown`] for a channel that the gateway does not run, and
    /// [`BusError::Store`] if the request fails.
    pub async fn test_channel(
        &self,
        channel: &ChannelName,
        chat: &ChatId,
        text: String,
    ) -> Result<LedgerEntry, BusError> {
        let request = ControlRequest::ChannelTest {
            channel: channel.clone(),
            chat: chat.clone(),
            text,
        };
        let entries = self.request("send a test message", &request).await?;
        entries.into_iter().next().ok_or_else(|| BusError::Unknown {
            id: channel.to_string(),
        })
    }

    async fn request(
        &self,
        action: &'static str,
        request: &ControlRequest,
    ) -> Result<Vec<LedgerEntry>, BusError> {
        let broken = |error: ControlError| BusError::Store {
            action,
            source: Box::new(error),
        };
        let mut connection = ControlConnection::open(&self.path).await.map_err(broken)?;
        connection.send_request(request).await.map_err(broken)?;
        let mut entries = Vec::new();
        loop {
            match connection.next().await.map_err(broken)? {
                ControlResponse::Entry(entry) => {
                    entries.push(*entry);
                    if let ControlRequest::InboxShow { .. } | ControlRequest::ChannelTest { .. } =
                        request
                    {
                        return Ok(entries);
                    }
                }
                ControlResponse::Done => return Ok(entries),
                ControlResponse::Unknown { id } => return Err(BusError::Unknown { id }),
                ControlResponse::Conflict { id, state } => {
                    return Err(BusError::Conflict { id, state });
                }
                ControlResponse::Refused { why } => {
                    return Err(BusError::Store {
                        action,
                        source: why.into(),
                    });
                }
                other => return Err(broken(unexpected(&other))),
            }
        }
    }
}

#[async_trait]
impl Ledger for ControlClient {
    async fn list(
        &self,
        queue: Queue,
        filter: LedgerFilter,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, BusError> {
        self.request(
            "list the ledger",
            &ControlRequest::InboxList {
                queue,
                filter,
                limit,
            },
        )
        .await
    }

    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError> {
        let entries = self
            .request(
                "show a ledger entry",
                &ControlRequest::InboxShow {
                    entry: id.to_owned(),
                },
            )
            .await?;
        entries
            .into_iter()
            .next()
            .ok_or_else(|| BusError::Unknown { id: id.to_owned() })
    }

    async fn retry(&self, id: &str) -> Result<(), BusError> {
        self.request(
            "retry a ledger entry",
            &ControlRequest::InboxRetry {
                entry: id.to_owned(),
            },
        )
        .await
        .map(drop)
    }

    async fn discard(&self, id: &str) -> Result<(), BusError> {
        self.request(
            "discard a ledger entry",
            &ControlRequest::InboxDiscard {
                entry: id.to_owned(),
            },
        )
        .await
        .map(drop)
    }
}

impl ControlClient {
    async fn edit_session(
        &self,
        request: &ControlRequest,
    ) -> Result<ControlResponse, SessionEditError> {
        let mut connection = ControlConnection::open(&self.path).await?;
        connection.send_request(request).await?;
        match connection.next().await? {
            ControlResponse::NotCut(error) => Err(error),
            ControlResponse::Refused { why } => Err(SessionEditError::Failed {
                why,
                needs_room: false,
            }),
            answer => Ok(answer),
        }
    }

    /// Requests a change that is answered with [`ControlResponse::Done`].
    async fn edit(&self, request: &ControlRequest) -> Result<(), SessionEditError> {
        match self.edit_session(request).await? {
            ControlResponse::Done => Ok(()),
            other => Err(unexpected(&other).into()),
        }
    }
}

#[async_trait]
impl SessionEditor for ControlClient {
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, SessionEditError> {
        let request = ControlRequest::SessionFork {
            session: session.to_owned(),
            at,
            to: to.map(str::to_owned),
        };
        match self.edit_session(&request).await? {
            ControlResponse::Copied { session } => Ok(session),
            other => Err(unexpected(&other).into()),
        }
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), SessionEditError> {
        let session = session.to_owned();
        self.edit(&ControlRequest::SessionRewind { session, to })
            .await
    }

    async fn rename(&self, session: &str, name: Option<&str>) -> Result<(), SessionEditError> {
        let (session, name) = (session.to_owned(), name.map(str::to_owned));
        self.edit(&ControlRequest::SessionRename { session, name })
            .await
    }

    async fn delete(&self, session: &str) -> Result<(), SessionEditError> {
        let session = session.to_owned();
        self.edit(&ControlRequest::SessionDelete { session }).await
    }

    async fn restore(&self, session: &str) -> Result<(), SessionEditError> {
        let session = session.to_owned();
        self.edit(&ControlRequest::SessionRestore { session }).await
    }

    async fn undo(&self, session: &str) -> Result<UndoneExchange, SessionEditError> {
        let session = session.to_owned();
        match self
            .edit_session(&ControlRequest::SessionUndo { session })
            .await?
        {
            ControlResponse::Undone(undone) => Ok(undone),
            other => Err(unexpected(&other).into()),
        }
    }

    async fn redo(&self, session: &str) -> Result<(), SessionEditError> {
        let session = session.to_owned();
        self.edit(&ControlRequest::SessionRedo { session }).await
    }
}

/// An update of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationEvent {
    /// An event to show.
    Event {
        /// The event.
        event: TerminalEvent,
        /// `true` for the turn's own reply, and for the refusal of a message.
        is_answer: bool,
        /// Idempotency key of what it shows; `None` for the refusal of a message, and if the
        /// gateway does not state it.
        key: Option<OutboundKey>,
    },
    /// A turn has finished.
    TurnFinished,
}

/// A message that can be sent more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedMessage {
    turn: TraceId,
    request: ControlRequest,
}

impl PreparedMessage {
    /// Returns the id of the turn that processes the message.
    #[must_use]
    pub fn turn(&self) -> &TraceId {
        &self.turn
    }
}

/// A terminal's conversation in a session of a gateway.
#[derive(Debug)]
pub struct ControlConversation {
    connection: ControlConnection,
    session: String,
}

impl ControlConversation {
    /// Sends a message or a command, also while a turn is running. Returns the id of the turn that
    /// will process it. A refusal of the message is returned by [`ControlConversation::next`].
    ///
    /// # Errors
    /// Returns the errors of [`send_with_files`](Self::send_with_files).
    pub async fn send(&mut self, text: &str) -> Result<TraceId, ControlError> {
        self.send_with_files(text, Vec::new()).await
    }

    /// Like [`send`](Self::send), with attached files. They are in the gateway's folder for the
    /// files of terminals.
    ///
    /// # Errors
    /// Returns [`ControlError::TooLong`] if the message is longer than a request may be, and
    /// [`ControlError::Broken`] if the gateway is gone.
    pub async fn send_with_files(
        &mut self,
        text: &str,
        media: Vec<PathBuf>,
    ) -> Result<TraceId, ControlError> {
        let message = self.prepare(text, media);
        self.send_prepared(&message).await?;
        Ok(message.turn)
    }

    /// Creates a message to this session with an id of its own.
    #[must_use]
    pub fn prepare(&self, text: &str, media: Vec<PathBuf>) -> PreparedMessage {
        let message = terminal_message(
            &self.session,
            text,
            Some(uuid::Uuid::new_v4().to_string().into()),
        );
        PreparedMessage {
            turn: message.turn_id(),
            request: ControlRequest::Say {
                session: self.session.clone(),
                text: message.content,
                id: message.id,
                media,
            },
        }
    }

    /// Sends a message or a command, also while a turn is running. A message that is sent again, on
    /// any connection, is processed once.
    ///
    /// # Errors
    /// Returns the errors of [`send_with_files`](Self::send_with_files).
    pub async fn send_prepared(&mut self, message: &PreparedMessage) -> Result<(), ControlError> {
        self.connection.send_request(&message.request).await
    }

    /// Waits for the next update. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`] if the gateway is gone.
    pub async fn next(&mut self) -> Result<ConversationEvent, ControlError> {
        match self.connection.next().await? {
            ControlResponse::Event {
                turn,
                position,
                event,
            } => {
                let is_answer = position == OutboundSlot::Reply.position()
                    && matches!(event, TerminalEvent::Reply { .. });
                Ok(ConversationEvent::Event {
                    event,
                    is_answer,
                    key: turn.map(|turn| OutboundKey { turn, position }),
                })
            }
            ControlResponse::TurnFinished => Ok(ConversationEvent::TurnFinished),
            ControlResponse::Refused { why } => {
                let event = TerminalEvent::Reply {
                    text: why,
                    streamed: false,
                    ok: false,
                    job: None,
                };
                Ok(ConversationEvent::Event {
                    event,
                    is_answer: true,
                    key: None,
                })
            }
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(answer: &ControlResponse) -> ControlError {
    tracing::debug!(?answer, "unexpected response from the gateway");
    ControlError::Broken(io::Error::new(
        io::ErrorKind::InvalidData,
        "it answered something else",
    ))
}
