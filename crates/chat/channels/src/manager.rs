//! Runs all channels: a supervisor and an outbound worker for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_bus::{Bus, Ledger};
use nanobot_channel::{Access, Channel, ChannelName, CommandInfo, Transcriber};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::ChannelAccess;
use crate::health::{Health, HealthState};
use crate::intake::LedgerIntake;
use crate::managed::ManagedChannel;
use crate::orphans::Orphans;
use crate::outbound::OutboundWorker;
use crate::replaceable::Replaceable;
use crate::supervisor::Supervisor;
use crate::waiting::WaitingChats;
use crate::working::WorkKeeper;
use crate::{ChannelWatch, ChannelsError, FileMediaStore, FileNotes, NoWatch, Stickers};

/// Time tasks have to end after they were cancelled.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Location and size limit of files that come with messages.
#[derive(Clone, Debug)]
pub struct MediaSettings {
    /// Folder with one subfolder per channel.
    pub root: PathBuf,
    /// Maximum size of a stored file, in bytes.
    pub limit: u64,
}

impl MediaSettings {
    /// Stores files of up to 20 MiB below `root`: the limit for downloads by a Telegram bot.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            limit: 20 << 20,
        }
    }
}

/// Everything the manager needs.
#[derive(Debug)]
pub struct ChannelManagerParts {
    /// Bus that messages come from and go to.
    pub bus: Arc<dyn Bus>,
    /// The ledger of the same bus, used to find orphaned messages.
    pub ledger: Arc<dyn Ledger>,
    /// Channels to run.
    pub channels: Vec<ManagedChannel>,
    /// Configured channels that could not be created, with the reason: they are shown as failed.
    pub refused: Vec<(ChannelName, String)>,
    /// Storage of media files.
    pub media: MediaSettings,
    /// Folder with one subfolder of notes per channel.
    pub notes: PathBuf,
    /// Stickers that messages refer to by name.
    pub stickers: Stickers,
    /// Speech to text, if configured.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    /// Slash commands that platforms show in their menus.
    pub commands: Arc<[CommandInfo]>,
    /// Permit for [`ChannelContext::suspects`](nanobot_channel::ChannelContext::suspects). If turns
    /// run in the same process, it is the one of their `StepLog`.
    pub suspects: Arc<Semaphore>,
    /// Observer of sent messages and rejected people.
    pub watch: Arc<dyn ChannelWatch>,
    /// Handle through which health is reported.
    pub health: Health,
    /// Fires when everything has to stop at once.
    pub cancel: CancellationToken,
    /// Tracker that all tasks are spawned on.
    pub tasks: TaskTracker,
}

impl ChannelManagerParts {
    /// Creates the parts for channels on a bus, with their files below `folder`. There is no speech
    /// to text and there are no slash commands; the health map, token and tracker are new.
    #[must_use]
    pub fn new<B>(bus: &B, channels: Vec<ManagedChannel>, folder: impl Into<PathBuf>) -> Self
    where
        B: Bus + Ledger + Clone + 'static,
    {
        let folder = folder.into();
        Self {
            bus: Arc::new(bus.clone()),
            ledger: Arc::new(bus.clone()),
            channels,
            refused: Vec::new(),
            media: MediaSettings::below(folder.join("media")),
            notes: folder.join("notes"),
            stickers: Stickers::in_folder(folder.join("stickers"), folder.join("outbox")),
            transcriber: None,
            commands: Arc::default(),
            suspects: Arc::new(Semaphore::new(1)),
            watch: Arc::new(NoWatch),
            health: Health::default(),
            cancel: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }
}

/// The running channels.
#[derive(Debug)]
pub struct ChannelManager {
    shared: ManagerShared,
    health: Health,
    running: Mutex<BTreeMap<ChannelName, RunningTask>>,
    /// Names of the running channels, of one that is being replaced, and of refused ones.
    names: watch::Sender<BTreeSet<ChannelName>>,
    intake_closed: CancellationToken,
    flush: CancellationToken,
    cancel: CancellationToken,
    workers: TaskTracker,
    receivers: TaskTracker,
}

/// Resources shared by all channels.
#[derive(Debug)]
struct ManagerShared {
    bus: Arc<dyn Bus>,
    ledger: Arc<dyn Ledger>,
    media: MediaSettings,
    notes: PathBuf,
    stickers: Stickers,
    transcriber: Option<Arc<dyn Transcriber>>,
    commands: Arc<[CommandInfo]>,
    suspects: Arc<Semaphore>,
    watch: Arc<dyn ChannelWatch>,
    tasks: TaskTracker,
}

/// A running channel.
#[derive(Debug)]
struct RunningTask {
    cancel: CancellationToken,
    worker: JoinHandle<()>,
    receiver: JoinHandle<()>,
}

impl ChannelManager {
    /// Starts all channels. Returns at once; [`ChannelManager::health`] reports how they are.
    ///
    /// # Errors
    /// Returns [`ChannelsError::DuplicateName`] if two channels share a name; nothing is started
    /// then.
    pub fn start(parts: &ChannelManagerParts) -> Result<Self, ChannelsError> {
        let mut names = BTreeSet::new();
        for managed in &parts.channels {
            if !names.insert(managed.name().clone()) {
                return Err(ChannelsError::DuplicateName {
                    name: managed.name().clone(),
                });
            }
        }
        let refused = parts.refused.iter().map(|(name, _)| name.clone());
        let manager = Self {
            shared: ManagerShared {
                bus: Arc::clone(&parts.bus),
                ledger: Arc::clone(&parts.ledger),
                media: parts.media.clone(),
                notes: parts.notes.clone(),
                stickers: parts.stickers.clone(),
                transcriber: parts.transcriber.clone(),
                commands: Arc::clone(&parts.commands),
                suspects: Arc::clone(&parts.suspects),
                watch: Arc::clone(&parts.watch),
                tasks: parts.tasks.clone(),
            },
            health: parts.health.clone(),
            running: Mutex::default(),
            names: watch::channel(names.into_iter().chain(refused).collect()).0,
            intake_closed: parts.cancel.child_token(),
            flush: CancellationToken::new(),
            cancel: parts.cancel.child_token(),
            workers: TaskTracker::new(),
            receivers: TaskTracker::new(),
        };
        for (name, why) in &parts.refused {
            manager
                .health
                .set(name, HealthState::Failed { why: why.clone() });
        }
        for managed in &parts.channels {
            manager.start_channel(managed);
        }
        let orphans = Orphans {
            bus: Arc::clone(&parts.bus),
            ledger: Arc::clone(&parts.ledger),
            channels: manager.names.subscribe(),
            cancel: manager.cancel.clone(),
        };
        manager
            .receivers
            .spawn(parts.tasks.track_future(orphans.run()));
        Ok(manager)
    }

    fn start_channel(&self, managed: &ManagedChannel) {
        let (shared, settings) = (&self.shared, &managed.settings);
        let name = managed.name().clone();
        let cancel = self.cancel.child_token();
        let channel = Arc::new(Replaceable::new(
            Arc::clone(&managed.channel),
            managed.remake.clone(),
        ));
        let access = ChannelAccess::new(
            name.clone(),
            settings.clone(),
            managed.pairing.clone(),
            Arc::clone(&shared.watch),
        );
        access.log_notices();
        let access: Arc<dyn Access> = Arc::new(access);
        let working = WorkKeeper::new(
            Arc::clone(&channel) as Arc<dyn Channel>,
            Arc::clone(&shared.bus),
            settings.clone(),
            cancel.clone(),
            shared.tasks.clone(),
        );
        let worker = OutboundWorker {
            channel: Arc::clone(&channel) as Arc<dyn Channel>,
            settings: settings.clone(),
            bus: Arc::clone(&shared.bus),
            ledger: Arc::clone(&shared.ledger),
            working: working.clone(),
            flush: self.flush.clone(),
            cancel: cancel.clone(),
            waiting: WaitingChats::default(),
            delivered: None,
            stickers: shared.stickers.clone(),
            watch: Arc::clone(&shared.watch),
        };
        let worker = self.workers.spawn(shared.tasks.track_future(worker.run()));
        let intake = LedgerIntake {
            channel: name.clone(),
            access: Arc::clone(&access),
            bus: Arc::clone(&shared.bus),
            working,
            closed: self.intake_closed.clone(),
        };
        let supervisor = Supervisor {
            channel,
            settings: settings.clone(),
            claim: managed.claim.clone(),
            access,
            intake: Arc::new(intake),
            media: Arc::new(FileMediaStore::new(
                &shared.media.root,
                &name,
                shared.media.limit,
            )),
            notes: Arc::new(FileNotes::new(&shared.notes, &name)),
            transcriber: shared.transcriber.clone(),
            commands: Arc::clone(&shared.commands),
            suspects: Arc::clone(&shared.suspects),
            health: self.health.clone(),
            cancel: cancel.clone(),
            tasks: shared.tasks.clone(),
        };
        let receiver = self
            .receivers
            .spawn(shared.tasks.track_future(supervisor.run()));
        self.names
            .send_if_modified(|names| names.insert(name.clone()));
        self.running().insert(
            name,
            RunningTask {
                cancel,
                worker,
                receiver,
            },
        );
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<ChannelName, RunningTask>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a channel, after stopping the one of the same name. Messages waiting in the ledger
    /// for that name go to the new one. Does nothing during shutdown. Calls must not overlap.
    pub async fn put(&self, managed: &ManagedChannel) {
        self.end(managed.name()).await;
        if !self.is_ending() {
            self.start_channel(managed);
        }
    }

    /// Stops a channel and forgets it. Messages waiting for it in the ledger fail within a minute.
    pub async fn remove(&self, name: &ChannelName) {
        self.end(name).await;
        self.names.send_if_modified(|names| names.remove(name));
        self.health.forget(name);
    }

    /// Marks a channel that can no longer be created as failed. The one running under its name is
    /// stopped; messages waiting for it stay in the ledger.
    pub async fn refuse(&self, name: &ChannelName, why: String) {
        self.end(name).await;
        self.names
            .send_if_modified(|names| names.insert(name.clone()));
        self.health.set(name, HealthState::Failed { why });
    }

    /// Stops one channel. As at shutdown, a part in flight has some time to finish.
    async fn end(&self, name: &ChannelName) {
        let Some(running) = self.running().remove(name) else {
            return;
        };
        running.cancel.cancel();
        let ended = async { tokio::join!(running.worker, running.receiver) };
        if tokio::time::timeout(END_TIMEOUT, ended).await.is_err() {
            tracing::warn!(channel = %name, "the channel did not end in time; abandoning it");
        }
    }

    fn is_ending(&self) -> bool {
        self.cancel.is_cancelled() || self.intake_closed.is_cancelled() || self.flush.is_cancelled()
    }

    /// Returns the health of the channels.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Stops accepting messages: channels must not acknowledge them. Replies still go out.
    pub fn close_intake(&self) {
        self.intake_closed.cancel();
    }

    /// Sends what is queued now, for at most `grace`, then stops sending. Returns `true` if the
    /// queues ran empty; the rest stays in the ledger.
    pub async fn flush(&self, grace: Duration) -> bool {
        self.flush.cancel();
        self.workers.close();
        tokio::time::timeout(grace, self.workers.wait())
            .await
            .is_ok()
    }

    /// Stops everything within a few seconds. Returns `true` if all tasks ended.
    pub async fn stop(self) -> bool {
        self.close_intake();
        self.cancel.cancel();
        self.workers.close();
        self.receivers.close();
        let ended = async {
            self.workers.wait().await;
            self.receivers.wait().await;
        };
        tokio::time::timeout(END_TIMEOUT, ended).await.is_ok()
    }
}
