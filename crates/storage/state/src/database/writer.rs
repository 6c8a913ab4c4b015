//! The thread that owns the connection. It commits many jobs with one transaction and one sync.
//!
//! Decision: while a commit waits for the disk, jobs queue up, and the next transaction takes all
//! of them. Each job runs in a savepoint of its own, so that a failing job does not affect the
//! others. A job is answered after the commit, never before.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::CommitDurability;
use super::opening::keep_log_on_close;

/// Maximum number of jobs in a transaction.
const BATCH: usize = 256;

/// Reason why a job was not done; shared by all jobs of a failed transaction.
pub(crate) type WriteFault = Arc<rusqlite::Error>;

/// The event that a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The end of the process, at any instant. For data that is only counted.
    Process,
    /// A power cut as well.
    Power,
}

/// Work within a transaction.
pub(super) trait WriteJob: Send {
    fn durability(&self) -> Durability;
    /// Does the work, and keeps the result for [`WriteJob::finish`].
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Sends the result, once it is known whether the transaction was committed.
    fn finish(self: Box<Self>, outcome: Result<(), WriteFault>);
}

/// A request to the thread.
pub(super) enum WriterCommand {
    Run(Box<dyn WriteJob>),
    Close(oneshot::Sender<()>),
}

/// The thread's state.
pub(super) struct DatabaseWriter {
    connection: Connection,
    commands: mpsc::Receiver<WriterCommand>,
    /// The worst event that any commit has to survive.
    survives: CommitDurability,
    /// The durability that the connection is set to.
    durability: Durability,
    /// Set when the file was found damaged while open.
    damaged: bool,
    /// Set when the disk was full and the log has not been truncated since.
    cramped: bool,
}

impl DatabaseWriter {
    /// Creates the state of a thread over a connection that was just opened.
    pub(super) fn new(
        connection: Connection,
        commands: mpsc::Receiver<WriterCommand>,
        survives: CommitDurability,
    ) -> Self {
        Self {
            connection,
            commands,
            survives,
            durability: Durability::Power,
            damaged: false,
            cramped: false,
        }
    }

    /// Executes `first`, then runs until it is asked to close or all senders are gone.
    pub(super) fn run(mut self, mut first: Option<WriterCommand>) {
        let mut told = None;
        while told.is_none()
            && let Some(command) = first.take().or_else(|| self.commands.blocking_recv())
        {
            let (jobs, close) = self.collect(command);
            self.perform(jobs);
            told = close;
        }
        self.close();
        if let Some(told) = told {
            // The caller may have stopped waiting.
            told.send(()).ok();
        }
    }

    /// Takes the commands that are queued after `first`, up to [`BATCH`] jobs.
    fn collect(
        &mut self,
        first: WriterCommand,
    ) -> (Vec<Box<dyn WriteJob>>, Option<oneshot::Sender<()>>) {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                WriterCommand::Run(job) => jobs.push(job),
                WriterCommand::Close(told) => return (jobs, Some(told)),
            }
            next = if jobs.len() < BATCH {
                self.commands.try_recv().ok()
            } else {
                None
            };
        }
        (jobs, None)
    }

    fn perform(&mut self, mut jobs: Vec<Box<dyn WriteJob>>) {
        if jobs.is_empty() {
            return;
        }
        if self.cramped {
            // Truncate the log first: otherwise it would grow into space that was just freed.
            self.cut_log();
        }
        match self.transact(&mut jobs) {
            Ok(outcomes) => {
                for (job, outcome) in jobs.into_iter().zip(outcomes) {
                    if let Err(fault) = &outcome {
                        self.note(fault);
                        self.make_room(fault);
                    }
                    job.finish(outcome);
                }
            }
            Err(error) => {
                let fault = Arc::new(error);
                self.note(&fault);
                self.make_room(&fault);
                jobs.into_iter()
                    .for_each(|job| job.finish(Err(Arc::clone(&fault))));
            }
        }
    }

    /// Runs the jobs and commits. On an error, nothing of them has happened.
    fn transact(
        &mut self,
        jobs: &mut [Box<dyn WriteJob>],
    ) -> rusqlite::Result<Vec<Result<(), WriteFault>>> {
        let asked = jobs
            .iter()
            .map(|job| job.durability())
            .max()
            .unwrap_or(Durability::Power);
        let wanted = match self.survives {
            CommitDurability::PowerCut => asked,
            CommitDurability::ProcessEnd => Durability::Process,
        };
        let attempt = self.set_durability(wanted).and_then(|()| {
            execute(&self.connection, "BEGIN IMMEDIATE")?;
            let outcomes = jobs
                .iter_mut()
                .map(|job| self.run_apart(job.as_mut()))
                .collect::<rusqlite::Result<_>>()?;
            execute(&self.connection, "COMMIT")?;
            Ok(outcomes)
        });
        if attempt.is_err()
            && !self.connection.is_autocommit()
            && let Err(error) = execute(&self.connection, "ROLLBACK")
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a failed transaction could not be rolled back"
            );
        }
        attempt
    }

    /// Runs one job in a savepoint, so that its failure undoes only its own work. The outer error
    /// means that the whole transaction was undone.
    fn run_apart(&self, job: &mut dyn WriteJob) -> rusqlite::Result<Result<(), WriteFault>> {
        execute(&self.connection, "SAVEPOINT job")?;
        match job.run(&self.connection) {
            Ok(()) => {
                execute(&self.connection, "RELEASE job")?;
                Ok(Ok(()))
            }
            // Some errors (a full disk among them) end the whole transaction at once.
            Err(error) if self.connection.is_autocommit() => Err(error),
            Err(error) => {
                execute(&self.connection, "ROLLBACK TO job")?;
                execute(&self.connection, "RELEASE job")?;
                Ok(Err(Arc::new(error)))
            }
        }
    }

    fn set_durability(&mut self, wanted: Durability) -> rusqlite::Result<()> {
        if self.durability != wanted {
            let mode = match wanted {
                Durability::Process => "NORMAL",
                Durability::Power => "FULL",
            };
            self.connection.pragma_update(None, "synchronous", mode)?;
            self.durability = wanted;
        }
        Ok(())
    }

    /// Truncates the log when the disk is full. On a small disk the log itself may be what fills
    /// it, and it could not grow to the size at which SQLite checkpoints it automatically.
    fn make_room(&mut self, fault: &rusqlite::Error) {
        if matches!(
            fault.sqlite_error_code(),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure)
        ) {
            self.cut_log();
        }
    }

    /// Checkpoints and truncates the log. If that fails for lack of space, it is tried again before
    /// the next jobs.
    fn cut_log(&mut self) {
        let cut = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.cramped = cut.is_err();
        if let Err(error) = cut {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot truncate the write-ahead log of the state database now"
            );
        }
    }

    fn note(&mut self, fault: &rusqlite::Error) {
        if fault.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) && !self.damaged {
            self.damaged = true;
            tracing::error!(
                "the state database is damaged; it will be checked, and replaced if necessary, at the next start"
            );
        }
    }

    fn close(self) {
        let kept = if self.damaged {
            keep_log_on_close(&self.connection, true)
        } else {
            Ok(())
        };
        if let Err(error) = kept.and_then(|()| self.connection.close().map_err(|(_, error)| error))
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the state database was not closed cleanly"
            );
        }
    }
}

fn execute(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}
