//! Handle to the state database.

mod opening;
pub(crate) mod private;
mod schema;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nanobot_bus::BusError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::StateError;
use crate::clock::Clock;
pub(crate) use opening::open_read_only;
use writer::{DatabaseWriter, WriteJob, WriterCommand};
pub(crate) use writer::{Durability, WriteFault};

/// Maximum number of queued jobs; more callers have to wait.
const QUEUE: usize = 1024;

/// The worst event that committed data survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitDurability {
    /// A power cut: a commit waits for the disk where that matters.
    #[default]
    PowerCut,
    /// The end of the process. No commit waits for the disk. A power cut may lose the newest
    /// commits, but never an older one without the newer ones, and never the file.
    ProcessEnd,
}

/// An open state database. Clones share it. It is closed by [`StateDb::close`], or when the last
/// clone is dropped.
#[derive(Clone)]
pub struct StateDb {
    commands: mpsc::Sender<WriterCommand>,
    clock: Clock,
    path: Arc<Path>,
    moved_aside: Option<Arc<Path>>,
}

impl StateDb {
    /// Opens the file and migrates it to the current version. Creates the file (readable by its
    /// owner only) and its folder if they are missing. A damaged file is moved aside and a new one
    /// created.
    ///
    /// # Errors
    /// Returns [`StateError::Io`], [`StateError::Database`] (also if another program keeps the file
    /// locked), [`StateError::Newer`], [`StateError::Foreign`] or [`StateError::NoWriteAheadLog`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StateError> {
        Self::open_for(path, CommitDurability::PowerCut).await
    }

    /// Opens the file like [`StateDb::open`], with the given guarantee for committed data.
    ///
    /// # Errors
    /// Returns the same errors as [`StateDb::open`].
    pub async fn open_for(
        path: impl Into<PathBuf>,
        survives: CommitDurability,
    ) -> Result<Self, StateError> {
        let path = path.into();
        let (commands, queue) = mpsc::channel(QUEUE);
        let (opened, opening) = oneshot::channel();
        let file = path.clone();
        let thread = std::thread::Builder::new().name("nanobot-state".to_owned());
        thread
            .spawn(move || serve(&file, survives, opened, queue))
            .map_err(|source| StateError::Io {
                action: "start the thread for",
                path: path.clone(),
                source,
            })?;
        let moved_aside = opening
            .await
            .map_err(|_gone| StateError::Closed)??
            .map(Arc::from);
        Ok(Self {
            commands,
            clock: Clock::start(),
            path: path.into(),
            moved_aside,
        })
    }

    /// Returns a database that is opened when it is first used. If it cannot be opened then, the
    /// error is logged, and every call fails as if it were closed.
    ///
    /// # Errors
    /// Returns [`StateError::Io`] if no thread can be started.
    pub fn open_on_use(
        path: impl Into<PathBuf>,
        survives: CommitDurability,
    ) -> Result<Self, StateError> {
        let path = path.into();
        let (commands, queue) = mpsc::channel(QUEUE);
        let file = path.clone();
        let thread = std::thread::Builder::new().name("nanobot-state".to_owned());
        thread
            .spawn(move || serve_on_use(&file, survives, queue))
            .map_err(|source| StateError::Io {
                action: "start the thread for",
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            commands,
            clock: Clock::start(),
            path: path.into(),
            moved_aside: None,
        })
    }

    /// Checks the file without changing it. Returns a description of the damage, or `None` if there
    /// is none. Blocks; the larger the file, the longer.
    ///
    /// # Errors
    /// Returns [`StateError::Newer`], [`StateError::Foreign`] or [`StateError::Database`].
    pub fn examine(path: &Path) -> Result<Option<String>, StateError> {
        opening::examine(path)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the new path of a damaged file that was moved aside when this database was opened.
    #[must_use]
    pub fn moved_aside(&self) -> Option<&Path> {
        self.moved_aside.as_deref()
    }

    /// Completes the queued jobs and closes the file. Later calls fail with [`StateError::Closed`]
    /// or [`BusError::Closed`].
    pub async fn close(&self) {
        let (told, closed) = oneshot::channel();
        if self.commands.send(WriterCommand::Close(told)).await.is_ok() {
            // An error means that another clone closed it first.
            drop(closed.await);
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Runs `work` in a transaction and returns after the commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JobError> {
        self.write_then(durability, work, |_| {}).await
    }

    /// Runs `work` like [`StateDb::write`]. `then` is called right after the commit, even if the
    /// caller no longer waits for the result.
    pub(crate) async fn write_then<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, JobError> {
        let (command, answered) = task(durability, work, then);
        self.commands
            .send(command)
            .await
            .map_err(|_closed| JobError::Closed)?;
        answered
            .await
            .map_err(|_closed| JobError::Closed)?
            .map_err(JobError::Failed)
    }

    /// Queues `work` like [`StateDb::write_then`] and does not wait for it. Drops it if the queue is
    /// full or the database closed.
    pub(crate) fn start_write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(&T) + Send + 'static,
    ) {
        let (command, _) = task(durability, work, then);
        if let Err(error) = self.commands.try_send(command) {
            tracing::debug!(%error, "the state database takes no more jobs now");
        }
    }
}

/// Makes a task for the database thread, and the receiver of its result.
fn task<T: Send + 'static>(
    durability: Durability,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    then: impl FnOnce(&T) + Send + 'static,
) -> (WriterCommand, oneshot::Receiver<Result<T, WriteFault>>) {
    let (answer, answered) = oneshot::channel();
    let task = DatabaseTask {
        durability,
        work: Some(work),
        then,
        done: None,
        answer,
    };
    (WriterCommand::Run(Box::new(task)), answered)
}

impl fmt::Debug for StateDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateDb")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Runs the database thread.
fn serve(
    path: &Path,
    survives: CommitDurability,
    opened: oneshot::Sender<Result<Option<PathBuf>, StateError>>,
    commands: mpsc::Receiver<WriterCommand>,
) {
    // If `send` fails, the caller of `open` is gone, and there is nothing to do.
    match opening::open(path) {
        Ok(database) => {
            if opened.send(Ok(database.moved_aside)).is_ok() {
                DatabaseWriter::new(database.connection, commands, survives).run(None);
            }
        }
        Err(error) => drop(opened.send(Err(error))),
    }
}

/// Runs the database thread of a database that is opened by the first command.
fn serve_on_use(
    path: &Path,
    survives: CommitDurability,
    mut commands: mpsc::Receiver<WriterCommand>,
) {
    let first = match commands.blocking_recv() {
        Some(WriterCommand::Close(told)) => {
            // The caller may have stopped waiting.
            told.send(()).ok();
            return;
        }
        Some(first) => first,
        None => return,
    };
    match opening::open(path) {
        Ok(database) => {
            DatabaseWriter::new(database.connection, commands, survives).run(Some(first));
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the state database cannot be opened");
        }
    }
}

/// Reason why a job was not done.
#[derive(Debug)]
pub(crate) enum JobError {
    Closed,
    Failed(WriteFault),
}

impl JobError {
    pub(crate) fn bus(self, action: &'static str) -> BusError {
        match self {
            Self::Closed => BusError::Closed,
            Self::Failed(fault) => BusError::Store {
                action,
                source: cause(fault),
            },
        }
    }

    pub(crate) fn state(self, path: &Path, action: &'static str) -> StateError {
        match self {
            Self::Closed => StateError::Closed,
            Self::Failed(fault) => StateError::Database {
                action,
                path: path.to_owned(),
                source: cause(fault),
            },
        }
    }
}

/// Returns the cause of an error of the database. A full disk becomes the error of the system,
/// which callers recognise; SQLite has two codes for it.
fn cause(fault: WriteFault) -> Box<dyn std::error::Error + Send + Sync> {
    match fault.sqlite_error() {
        Some(error)
            if error.code == ErrorCode::DiskFull
                || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE =>
        {
            Box::new(io::Error::from(io::ErrorKind::StorageFull))
        }
        _ => Box::new(fault),
    }
}

/// A job made of two closures.
struct DatabaseTask<W, A, T> {
    durability: Durability,
    work: Option<W>,
    then: A,
    done: Option<T>,
    answer: oneshot::Sender<Result<T, WriteFault>>,
}

impl<W, A, T> WriteJob for DatabaseTask<W, A, T>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    A: FnOnce(&T) + Send,
    T: Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(connection)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), WriteFault>) {
        let Self {
            then, done, answer, ..
        } = *self;
        let result = match (outcome, done) {
            (Ok(()), Some(done)) => {
                then(&done);
                Ok(done)
            }
            (Err(fault), _) => Err(fault),
            // Unreachable: a commit without having run. Nothing was done in that case.
            (Ok(()), None) => return,
        };
        // The caller may have stopped waiting.
        drop(answer.send(result));
    }
}
