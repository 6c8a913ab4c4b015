//! The thread that owns the connection: many jobs, one transaction, one sync.
//!
//! Decision: while a commit waits for the disk, jobs queue up; the next transaction takes all of
//! them. Each runs in a savepoint of its own, so that one that fails takes nothing of its
//! neighbours with it, and each is answered after the commit, never before.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::Survives;
use super::opening::keep_log_on_close;

/// How many jobs share a transaction at most.
const BATCH: usize = 256;

/// Why a job was not done; shared by all that were in one transaction.
pub(crate) type Fault = Arc<rusqlite::Error>;

/// What a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The end of the process, at any instant. For what is only counted.
    Process,
    /// The loss of power as well.
    Power,
}

/// Something to do within a transaction.
pub(super) trait Job: Send {
    fn durability(&self) -> Durability;
    /// Does it, and keeps the result for [`Job::finish`].
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Answers, once it is known whether the transaction was committed.
    fn finish(self: Box<Self>, outcome: Result<(), Fault>);
}

/// What the thread can be asked.
pub(super) enum Command {
    Run(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// The thread's side.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) commands: mpsc::Receiver<Command>,
    /// The most that any commit has to survive.
    pub(super) survives: Survives,
    /// The durability that the connection is set to.
    pub(super) durability: Durability,
    /// The file was found damaged while it was open.
    pub(super) damaged: bool,
    /// The disk was full, and the log could not be cut since.
    pub(super) cramped: bool,
}

impl Writer {
    /// Works until it is told to close or nobody can ask any more.
    pub(super) fn run(mut self) {
        let mut told = None;
        while told.is_none()
            && let Some(command) = self.commands.blocking_recv()
        {
            let (jobs, close) = self.collect(command);
            self.perform(jobs);
            told = close;
        }
        self.close();
        if let Some(told) = told {
            // Whoever asked may have gone.
            told.send(()).ok();
        }
    }

    /// Everything that is queued behind `first`, up to the bound.
    fn collect(&mut self, first: Command) -> (Vec<Box<dyn Job>>, Option<oneshot::Sender<()>>) {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Run(job) => jobs.push(job),
                Command::Close(told) => return (jobs, Some(told)),
            }
            next = if jobs.len() < BATCH {
                self.commands.try_recv().ok()
            } else {
                None
            };
        }
        (jobs, None)
    }

    fn perform(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        if jobs.is_empty() {
            return;
        }
        if self.cramped {
            // Before the log grows into what somebody has freed.
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

    /// Runs the jobs and commits. On an error nothing of them has happened.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<Vec<Result<(), Fault>>> {
        let asked = jobs
            .iter()
            .map(|job| job.durability())
            .max()
            .unwrap_or(Durability::Power);
        let wanted = match self.survives {
            Survives::PowerCut => asked,
            Survives::ProcessEnd => Durability::Process,
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

    /// Runs one job so that its failure undoes only itself; an error has undone the transaction.
    fn run_apart(&self, job: &mut dyn Job) -> rusqlite::Result<Result<(), Fault>> {
        execute(&self.connection, "SAVEPOINT job")?;
        match job.run(&self.connection) {
            Ok(()) => {
                execute(&self.connection, "RELEASE job")?;
                Ok(Ok(()))
            }
            // Some faults (a full disk among them) end the whole transaction at once.
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

    /// Cuts the log when a disk is full: on a small one the log itself may be what fills it, and it
    /// would grow no further to where it is copied back by itself.
    fn make_room(&mut self, fault: &rusqlite::Error) {
        if matches!(
            fault.sqlite_error_code(),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure)
        ) {
            self.cut_log();
        }
    }

    /// Copies the log back and cuts it; what has no room now is tried again before the next jobs.
    fn cut_log(&mut self) {
        let cut = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.cramped = cut.is_err();
        if let Err(error) = cut {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the log of the state database cannot be cut now"
            );
        }
    }

    fn note(&mut self, fault: &rusqlite::Error) {
        if fault.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) && !self.damaged {
            self.damaged = true;
            tracing::error!(
                "the state database is damaged; it is checked, and replaced if need be, at the next start"
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
