//! The side of a command.

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

/// The time for a gateway to introduce itself. The caller decides what silence means; a gateway that
/// owns the home's lock is there even if it does not answer.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// A gateway that runs. A connection is made for every request.
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
    /// Finds the gateway that listens on `path`.
    ///
    /// # Errors
    /// [`ControlError::Unreachable`] when none does, [`ControlError::Broken`] when it does not
    /// answer within 5 seconds, [`ControlError::Unsupported`].
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

    /// Who answers.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Joins one of the gateway's sessions.
    ///
    /// # Errors
    /// [`ControlError::Unreachable`].
    pub async fn converse(&self, session: impl Into<String>) -> Result<Conversation, ControlError> {
        Ok(Conversation {
            line: Line::open(&self.path).await?,
            session: session.into(),
        })
    }

    /// How the gateway's channels are, in the order of their names.
    ///
    /// # Errors
    /// [`ControlError::Broken`], also where the gateway is too old to know.
    pub async fn channels(&self) -> Result<Vec<ChannelState>, ControlError> {
        let mut line = Line::open(&self.path).await?;
        line.ask(&Request::Channels).await?;
        match line.next().await? {
            Answer::Channels { channels } => Ok(channels),
            other => Err(unexpected(&other)),
        }
    }

    /// Tells the gateway to end in order, to begin again if that is wanted. It ends later, when its
    /// turns have had their grace.
    ///
    /// # Errors
    /// [`ControlError::Broken`], also where the gateway is too old to know.
    pub async fn end(&self, again: bool) -> Result<(), ControlError> {
        let mut line = Line::open(&self.path).await?;
        line.ask(&Request::End { again }).await?;
        match line.next().await? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a message by one of the gateway's channels, and says where it stands once it is
    /// settled, or after half a minute.
    ///
    /// # Errors
    /// [`BusError::Unknown`] for a channel that the gateway does not run, [`BusError::Store`].
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

/// What a conversation tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something to show.
    Event {
        /// What.
        event: TerminalEvent,
        /// It is the turn's own reply, or the refusal of what was said.
        is_answer: bool,
    },
    /// A turn ended.
    TurnFinished,
}

/// A session of a gateway, from a terminal.
#[derive(Debug)]
pub struct Conversation {
    line: Line,
    session: String,
}

impl Conversation {
    /// Says something: a message or a command, also while a turn runs. Returns the name of the turn
    /// that answers it. What keeps it from being taken is told by [`Conversation::next`].
    ///
    /// # Errors
    /// [`ControlError::Broken`] when the gateway is gone.
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

    /// The next that happens. Cancel-safe.
    ///
    /// # Errors
    /// [`ControlError::Broken`] when the gateway is gone.
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
    tracing::debug!(?answer, "the gateway answered something else");
    ControlError::Broken(io::Error::new(
        io::ErrorKind::InvalidData,
        "it answered something else",
    ))
}
