//! One client connection: reads requests, responds, and forwards the replies of its session.
//!
//! Decision: one task both reads and writes, so that backpressure applies: a client that does not
//! read its responses is not read from either. The queue of pending events is bounded; a client
//! that lets it fill up is disconnected.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nanobot_bus::{BusError, LedgerEntry};
use nanobot_types::{
    ChannelName, ChatAddress, ChatId, InboundMessage, MediaRef, OutboundKey, OutboundKind,
    OutboundMessage, OutboundSlot, chain,
};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::attachment::{self, AttachmentError};
use crate::channels;
use crate::frame::REQUEST_LIMIT;
use crate::lines::{self, LineReader};
use crate::parts::ControlState;
use crate::seats::ControlSeat;
use crate::socket::Stream;
use crate::terminals::terminal_message;
use crate::{ControlRequest, ControlResponse, SessionEditError, TerminalEvent};

/// Capacity of a client's queue of pending responses.
const QUEUE_CAPACITY: usize = 1024;
/// Maximum length of the name of a session, in bytes.
const MAX_SESSION_NAME: usize = 1024;
/// Timeout for writing one line to a client.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of ledger entries in one list.
const MAX_LISTED: usize = 10_000;

/// A connected client.
pub(crate) struct PeerConnection {
    shared: Arc<ControlState>,
    number: u64,
    active: Option<ActiveSession>,
    seat: ControlSeat,
}

/// A session name that cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("the name of the session is empty or longer than {MAX_SESSION_NAME} bytes")]
struct SessionNameError;

/// The session that a connection takes part in.
struct ActiveSession {
    session: String,
    /// `true` if this client has sent a message to it.
    has_sent: bool,
    /// Number of messages from this client that have no reply yet.
    unanswered: u32,
    /// Events of the session; closed if the client falls too far behind.
    answers: mpsc::Receiver<ControlResponse>,
}

impl PeerConnection {
    /// Serves a client until it disconnects, `end` is cancelled, or its seat is taken.
    pub(crate) async fn serve(shared: Arc<ControlState>, stream: Stream, seat: ControlSeat) {
        let number = shared.terminals.number();
        let end = seat.end.clone();
        let mut connection = Self {
            shared,
            number,
            active: None,
            seat,
        };
        if let Some(Err(error)) = end.run_until_cancelled(connection.converse(stream)).await {
            tracing::debug!(%error, "a client disconnected from the control socket");
        }
        connection.leave().await;
    }

    async fn converse(&mut self, stream: Stream) -> io::Result<()> {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut requests = LineReader::new(reader, REQUEST_LIMIT);
        loop {
            // A conversation waits for its turn; every other request is complete once it is
            // answered. A client that only watches can watch again later.
            let is_idle = self.active.as_ref().is_none_or(|active| !active.has_sent);
            self.seat.is_idle.store(is_idle, Ordering::Relaxed);
            tokio::select! {
                request = requests.next_bounded::<ControlRequest>() => match request {
                    Ok(Some(request)) => {
                        self.seat.is_idle.store(false, Ordering::Relaxed);
                        self.answer(request, &mut writer).await?;
                    }
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        // After an unreadable line, the start of the next one cannot be found.
                        write(&mut writer, &refused(&error)).await?;
                        return Err(error);
                    }
                },
                answer = next(&mut self.active) => match answer {
                    Some(answer) => {
                        self.count_reply(&answer);
                        write(&mut writer, &answer).await?;
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    async fn answer(
        &mut self,
        request: ControlRequest,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let ledger = &self.shared.parts.ledger;
        let editor = &self.shared.parts.session_editor;
        let answer = match request {
            ControlRequest::Ping => ControlResponse::Pong(self.shared.parts.about.clone()),
            ControlRequest::InboxList {
                queue,
                filter,
                limit,
            } => match ledger.list(queue, filter, limit.min(MAX_LISTED)).await {
                Ok(entries) => write_entries(writer, entries).await?,
                Err(error) => failed(error),
            },
            ControlRequest::InboxShow { entry } => match ledger.show(&entry).await {
                Ok(entry) => ControlResponse::Entry(Box::new(entry)),
                Err(error) => failed(error),
            },
            ControlRequest::InboxRetry { entry } => ledger
                .retry(&entry)
                .await
                .map_or_else(failed, |()| ControlResponse::Done),
            ControlRequest::InboxDiscard { entry } => ledger
                .discard(&entry)
                .await
                .map_or_else(failed, |()| ControlResponse::Done),
            ControlRequest::SessionFork { session, at, to } => {
                let copied = editor.fork(&session, at, to.as_deref()).await;
                copied.map_or_else(ControlResponse::NotCut, |session| ControlResponse::Copied {
                    session,
                })
            }
            ControlRequest::SessionRewind { session, to } => {
                edited(editor.rewind(&session, to).await)
            }
            ControlRequest::SessionRename { session, name } => {
                edited(editor.rename(&session, name.as_deref()).await)
            }
            ControlRequest::SessionDelete { session } => edited(editor.delete(&session).await),
            ControlRequest::SessionRestore { session } => edited(editor.restore(&session).await),
            ControlRequest::SessionUndo { session } => editor
                .undo(&session)
                .await
                .map_or_else(ControlResponse::NotCut, ControlResponse::Undone),
            ControlRequest::SessionRedo { session } => edited(editor.redo(&session).await),
            ControlRequest::Subagents { session } => {
                let key = terminal_message(&session, "", None).session_key();
                let subagents = self.shared.parts.subagents.of_session(&key);
                ControlResponse::Subagents { subagents }
            }
            ControlRequest::Channels => ControlResponse::Channels {
                channels: self.shared.parts.channels.states(),
            },
            ControlRequest::ChannelTest {
                channel,
                chat,
                text,
            } => match self.test_channel(channel, chat, text).await {
                Ok(entry) => ControlResponse::Entry(Box::new(entry)),
                Err(error) => failed(error),
            },
            ControlRequest::End { again } => {
                let ending = &self.shared.parts.ending;
                let token = if again { &ending.restart } else { &ending.stop };
                token.cancel();
                ControlResponse::Done
            }
            ControlRequest::Say {
                session,
                text,
                id,
                media,
            } => {
                let message = terminal_message(&session, &text, id);
                match self.say(session, message, media).await {
                    Ok(()) => return Ok(()),
                    Err(refusal) => refusal,
                }
            }
            ControlRequest::Watch { session, messages } => match self.watch(session, messages) {
                Ok(()) => ControlResponse::Done,
                Err(error) => refused(&error),
            },
        };
        write(writer, &answer).await
    }

    /// Accepts a message with its attachments. The error is the answer.
    async fn say(
        &mut self,
        session: String,
        message: InboundMessage,
        media: Vec<PathBuf>,
    ) -> Result<(), ControlResponse> {
        let media = self.attachments(media).await.map_err(|e| refused(&e))?;
        let message = InboundMessage { media, ..message };
        let accepted = self.accept_message(session, message).await;
        accepted.map_err(|error| refused(&error))
    }

    async fn test_channel(
        &self,
        channel: ChannelName,
        chat: ChatId,
        text: String,
    ) -> Result<LedgerEntry, BusError> {
        let parts = &self.shared.parts;
        if !parts
            .channels
            .states()
            .iter()
            .any(|state| state.name == channel)
        {
            return Err(BusError::Unknown {
                id: channel.to_string(),
            });
        }
        let address = ChatAddress::new(channel, chat);
        let key = OutboundKey::new(format!("test {}", Uuid::new_v4()), OutboundSlot::Reply);
        let message = OutboundMessage::to(address, key, OutboundKind::Notice, text);
        channels::publish_and_wait(&*parts.bus, &*parts.ledger, message).await
    }

    async fn attachments(&self, paths: Vec<PathBuf>) -> Result<Vec<MediaRef>, AttachmentError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.shared.parts.media.clone();
        let checked = tokio::task::spawn_blocking(move || attachment::check(&folder, paths));
        checked.await.unwrap_or(Err(AttachmentError::Unchecked))
    }

    async fn accept_message(
        &mut self,
        session: String,
        message: InboundMessage,
    ) -> Result<(), BusError> {
        if self.shared.closing.is_cancelled() {
            return Err(BusError::Closed);
        }
        self.subscribe(session, false);
        // Before the message is processed, so that it precedes its reply.
        self.shared.terminals.show_message(self.number, &message);
        self.shared.parts.bus.publish_inbound(message).await?;
        if let Some(active) = &mut self.active {
            active.has_sent = true;
            active.unanswered = active.unanswered.saturating_add(1);
        }
        Ok(())
    }

    fn watch(&mut self, session: String, messages: bool) -> Result<(), SessionNameError> {
        if session.is_empty() || session.len() > MAX_SESSION_NAME {
            return Err(SessionNameError);
        }
        self.subscribe(session, messages);
        Ok(())
    }

    /// Subscribes this connection to a session, unless it is already.
    fn subscribe(&mut self, session: String, takes_messages: bool) {
        let is_subscribed = self
            .active
            .as_ref()
            .is_some_and(|active| active.session == session);
        if is_subscribed {
            return;
        }
        let (sender, answers) = mpsc::channel(QUEUE_CAPACITY);
        let terminals = &self.shared.terminals;
        terminals.watch(self.number, &session, takes_messages, sender);
        self.active = Some(ActiveSession {
            session,
            has_sent: false,
            unanswered: 0,
            answers,
        });
    }

    fn count_reply(&mut self, answer: &ControlResponse) {
        if let (
            ControlResponse::Event {
                event: TerminalEvent::Reply { .. },
                ..
            },
            Some(active),
        ) = (answer, &mut self.active)
        {
            active.unanswered = active.unanswered.saturating_sub(1);
        }
    }

    /// Stops the turn, as Ctrl-C does, if a terminal disconnects before its reply arrived, unless
    /// another client watches the session.
    async fn leave(self) {
        let is_last = self.shared.terminals.leave(self.number);
        let Some(ActiveSession {
            session,
            unanswered: 1..,
            ..
        }) = self.active
        else {
            return;
        };
        if !is_last || self.shared.closing.is_cancelled() {
            return;
        }
        if let Err(error) = self
            .shared
            .parts
            .bus
            .publish_inbound(terminal_message(&session, "/stop", None))
            .await
        {
            tracing::warn!(%error, "cannot stop the turn of a disconnected terminal");
        }
    }
}

/// Writes a response. A client that does not read it in time is disconnected, because pending
/// responses use memory.
/// Writes entries of the ledger, and returns the answer that completes the list.
async fn write_entries(
    writer: &mut (impl AsyncWrite + Unpin),
    entries: Vec<LedgerEntry>,
) -> io::Result<ControlResponse> {
    for entry in entries {
        write(writer, &ControlResponse::Entry(Box::new(entry))).await?;
    }
    Ok(ControlResponse::Done)
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, answer: &ControlResponse) -> io::Result<()> {
    let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
    tokio::time::timeout(WRITE_TIMEOUT, lines::write(writer, answer))
        .await
        .map_err(timed_out)?
}

/// Waits for the next event of the session. Cancel-safe.
async fn next(active: &mut Option<ActiveSession>) -> Option<ControlResponse> {
    match active {
        Some(active) => active.answers.recv().await,
        None => std::future::pending().await,
    }
}

fn edited(done: Result<(), SessionEditError>) -> ControlResponse {
    done.map_or_else(ControlResponse::NotCut, |()| ControlResponse::Done)
}

fn failed(error: BusError) -> ControlResponse {
    match error {
        BusError::Unknown { id } => ControlResponse::Unknown { id },
        BusError::Conflict { id, state } => ControlResponse::Conflict { id, state },
        BusError::Store { .. }
        | BusError::Full { .. }
        | BusError::Consumed { .. }
        | BusError::Closed => refused(&error),
    }
}

fn refused(error: &dyn std::error::Error) -> ControlResponse {
    let why = chain(error);
    ControlResponse::Refused { why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_times_out() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        let answer = ControlResponse::Refused {
            why: "x".repeat(1000),
        };
        let written = write(&mut ours, &answer).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
