//! Commands that go on after a call returned.
//!
//! A session belongs to the conversation that started it; others neither see nor reach it. Its
//! process and all that it started end with it: when the process ends, when a call that waits for it
//! is stopped, after half an hour without a read, or with this program. Unread output is bounded; the
//! oldest is dropped.

use std::{
    collections::BTreeMap,
    fmt, io,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nanobot_sandbox::ProcessGroup;
use nanobot_types::SessionKey;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, Command},
    sync::{Mutex as AsyncMutex, Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    process::{DRAIN, ProcessEnd, code},
    runner::PreparedCommand,
};

/// Maximum number of sessions at a time.
const MAX_SESSIONS: usize = 8;
/// Time without a read after which a session is ended.
const IDLE: Duration = Duration::from_mins(30);
/// Maximum size of unread output, in bytes.
const MAX_UNREAD: usize = 256 << 10;
/// Maximum time for one input to be taken.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// All sessions of an assistant.
#[derive(Debug, Default)]
pub(crate) struct CommandSessions {
    open: Mutex<Open>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Open {
    last: u32,
    sessions: BTreeMap<u32, Arc<CommandSession>>,
}

/// What a session says about itself.
#[derive(Debug)]
pub(super) struct SessionInfo {
    pub(super) id: u32,
    pub(super) command: String,
    pub(super) age: Duration,
    pub(super) end: Option<ProcessEnd>,
}

/// A command that becomes a session.
pub(super) struct SessionCommand {
    pub(super) script: String,
    pub(super) prepared: PreparedCommand,
    /// Time after which it is ended.
    pub(super) limit: Option<Duration>,
    /// Origin of its output, if that may be text from elsewhere.
    pub(super) untrusted: Option<&'static str>,
}

impl CommandSessions {
    /// Starts a process as a session of `owner`.
    pub(super) fn start(
        &self,
        owner: &SessionKey,
        command: SessionCommand,
    ) -> Result<Arc<CommandSession>, String> {
        let mut open = self.open();
        open.sessions.retain(|_, session| !session.is_read_out());
        if open.sessions.len() >= MAX_SESSIONS {
            return Err(format!(
                "{MAX_SESSIONS} commands are running already; end one by write_stdin with \
                 terminate (list_exec_sessions names those of this conversation)"
            ));
        }
        let id = open.last.wrapping_add(1);
        let session = CommandSession::start(&self.tasks, id, owner, command)
            .map_err(|error| format!("cannot start the command: {error}"))?;
        open.last = id;
        open.sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Returns a session of `owner`.
    pub(super) fn find(&self, owner: &SessionKey, id: u32) -> Option<Arc<CommandSession>> {
        let open = self.open();
        let session = open.sessions.get(&id)?;
        (session.owner == *owner).then(|| Arc::clone(session))
    }

    /// Forgets a session that has ended and was read.
    pub(super) fn forget(&self, id: u32) {
        self.open().sessions.remove(&id);
    }

    /// Returns the sessions of `owner`, the oldest first.
    pub(super) fn of(&self, owner: &SessionKey) -> Vec<SessionInfo> {
        let open = self.open();
        let own = open
            .sessions
            .values()
            .filter(|session| session.owner == *owner);
        own.map(|session| SessionInfo {
            id: session.id,
            command: session.command.clone(),
            age: session.started.elapsed(),
            end: session.end(),
        })
        .collect()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that is running, or has ended and is not read to its end.
pub(super) struct CommandSession {
    pub(super) id: u32,
    owner: SessionKey,
    command: String,
    /// Origin of the output, if that may be text from elsewhere.
    pub(super) untrusted: Option<&'static str>,
    started: Instant,
    input: AsyncMutex<Option<ChildStdin>>,
    unread: Arc<Unread>,
    ended: watch::Receiver<Option<ProcessEnd>>,
    used: Arc<Notify>,
    stop: CancellationToken,
}

impl fmt::Debug for CommandSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSession")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Drop for CommandSession {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl CommandSession {
    fn start(
        tasks: &TaskTracker,
        id: u32,
        owner: &SessionKey,
        command: SessionCommand,
    ) -> io::Result<Arc<Self>> {
        let SessionCommand {
            script,
            prepared: PreparedCommand { mut process, needs },
            limit,
            untrusted,
        } = command;
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        ProcessGroup::lead(&mut process);
        let mut child = Command::from(process).kill_on_drop(true).spawn()?;
        let mut group = ProcessGroup::of(child.id());
        let input = child.stdin.take();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (end, ended) = watch::channel(None);
        let unread = Arc::new(Unread::default());
        let (used, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let life = Life {
            used: Arc::clone(&used),
            stop: stop.clone(),
            limit,
        };
        let output = Arc::clone(&unread);
        tasks.spawn(async move {
            let reading = async { tokio::join!(output.fill(out), output.fill(err)) };
            tokio::pin!(reading);
            let over = life.over();
            tokio::pin!(over);
            let mut is_read = false;
            let how = loop {
                tokio::select! {
                    status = child.wait() => break status.map_or(ProcessEnd::Exited(-1), |status| ProcessEnd::Exited(code(status))),
                    how = &mut over => break how,
                    _ = &mut reading, if !is_read => is_read = true,
                }
            };
            group.kill();
            if let Err(error) = child.kill().await {
                tracing::debug!(%error, "a command in a session was not killed");
            }
            if !is_read && timeout(DRAIN, reading).await.is_err() {
                tracing::debug!("output of a command in a session was not read to its end");
            }
            drop(needs);
            end.send_replace(Some(how));
        });
        Ok(Arc::new(Self {
            id,
            owner: owner.clone(),
            command: script,
            untrusted,
            started: Instant::now(),
            input: AsyncMutex::new(input),
            unread,
            ended,
            used,
            stop,
        }))
    }

    /// Waits until the process has ended, at most for `time`, and takes the output so far. Stopping
    /// the call ends the session.
    pub(super) async fn read(
        &self,
        time: Duration,
        cancel: &CancellationToken,
    ) -> (String, Option<ProcessEnd>) {
        self.used.notify_one();
        let mut ended = self.ended.clone();
        let waiting = async {
            tokio::select! {
                _ = ended.wait_for(Option::is_some) => {}
                () = sleep(time) => {}
            }
        };
        tokio::select! {
            () = waiting => {}
            () = cancel.cancelled() => {
                self.stop.cancel();
                let mut ended = self.ended.clone();
                // The sender is gone only after it has sent an end.
                drop(ended.wait_for(Option::is_some).await);
            }
        }
        let end = self.end();
        (self.unread.take(), end)
    }

    /// Writes to the standard input of the process.
    pub(super) async fn write(&self, text: &str) -> Result<(), String> {
        let mut input = self.input.lock().await;
        let Some(pipe) = input.as_mut() else {
            return Err("its standard input is closed".to_owned());
        };
        let writing = async {
            pipe.write_all(text.as_bytes()).await?;
            pipe.flush().await
        };
        match timeout(INPUT_TIMEOUT, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                *input = None;
                Err(format!("its standard input cannot be written: {error}"))
            }
            Err(_elapsed) => Err(format!(
                "it has not read its standard input for {} seconds",
                INPUT_TIMEOUT.as_secs()
            )),
        }
    }

    /// Closes the standard input of the process.
    pub(super) async fn close_input(&self) {
        *self.input.lock().await = None;
    }

    /// Kills the process and all that it started.
    pub(super) fn terminate(&self) {
        self.stop.cancel();
    }

    fn end(&self) -> Option<ProcessEnd> {
        self.ended.borrow().clone()
    }

    /// Returns `true` if the process has ended and its output was read, or will never be.
    fn is_read_out(&self) -> bool {
        self.end().is_some() && (self.unread.is_empty() || self.started.elapsed() > IDLE)
    }
}

/// What ends a session from outside.
struct Life {
    used: Arc<Notify>,
    stop: CancellationToken,
    limit: Option<Duration>,
}

impl Life {
    async fn over(self) -> ProcessEnd {
        let limit = self.limit;
        let expired = async {
            match limit {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let idle = async { while timeout(IDLE, self.used.notified()).await.is_ok() {} };
        tokio::select! {
            () = self.stop.cancelled() => ProcessEnd::Cancelled,
            () = idle => ProcessEnd::TimedOut(IDLE),
            () = expired => ProcessEnd::TimedOut(limit.unwrap_or_default()),
        }
    }
}

/// Unread output.
#[derive(Debug, Default)]
struct Unread(Mutex<UnreadText>);

#[derive(Debug, Default)]
struct UnreadText {
    bytes: Vec<u8>,
    dropped: usize,
}

impl Unread {
    async fn fill(&self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; PIECE];
        // A pipe that cannot be read has ended.
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            let mut text = self.text();
            text.bytes
                .extend_from_slice(buffer.get(..read).unwrap_or_default());
            let excess = text.bytes.len().saturating_sub(MAX_UNREAD);
            text.bytes.drain(..excess);
            text.dropped += excess;
        }
    }

    fn take(&self) -> String {
        let UnreadText { bytes, dropped } = std::mem::take(&mut *self.text());
        let text = String::from_utf8_lossy(&bytes);
        if dropped == 0 {
            return text.into_owned();
        }
        format!("... ({dropped} bytes were not kept) ...\n{text}")
    }

    fn is_empty(&self) -> bool {
        self.text().bytes.is_empty()
    }

    fn text(&self) -> MutexGuard<'_, UnreadText> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
