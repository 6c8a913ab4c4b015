//! Reloads channels when the configuration file changes.
//!
//! Decision: a file event only triggers a comparison of the file's stamp; the file is read if the
//! stamp changed. A file that is still being written, is empty, or cannot be used changes nothing:
//! running channels continue. All other sections are read at the next start.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nanobot_channel::ChannelName;
use nanobot_channels::{ChannelManager, ManagedChannel};
use nanobot_config::ConfigError;
use nanobot_redact::Secrets;
use nanobot_watch::FileWatch;

use crate::assembly::secrets;

use crate::Runtime;
use crate::assembly::channels::{
    BuiltChannel, BuiltChannels, ConfiguredChannel, build_all, configured_channels,
};

/// Time that the file has to stay unchanged before it is read (debounce).
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Modification time and length, which identify a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
}

/// Follows the configuration file.
pub(crate) struct ChannelReload {
    file: PathBuf,
    runtime: Runtime,
    stamp: Option<FileStamp>,
    channels: BuiltChannels,
    secrets: Secrets,
}

impl ChannelReload {
    /// Returns a reload of the file that `runtime` was loaded from; `channels` are its channels.
    pub(crate) fn new(runtime: Runtime, channels: BuiltChannels, secrets: Secrets) -> Self {
        // Without a stamp the first check reads the file again: it may have changed since it was
        // loaded.
        Self {
            stamp: None,
            file: runtime.config().paths().config_file.clone(),
            runtime,
            channels,
            secrets,
        }
    }

    /// Returns the channels as they are configured now.
    pub(crate) fn channels(&self) -> &BuiltChannels {
        &self.channels
    }

    /// Returns the channels that run.
    pub(crate) fn built(&self) -> Vec<ManagedChannel> {
        self.channels
            .values()
            .filter_map(|(_, built)| built.as_ref().ok())
            .map(|built| built.managed.clone())
            .collect()
    }

    /// Returns the channels that cannot be made, and why.
    pub(crate) fn refused(&self) -> Vec<(ChannelName, String)> {
        let refused = |(name, (_, built)): (&ChannelName, &(_, Result<BuiltChannel, String>))| {
            built.as_ref().err().map(|why| (name.clone(), why.clone()))
        };
        self.channels.iter().filter_map(refused).collect()
    }

    /// Follows the file for ever.
    pub(crate) async fn run(mut self, manager: &ChannelManager, watch: &FileWatch) {
        let mut changes = watch.follow(&self.file);
        loop {
            self.reload_if_changed(manager).await;
            changes.changed().await;
        }
    }

    async fn reload_if_changed(&mut self, manager: &ChannelManager) {
        if stamp(&self.file) == self.stamp {
            return;
        }
        // A missing file may be in the middle of being replaced.
        let Some(stamp) = wait_until_stable(&self.file).await else {
            return;
        };
        self.stamp = Some(stamp);
        if stamp.length == 0 {
            tracing::warn!("the configuration file is empty; keeping the running channels");
            return;
        }
        match self.read() {
            Ok(configured) => self.apply(configured, manager).await,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the changed configuration is invalid; keeping the running channels"
                );
            }
        }
    }

    fn read(&self) -> Result<Vec<ConfiguredChannel>, ConfigError> {
        let runtime = self.runtime.reload()?;
        self.secrets.add(secrets::values(runtime.config()));
        Ok(configured_channels(&runtime)?
            .into_iter()
            .map(|configured| configured.registering_tokens(&self.secrets))
            .collect())
    }

    /// Stops, starts and updates channels to match the configuration.
    async fn apply(&mut self, configured: Vec<ConfiguredChannel>, manager: &ChannelManager) {
        let mut next = build_all(configured);
        let removed: Vec<ChannelName> = self
            .channels
            .keys()
            .filter(|name| !next.contains_key(*name))
            .cloned()
            .collect();
        for name in removed {
            tracing::info!(channel = %name, "stopping a channel that is no longer enabled");
            self.channels.remove(&name);
            manager.remove(&name).await;
        }
        // Refused channels first: one of them may give up an account that another takes over.
        let refused = next
            .extract_if(.., |_, (_, built)| built.is_err())
            .collect::<BuiltChannels>();
        for (name, (configured, built)) in refused.into_iter().chain(next) {
            match (self.channels.get(&name), &built) {
                (Some((before, Ok(running))), Ok(fresh)) if before.is_same_channel(&configured) => {
                    let settings = fresh.settings.borrow().clone();
                    let has_changed = running.settings.send_if_modified(|current| {
                        let has_changed = *current != settings;
                        *current = settings;
                        has_changed
                    });
                    if has_changed {
                        tracing::info!(channel = %name, "the channel's settings changed");
                    }
                    continue;
                }
                (Some((_, Err(before))), Err(why)) if before == why => {}
                (_, Ok(fresh)) => {
                    tracing::info!(channel = %name, "starting the channel with the changed configuration");
                    manager.put(&fresh.managed).await;
                }
                (_, Err(why)) => {
                    tracing::error!(channel = %name, why, "the channel cannot use the changed configuration");
                    manager.refuse(&name, why.clone()).await;
                }
            }
            self.channels.insert(name, (configured, built));
        }
    }
}

impl std::fmt::Debug for ChannelReload {
    /// Omits the channels, which hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelReload")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Returns the stamp of a file once it stops changing; `None` if the file is missing.
async fn wait_until_stable(file: &Path) -> Option<FileStamp> {
    let mut last = stamp(file);
    loop {
        tokio::time::sleep(DEBOUNCE).await;
        let now = stamp(file);
        if now == last {
            return now;
        }
        last = now;
    }
}

pub(super) fn stamp(file: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(file).ok()?;
    Some(FileStamp {
        modified: metadata.modified().ok(),
        length: metadata.len(),
    })
}
