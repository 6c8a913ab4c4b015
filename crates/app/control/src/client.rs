//! The client's side of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{BusError, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{ChannelName, ChatId, TraceId};
use tokio::io::{ReadHalf, WriteHalf};

use crate::frame::ANSWER_LIMIT;
use crate::lines::{self, LineReader};
use crate::socket::{Stream, connect};
use crate::terminals::said;
use crate::{About, Answer, ChannelState, ControlError, CutError, Cuts, Request, TerminalEvent};

/// Timeout for the handshake. The caller decides what a timeout means: a gateway that owns the
/// home's lock is running even if it does not answer.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// Client of a running gateway. Each request opens a connection of its own.
#[derive(Clone, Debug)]
pub struct ControlClient {
    path: PathBuf,
    about: About,
}

/// A connection.
#[derive(Debug)]
struct Line {
    answers: LineReader<ReadHalf<Stream>>,
    writer: WriteHalf<Stream>,
}

impl Line {
    async fn open(path: &Path) -> Result<Self, ControlError> {
        let (reader, writer) = tokio::io::split(connect(path).await?);
        Ok(Self {
            answers: LineReader::new(reader, ANSWER_LIMIT),
            writer,
        })
    }

    async fn ask(&mut self, request: &Request) -> Result<(), ControlError> {
        lines::write(&mut self.writer, request)
            .await
            .map_err(ControlError::Broken)
    }

    async fn next(&mut self) -> Result<Answer, ControlError> {
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
        let introduced = async {
            let mut line = Line::open(path).await?;
            line.ask(&Request::Ping).await?;
            match line.next().await? {
                Answer::Pong(about) => Ok(Self {
                    path: path.to_owned(),
                    about,
                }),
                other => Err(unexpected(&other)),
            }
        };
        let late = |_elapsed| ControlError::Broken(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(INTRODUCTION, introduced)
            .await
            .map_err(late)?
    }

    /// Returns the gateway's description of itself.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Joins one of the gateway's sessions.
    ///
    /// # Errors
    /// Returns [`ControlError::Unreachable`] if no gateway listens any more.
    pub async fn converse(&self, session: impl Into<String>) -> Result<Conversation, ControlError> {
        Ok(Conversation {
            line: Line::open(&self.path).await?,
            session: session.into(),
        })
    }

    /// Returns the states of the gateway's channels, sorted by name.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`], also if the gateway is too old to support the request.
    pub async fn channels(&self) -> Result<Vec<ChannelState>, ControlError> {
        let mut line = Line::open(&self.path).await?;
        line.ask(&Request::Channels).await?;
        match line.next().await? {
            Answer::Channels { channels } => Ok(channels),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests an orderly shutdown, or a restart if `again` is set. This returns before the
    /// gateway ends, which it does after the grace period of its turns.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`], also if the gateway is too old to support the request.
    pub async fn end(&self, again: bool) -> Result<(), ControlError> {
        let mut line = Line::open(&self.path).await?;
        line.ask(&Request::End { again }).await?;
        match line.next().await? {
            Answer::Done => Ok(()),
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
        let request = Request::ChannelTest {
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
        request: &Request,
    ) -> Result<Vec<LedgerEntry>, BusError> {
        let broken = |error: ControlError| BusError::Store {
            action,
            source: Box::new(error),
        };
        let mut line = Line::open(&self.path).await.map_err(broken)?;
        line.ask(request).await.map_err(broken)?;
        let mut entries = Vec::new();
        loop {
            match line.next().await.map_err(broken)? {
                Answer::Entry(entry) => {
                    entries.push(*entry);
                    if let Request::InboxShow { .. } | Request::ChannelTest { .. } = request {
                        return Ok(entries);
                    }
                }
                Answer::Done => return Ok(entries),
                Answer::Unknown { id } => return Err(BusError::Unknown { id }),
                Answer::Conflict { id, state } => return Err(BusError::Conflict { id, state }),
                Answer::Refused { why } => {
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
            &Request::InboxList {
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
                &Request::InboxShow {
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
            &Request::InboxRetry {
                entry: id.to_owned(),
            },
        )
        .await
        .map(drop)
    }

    async fn discard(&self, id: &str) -> Result<(), BusError> {
        self.request(
            "discard a ledger entry",
            &Request::InboxDiscard {
                entry: id.to_owned(),
            },
        )
        .await
        .map(drop)
    }
}

impl ControlClient {
    async fn cut(&self, request: &Request) -> Result<Answer, CutError> {
        let mut line = Line::open(&self.path).await?;
        line.ask(request).await?;
        match line.next().await? {
            Answer::NotCut(error) => Err(error),
            Answer::Refused { why } => Err(CutError::Failed { why }),
            answer => Ok(answer),
        }
    }
}

#[async_trait]
impl Cuts for ControlClient {
    async fn fork(
        &self,
        session: &str,
        at: Option<u64>,
        to: Option<&str>,
    ) -> Result<String, CutError> {
        let request = Request::SessionFork {
            session: session.to_owned(),
            at,
            to: to.map(str::to_owned),
        };
        match self.cut(&request).await? {
            Answer::Copied { session } => Ok(session),
            other => Err(unexpected(&other).into()),
        }
    }

    async fn rewind(&self, session: &str, to: u64) -> Result<(), CutError> {
        match self
            .cut(&Request::SessionRewind {
                session: session.to_owned(),
                to,
            })
            .await?
        {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other).into()),
        }
    }
}

/// An update of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// An event to show.
    Event {
        /// The event.
        event: TerminalEvent,
        /// `true` for the turn's own reply, and for the refusal of a message.
        is_answer: bool,
    },
    /// A turn has finished.
    TurnFinished,
}

/// A terminal's conversation in a session of a gateway.
#[derive(Debug)]
pub struct Conversation {
    line: Line,
    session: String,
}

impl Conversation {
    /// Sends a message or a command, also while a turn is running. Returns the id of the turn that
    /// will process it. A refusal of the message is returned by [`Conversation::next`].
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`] if the gateway is gone.
    pub async fn say(&mut self, text: &str) -> Result<TraceId, ControlError> {
        let message = said(
            &self.session,
            text,
            Some(uuid::Uuid::new_v4().to_string().into()),
        );
        let turn = message
            .journal_id()
            .map_or_else(|| TraceId::from(""), |id| TraceId::from(id.as_str()));
        let request = Request::Say {
            session: self.session.clone(),
            text: message.content,
            id: message.id,
        };
        self.line.ask(&request).await?;
        Ok(turn)
    }

    /// Waits for the next update. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`ControlError::Broken`] if the gateway is gone.
    pub async fn next(&mut self) -> Result<Told, ControlError> {
        match self.line.next().await? {
            Answer::Event { position, event } => {
                let is_answer = position == 0 && matches!(event, TerminalEvent::Reply { .. });
                Ok(Told::Event { event, is_answer })
            }
            Answer::TurnFinished => Ok(Told::TurnFinished),
            Answer::Refused { why } => {
                let event = TerminalEvent::Reply {
                    text: why,
                    streamed: false,
                    ok: false,
                };
                Ok(Told::Event {
                    event,
                    is_answer: true,
                })
            }
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(answer: &Answer) -> ControlError {
    tracing::debug!(?answer, "unexpected response from the gateway");
    ControlError::Broken(io::Error::new(
        io::ErrorKind::InvalidData,
        "it answered something else",
    ))
}
