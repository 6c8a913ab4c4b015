//! Runs all channels: a supervisor and an outbound worker for each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{Bus, Ledger};
use nanobot_channel::{Access, Channel, ChannelName, CommandInfo, Transcriber};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::AllowList;
use crate::health::{Health, HealthState};
use crate::intake::LedgerIntake;
use crate::orphans::Orphans;
use crate::outbound::OutboundWorker;
use crate::supervisor::Supervisor;
use crate::typing::TypingKeeper;
use crate::waiting::Waiting;
use crate::{ChannelSettings, ChannelsError, FileMediaStore, Stickers};

/// How long tasks have to end after they were told to.
const END_WITHIN: Duration = Duration::from_secs(3);

/// A channel and its settings.
#[derive(Clone, Debug)]
pub struct ManagedChannel {
    /// The channel.
    pub channel: Arc<dyn Channel>,
    /// Its settings. A new value counts from the next message on.
    pub settings: watch::Receiver<ChannelSettings>,
}

impl ManagedChannel {
    /// A channel whose settings stay as they are.
    #[must_use]
    pub fn fixed(channel: Arc<dyn Channel>, settings: ChannelSettings) -> Self {
        // A receiver keeps the last value when its sender is gone.
        Self { channel, settings: watch::channel(settings).1 }
    }
}

/// Where files that come with messages are kept.
#[derive(Clone, Debug)]
pub struct MediaSettings {
    /// The folder, in which every channel has its own.
    pub root: PathBuf,
    /// The largest file that is kept, in bytes.
    pub limit: u64,
}

impl MediaSettings {
    /// Files of up to 20 MiB below `root`: what Telegram lets a bot download.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), limit: 20 << 20 }
    }
}

/// What the manager is made of.
#[derive(Debug)]
pub struct ChannelManagerParts {
    /// Where messages come from and go to.
    pub bus: Arc<dyn Bus>,
    /// The same, to find messages that nobody will send.
    pub ledger: Arc<dyn Ledger>,
    /// The channels that run.
    pub channels: Vec<ManagedChannel>,
    /// Configured channels that could not be made, and why: they are shown as failed.
    pub refused: Vec<(ChannelName, String)>,
    /// Where files go.
    pub media: MediaSettings,
    /// Pictures that messages name.
    pub stickers: Stickers,
    /// Speech to text, where it is configured.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    /// The slash commands that platforms show in their menus.
    pub commands: Arc<[CommandInfo]>,
    /// Fires when everything has to stop at once.
    pub cancel: CancellationToken,
    /// Where tasks are spawned.
    pub tasks: TaskTracker,
}

/// The channels, running.
#[derive(Debug)]
pub struct ChannelManager {
    health: Health,
    intake_closed: CancellationToken,
    flush: CancellationToken,
    cancel: CancellationToken,
    workers: TaskTracker,
    receivers: TaskTracker,
}

impl ChannelManager {
    /// Starts all channels. Returns at once; [`ChannelManager::health`] tells how they fare.
    ///
    /// # Errors
    /// [`ChannelsError::DuplicateName`]; nothing is started then.
    pub fn start(parts: &ChannelManagerParts) -> Result<Self, ChannelsError> {
        let mut names = BTreeSet::new();
        for managed in &parts.channels {
            if !names.insert(managed.channel.name().clone()) {
                return Err(ChannelsError::DuplicateName { name: managed.channel.name().clone() });
            }
        }
        let manager = Self {
            health: Health::default(),
            intake_closed: parts.cancel.child_token(),
            flush: CancellationToken::new(),
            cancel: parts.cancel.child_token(),
            workers: TaskTracker::new(),
            receivers: TaskTracker::new(),
        };
        for (name, why) in &parts.refused {
            manager.health.set(name, HealthState::Failed { why: why.clone() });
        }
        for managed in &parts.channels {
            manager.start_channel(parts, managed);
        }
        let orphans = Orphans {
            bus: Arc::clone(&parts.bus),
            ledger: Arc::clone(&parts.ledger),
            channels: names,
            cancel: manager.cancel.clone(),
        };
        manager.receivers.spawn(parts.tasks.track_future(orphans.run()));
        Ok(manager)
    }

    fn start_channel(&self, parts: &ChannelManagerParts, managed: &ManagedChannel) {
        let ManagedChannel { channel, settings } = managed;
        let name = channel.name().clone();
        let access = AllowList::new(name.clone(), settings.clone());
        access.announce();
        let access: Arc<dyn Access> = Arc::new(access);
        let typing = TypingKeeper::new(Arc::clone(channel), self.cancel.clone(), parts.tasks.clone());
        let worker = OutboundWorker {
            channel: Arc::clone(channel),
            settings: settings.clone(),
            bus: Arc::clone(&parts.bus),
            typing: typing.clone(),
            flush: self.flush.clone(),
            cancel: self.cancel.clone(),
            waiting: Waiting::default(),
            stickers: parts.stickers.clone(),
        };
        self.workers.spawn(parts.tasks.track_future(worker.run()));
        let intake = LedgerIntake {
            channel: name.clone(),
            access: Arc::clone(&access),
            bus: Arc::clone(&parts.bus),
            typing,
            closed: self.intake_closed.clone(),
        };
        let supervisor = Supervisor {
            channel: Arc::clone(channel),
            settings: settings.clone(),
            access,
            intake: Arc::new(intake),
            media: Arc::new(FileMediaStore::new(&parts.media.root, &name, parts.media.limit)),
            transcriber: parts.transcriber.clone(),
            commands: Arc::clone(&parts.commands),
            health: self.health.clone(),
            cancel: self.cancel.clone(),
            tasks: parts.tasks.clone(),
        };
        self.receivers.spawn(parts.tasks.track_future(supervisor.run()));
    }

    /// How the channels are.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Takes nothing more in; channels are told not to acknowledge. Replies still go out.
    pub fn close_intake(&self) {
        self.intake_closed.cancel();
    }

    /// Sends what is in the queues now, for at most `grace`, and no more afterwards. `true` when
    /// the queues ran empty; the rest stays in the ledger.
    pub async fn flush(&self, grace: Duration) -> bool {
        self.flush.cancel();
        self.workers.close();
        tokio::time::timeout(grace, self.workers.wait()).await.is_ok()
    }

    /// Stops everything within a few seconds. `true` when all tasks ended.
    pub async fn stop(self) -> bool {
        self.close_intake();
        self.cancel.cancel();
        self.workers.close();
        self.receivers.close();
        let ended = async {
            self.workers.wait().await;
            self.receivers.wait().await;
        };
        tokio::time::timeout(END_WITHIN, ended).await.is_ok()
    }
}
