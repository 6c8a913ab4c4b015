//! The connection to Mochat: the socket, and polls over HTTP while there is none.
//!
//! Decision: both are one connection of the kit's receive loop. It brings news of targets, pushed
//! or as a poll that is due, and goes on while the socket is replaced. It ends only when polls fail,
//! too. News of the same target are handled in order, whichever way they came.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::Refusal as _;
use nanobot_channel_kit::push::{PushConnection, PushEnd, Pushed};

use crate::attempt::{
    Attempt, Established, Waiting, directory_after, first_attempt, later_attempt, next_directory,
};
use crate::channel::Mochat;
use crate::checks::{CheckOutcome, Checks};
use crate::error::CallError;
use crate::event::SocketNews;
use crate::news::{News, NewsReceipt, TargetNews};
use crate::socket::{SocketEvent, SocketIo};
use crate::target::Target;
use crate::wire::{Batch, Directory};

/// Failed polls in a row after which Mochat counts as unreachable.
const MAX_FAILURES: u32 = 3;
/// Number of targets up to which each has a poll that waits for news.
const MAX_WATCHED: usize = 32;
/// Messages of conversations whose session is not known yet.
const MAX_UNPLACED: usize = 100;
/// The time after which polls begin while the first attempt to connect goes on.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);

/// A connection. Dropping it closes it.
pub struct Connection {
    platform: Arc<Mochat>,
    mode: Mode,
    ready: VecDeque<TargetNews>,
    checks: Checks,
    /// The next list of sessions and panels.
    directory: Waiting<Result<Directory, CallError>>,
    /// Messages by conversation, until the session is known.
    unplaced: Vec<(String, Value)>,
    /// Targets to which the socket has no subscription.
    refused: BTreeSet<Target>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("polls", &self.polls())
            .finish_non_exhaustive()
    }
}

/// The way in which news arrive.
enum Mode {
    /// They are pushed.
    Socket(Box<SocketIo>),
    /// They are polled, until this attempt to connect succeeds.
    Polling { attempt: Attempt, failures: u32 },
}

/// Something that happened.
enum Step {
    Socket(Result<SocketEvent, String>),
    Attempt(Result<Established, CallError>),
    Directory(Result<Directory, CallError>),
    Silence(String),
    CheckDue,
}

impl Mode {
    async fn next(&mut self) -> Step {
        match self {
            Self::Socket(socket) => Step::Socket(socket.next().await),
            Self::Polling { attempt, .. } => Step::Attempt(attempt.await),
        }
    }
}

impl Connection {
    /// Begins to receive. Polls begin if the socket cannot be opened soon.
    pub(crate) async fn open(platform: &Arc<Mochat>) -> Result<Self, PushEnd> {
        let mut connection = Self {
            mode: Mode::Polling {
                attempt: first_attempt(platform),
                failures: 0,
            },
            ready: VecDeque::new(),
            checks: Checks::default(),
            directory: next_directory(platform),
            unplaced: Vec::new(),
            refused: BTreeSet::new(),
            platform: Arc::clone(platform),
        };
        if let Ok(Step::Attempt(attempt)) =
            tokio::time::timeout(FIRST_PATIENCE, connection.mode.next()).await
        {
            connection.attempted(attempt)?;
        }
        if connection.polls() {
            connection.check_all();
        }
        Ok(connection)
    }

    fn polls(&self) -> bool {
        matches!(self.mode, Mode::Polling { .. })
    }

    /// Schedules a poll of every target.
    fn check_all(&mut self) {
        for target in self.platform.targets.all() {
            self.checks.schedule(target, Duration::ZERO);
        }
    }

    /// Returns a poll. It waits for news only if there is no socket, and if there are few targets.
    fn check(&self, target: Target) -> TargetNews {
        let waits = self.polls() && self.platform.targets.all().len() <= MAX_WATCHED;
        TargetNews {
            target,
            news: News::Check { waits },
        }
    }

    /// Takes over a socket, or plans the next attempt.
    fn attempted(&mut self, attempt: Result<Established, CallError>) -> Result<(), PushEnd> {
        let platform = Arc::clone(&self.platform);
        let error = match attempt {
            Ok(Established { socket, events }) => {
                tracing::debug!(channel = %platform.base.name, "messages are pushed");
                platform.trouble.set(None);
                self.mode = Mode::Socket(socket);
                for event in events {
                    self.pushed(event);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let error = error.unambiguous();
        if let CallError::Refused(refusal) = &error
            && let auth @ ChannelError::Auth(_) = refusal.to_channel_error()
        {
            return Err(PushEnd::Final(auth));
        }
        tracing::debug!(channel = %platform.base.name, %error, "the socket cannot be opened");
        // The reason of the call alone: the platform itself can be reached, as polls show.
        let why = format!("messages are polled, because the socket cannot be opened: {error}");
        platform.trouble.set(Some(why));
        let failures = match &self.mode {
            Mode::Polling { failures, .. } => failures.saturating_add(1),
            Mode::Socket(_) => 1,
        };
        self.mode = Mode::Polling {
            attempt: later_attempt(&platform, failures),
            failures,
        };
        Ok(())
    }

    /// Polls from now on, and plans to connect again.
    fn lost(&mut self, why: &str) {
        tracing::debug!(channel = %self.platform.base.name, why, "the socket was lost");
        self.mode = Mode::Polling {
            attempt: later_attempt(&self.platform, 0),
            failures: 0,
        };
        self.refused.clear();
        self.check_all();
    }

    /// Sorts an event of the socket. `true` for a sign of life.
    fn pushed(&mut self, event: SocketEvent) -> bool {
        match event {
            SocketEvent::Activity => return true,
            SocketEvent::Nothing => {}
            SocketEvent::Subscribed(targets, data) => self.subscribed(targets, &data),
            SocketEvent::Refused(targets, why) => self.refused(targets, &why),
            SocketEvent::Event(name, argument) => match SocketNews::read(&name, argument) {
                Some(SocketNews::Batch(target, batch)) => self.bring(target, News::Batch(batch)),
                Some(SocketNews::Panel(panel, event)) => {
                    let batch = Batch {
                        target: panel.clone(),
                        events: vec![event],
                        ..Batch::default()
                    };
                    self.bring(Target::Panel(panel), News::Batch(batch));
                }
                Some(SocketNews::Inbox { converse, entry }) => self.place(converse, entry),
                None => {}
            },
        }
        false
    }

    /// Takes the answer to a subscription: the news of its sessions. The others are asked.
    fn subscribed(&mut self, targets: Vec<Target>, data: &Value) {
        let batches = Batch::read_all(data);
        for target in targets {
            self.refused.remove(&target);
            let is_answered = batches.iter().any(|batch| batch.target == target.id());
            match &target {
                Target::Session(_) if is_answered => {}
                Target::Session(session) if self.platform.targets.cursor(session).is_none() => {
                    self.platform.targets.warm(session);
                }
                // Panels have no position on the socket.
                _ => self.checks.schedule(target, Duration::ZERO),
            }
        }
        for batch in batches {
            let target = Target::Session(batch.target.clone());
            if self.platform.targets.is_session(target.id()) {
                self.bring(target, News::Batch(batch));
            }
        }
    }

    /// Polls targets to which the socket has no subscription.
    fn refused(&mut self, targets: Vec<Target>, why: &str) {
        for target in targets {
            let id = target.id();
            tracing::debug!(channel = %self.platform.base.name, id, why, "a subscription was refused");
            self.checks.schedule(target.clone(), Duration::ZERO);
            self.refused.insert(target);
        }
    }

    /// Takes the message of a conversation. An unknown conversation is looked up first.
    fn place(&mut self, converse: String, entry: Value) {
        if let Some(session) = self.platform.targets.session_of(&converse) {
            self.bring(Target::Session(session), News::Inbox(entry));
        } else if self.unplaced.len() < MAX_UNPLACED {
            self.unplaced.push((converse, entry));
            self.directory = directory_after(&self.platform, Duration::ZERO);
        }
    }

    fn bring(&mut self, target: Target, news: News) {
        if self
            .platform
            .targets
            .accepts(&target, &self.platform.config)
        {
            self.ready.push_back(TargetNews { target, news });
        }
    }

    /// Takes a list of sessions and panels: new ones are subscribed to, or polled.
    async fn listed(&mut self, listed: Result<Directory, CallError>) -> Result<(), PushEnd> {
        let platform = Arc::clone(&self.platform);
        self.directory = next_directory(&platform);
        let directory = match listed.map_err(CallError::repeatable) {
            Ok(directory) => directory,
            Err(ChannelError::Auth(why)) => {
                return Err(PushEnd::Final(ChannelError::Auth(why)));
            }
            Err(error) => {
                tracing::debug!(channel = %platform.base.name, %error, "sessions cannot be listed");
                return Ok(());
            }
        };
        let added = platform.targets.add(&directory, &platform.config);
        self.subscribe(&added).await;
        let polls = self.polls();
        for target in added {
            if polls || matches!(target, Target::Panel(_)) {
                self.checks.schedule(target, Duration::ZERO);
            }
        }
        for (converse, entry) in std::mem::take(&mut self.unplaced) {
            if let Some(session) = platform.targets.session_of(&converse) {
                self.bring(Target::Session(session), News::Inbox(entry));
            }
        }
        Ok(())
    }

    /// Subscribes to targets one by one, so that one that is refused is the only one.
    async fn subscribe(&mut self, targets: &[Target]) {
        if let Mode::Socket(socket) = &mut self.mode {
            let targets = self.platform.positions(targets);
            if let Err(why) = socket.subscribe(&targets, 1).await {
                self.lost(&why);
            }
        }
    }

    /// Plans the next poll of a target after one ended.
    fn checked(&mut self, receipt: NewsReceipt) {
        let NewsReceipt {
            target,
            is_check,
            outcome,
        } = receipt;
        if is_check {
            self.checks.end(&target, outcome);
        }
        let config = &self.platform.config;
        let is_polled = self.polls() || self.refused.contains(&target);
        let is_watched = self.polls()
            && matches!(target, Target::Session(_))
            && self.platform.targets.all().len() <= MAX_WATCHED;
        let pause = match outcome {
            CheckOutcome::Failed(pause) => {
                let own = self.checks.pause(config.retry_delay());
                pause.map_or(own, |pause| pause.max(own))
            }
            _ if !(is_check && is_polled) => return,
            CheckOutcome::Answered if is_watched => Duration::ZERO,
            CheckOutcome::Answered | CheckOutcome::Gone => config.refresh_interval(),
        };
        self.checks.schedule(target, pause);
    }
}

impl PushConnection for Connection {
    type Event = TargetNews;
    type Receipt = NewsReceipt;

    async fn next(&mut self) -> Result<Pushed<TargetNews>, PushEnd> {
        if let Some(news) = self.ready.pop_front() {
            return Ok(Pushed::Event(news));
        }
        if let Some(target) = self.checks.start() {
            return Ok(Pushed::Event(self.check(target)));
        }
        let step = tokio::select! {
            step = self.mode.next() => step,
            listed = &mut self.directory => Step::Directory(listed),
            panel = self.platform.targets.silent_panel() => Step::Silence(panel),
            () = self.checks.wait() => Step::CheckDue,
        };
        match step {
            Step::Socket(Ok(event)) => {
                if self.pushed(event) {
                    return Ok(Pushed::Activity);
                }
            }
            Step::Socket(Err(why)) => self.lost(&why),
            Step::Attempt(attempt) => self.attempted(attempt)?,
            Step::Directory(listed) => {
                let is_poll = self.polls() && listed.is_ok();
                self.listed(listed).await?;
                if is_poll {
                    return Ok(Pushed::Activity);
                }
            }
            Step::Silence(panel) => {
                return Ok(Pushed::Event(TargetNews {
                    target: Target::Panel(panel),
                    news: News::Silence,
                }));
            }
            Step::CheckDue => {}
        }
        Ok(Pushed::Nothing)
    }

    async fn confirm(&mut self, receipts: Vec<NewsReceipt>) -> Result<(), PushEnd> {
        let mut found = Vec::new();
        for receipt in receipts {
            let is_there = receipt.is_check && receipt.outcome == CheckOutcome::Answered;
            if is_there && self.refused.contains(&receipt.target) {
                found.push(receipt.target.clone());
            }
            self.checked(receipt);
        }
        if !found.is_empty() {
            self.subscribe(&found).await;
        }
        if self.polls() && self.checks.failures() >= MAX_FAILURES {
            return Err(PushEnd::Lost("polls fail, too".to_owned()));
        }
        Ok(())
    }
}
