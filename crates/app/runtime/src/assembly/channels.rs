//! Reads the channels of a configuration and makes them.
//!
//! Decision: two channels that receive for one account are refused by name, because a platform
//! would give each message to one of the two, or to both. Across gateways of one user the same is
//! ensured by a lock under `~/.cache/nanobot`, named by a digest of the account. That folder is the
//! same for all homes of the user (containers aside), and a crash releases the lock. A receiver on
//! another machine is known only to the platform.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, ChannelName, Notes, RawConfig};
use nanobot_channels::{
    ChannelSettings, ChannelsError, DeliverySettings, FileNotes, ManagedChannel, PairingStore,
};
use nanobot_config::ConfigError;
use nanobot_control::TERMINAL_CHANNEL;
use nanobot_redact::Secrets;
use nanobot_tools::{ToolsConfig, WebConfig};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::extensions::Extensions;
use super::redacting_notes::RedactingNotes;
use super::settings::LifecycleNotices;
use crate::Runtime;
use crate::error::chain;

/// The only key of `channels` that is not a channel.
pub(crate) const LIFECYCLE_NOTICES: &str = "lifecycleNotices";

/// Keys that every channel's section has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Enabled {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    kind: Option<String>,
}

/// A channel of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct ConfiguredChannel {
    pub(crate) name: ChannelName,
    pub(crate) kind: String,
    pub(crate) is_enabled: bool,
    /// Input of the platform's factory.
    pub(crate) raw: RawConfig,
    /// Defaults of `channels`, which the channel's own section may override.
    shared: DeliverySettings,
    /// Path of the lock of the account.
    claim: Option<PathBuf>,
    /// Approved people.
    pairing: PairingStore,
    /// The notes on disk.
    notes: FileNotes,
    data_dir: PathBuf,
    extensions: Arc<Extensions>,
}

/// Returns the channels of a configuration, ordered by name.
pub(crate) fn configured_channels(
    runtime: &Runtime,
) -> Result<Vec<ConfiguredChannel>, ConfigError> {
    let config = runtime.config();
    // Both sections are checked even if there is no channel.
    let _: DeliverySettings = config.section("channels")?;
    let _: LifecycleNotices = config.section(&format!("channels.{LIFECYCLE_NOTICES}"))?;
    let names = config.names("channels")?;
    names
        .iter()
        .filter(|name| *name != LIFECYCLE_NOTICES)
        .map(|name| ConfiguredChannel::read(runtime, name))
        .collect()
}

/// Returns an id of the account that a channel receives for. It is a digest, because it is made of
/// secrets.
fn account(extensions: &Extensions, kind: &str, raw: &RawConfig) -> Option<String> {
    let credentials = extensions.channels.factory(kind).ok()?.credentials();
    let mut digest = Sha256::new_with_prefix(kind);
    let mut is_known = false;
    for credential in credentials
        .iter()
        .filter(|credential| credential.is_identity)
    {
        let value = raw
            .section
            .get(credential.key)
            .and_then(Value::as_str)
            .map(str::trim)?;
        if value.is_empty() {
            return None;
        }
        digest.update([0]);
        digest.update(value);
        is_known = true;
    }
    let hex: String = digest
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    is_known.then(|| format!("{kind}-{hex}"))
}

/// A channel, and the sender that changes its settings while it runs.
pub(crate) struct BuiltChannel {
    pub(crate) managed: ManagedChannel,
    pub(crate) settings: watch::Sender<ChannelSettings>,
}

impl ConfiguredChannel {
    /// Reads a channel's section. The configuration need not have one.
    pub(crate) fn read(runtime: &Runtime, name: &str) -> Result<Self, ConfigError> {
        let (config, extensions) = (runtime.config(), runtime.shared_extensions());
        let key = format!("channels.{name}");
        let Enabled { enabled, kind } = config.section(&key)?;
        let section = match config.raw(&key) {
            // A disabled channel's section need not be valid.
            Err(_) if !enabled => Value::Null,
            section => section?.unwrap_or_default(),
        };
        let WebConfig { proxy, .. } = config.section("tools.web")?;
        let ToolsConfig { ssrf_whitelist, .. } = config.section("tools")?;
        let kind = kind.unwrap_or_else(|| name.to_owned());
        let notes = FileNotes::new(&config.paths().channel_notes, &ChannelName::from(name));
        let raw = RawConfig {
            section,
            proxy,
            opened_networks: ssrf_whitelist,
            notes: Some(Arc::new(notes.clone())),
            data_dir: Some(config.paths().data_dir.clone()),
        };
        let locks = config
            .environment()
            .user_home()
            .map(|home| home.join(".cache").join("nanobot").join("receiving"));
        let claim = account(&extensions, &kind, &raw)
            .zip(locks)
            .map(|(account, locks)| locks.join(account));
        let (name, shared) = (ChannelName::from(name), config.section("channels")?);
        let pairing = PairingStore::in_folder(&config.paths().data_dir);
        Ok(Self {
            name,
            kind,
            is_enabled: enabled,
            raw,
            shared,
            claim,
            pairing,
            notes,
            data_dir: config.paths().data_dir.clone(),
            extensions,
        })
    }

    /// Makes tokens that the channel saves in its notes known to `secrets`.
    pub(crate) fn registering_tokens(mut self, secrets: &Secrets) -> Self {
        let redacting = |inner| {
            Arc::new(RedactingNotes {
                inner,
                secrets: secrets.clone(),
            }) as Arc<dyn Notes>
        };
        self.raw.notes = self.raw.notes.map(redacting);
        self
    }

    /// Makes the channel and opens no connection.
    pub(crate) fn build(&self) -> Result<BuiltChannel, ChannelsError> {
        self.begin_notes();
        let (settings, receiver) = watch::channel(self.settings()?);
        let configured = self.clone();
        let managed =
            ManagedChannel::new(self.channel()?, receiver).pairing_by(self.pairing.clone());
        let managed = managed.made_by(move || configured.channel().map_err(rebuild_error));
        let managed = match &self.claim {
            Some(lock) => managed.claiming(lock.clone()),
            None => managed,
        };
        Ok(BuiltChannel { managed, settings })
    }

    /// Continues what the Python program noted about the channel. It had one of each platform.
    fn begin_notes(&self) {
        let Ok(factory) = self.extensions.channels.factory(&self.kind) else {
            return;
        };
        if !self.is_enabled || self.name.as_str() != self.kind {
            return;
        }
        for earlier in factory.earlier_notes() {
            let file = self.data_dir.join(earlier.file);
            if let Err(error) = self.notes.begin_with(earlier.note, &file) {
                let (channel, file) = (&self.name, file.display());
                tracing::warn!(%channel, %error, %file, "what the Python program noted could not be continued");
            }
        }
    }

    /// Makes the platform's channel. Refuses the name of the terminal: commands from that channel
    /// apply to all channels.
    pub(crate) fn channel(&self) -> Result<Arc<dyn Channel>, ChannelsError> {
        if self.name.as_str() == TERMINAL_CHANNEL {
            let message = format!(
                "this is the name of the terminal: take another one, with \"kind\": \"{}\"",
                self.kind
            );
            let source = ChannelError::Config {
                key: "(name)".to_owned(),
                message,
            };
            return Err(ChannelsError::Create {
                name: self.name.clone(),
                source,
            });
        }
        let channels = &self.extensions.channels;
        channels.create(&self.kind, self.name.clone(), &self.raw)
    }

    /// Returns the same channel on another platform.
    pub(crate) fn of_kind(self, kind: String) -> Self {
        Self { kind, ..self }
    }

    /// `true` if this build has the platform.
    pub(crate) fn is_known(&self) -> bool {
        self.extensions.channels.factory(&self.kind).is_ok()
    }

    /// Returns the settings for the channel manager.
    pub(crate) fn settings(&self) -> Result<ChannelSettings, ChannelsError> {
        let channels = &self.extensions.channels;
        channels.settings(&self.kind, &self.name, &self.shared, &self.raw)
    }

    /// `true` if `other` would make the same channel. Settings that the channel does not read
    /// itself are ignored: they change while it runs.
    pub(crate) fn is_same_channel(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.raw.proxy == other.raw.proxy
            && self.raw.opened_networks == other.raw.opened_networks
            && own_section(&self.raw) == own_section(&other.raw)
    }
}

/// Returns the part of a section that the channel itself reads.
fn own_section(raw: &RawConfig) -> Value {
    let mut section = raw.section.clone();
    if let Some(keys) = section.as_object_mut() {
        for key in shared_keys() {
            keys.remove(&key);
        }
    }
    section
}

/// Returns the keys that every channel's section may have. The channel itself reads none of them.
pub(crate) fn shared_keys() -> Vec<String> {
    let delivery = serde_json::to_value(DeliverySettings::default()).unwrap_or_default();
    let delivery = delivery
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .cloned();
    let common = ["enabled", "kind"]
        .into_iter()
        .chain(ChannelSettings::ACCESS_KEYS);
    common.map(str::to_owned).chain(delivery).collect()
}

/// The enabled channels of a configuration; the error text for each that could not be made.
pub(crate) type BuiltChannels =
    BTreeMap<ChannelName, (ConfiguredChannel, Result<BuiltChannel, String>)>;

/// Makes the enabled channels. A channel that cannot be made, or that receives for the account of
/// another one, has an error instead.
pub(crate) fn build_all(configured: Vec<ConfiguredChannel>) -> BuiltChannels {
    let mut accounts: BTreeMap<PathBuf, ChannelName> = BTreeMap::new();
    let build = |configured: ConfiguredChannel| {
        let built = match configured.claim.clone().map(|claim| accounts.entry(claim)) {
            Some(Entry::Occupied(first)) => {
                let (kind, first) = (&configured.kind, first.get());
                Err(format!(
                    "channels.{first} receives with the same {kind} credentials; give each an account of its own, \
                     or disable one of the two"
                ))
            }
            Some(Entry::Vacant(account)) => {
                account.insert(configured.name.clone());
                configured.build().map_err(|error| chain(&error))
            }
            None => configured.build().map_err(|error| chain(&error)),
        };
        (configured.name.clone(), (configured, built))
    };
    configured
        .into_iter()
        .filter(|configured| configured.is_enabled)
        .map(build)
        .collect()
}

/// Converts the error of making a channel again. Its configuration was valid before, so any other
/// error has a local cause.
fn rebuild_error(error: ChannelsError) -> ChannelError {
    match error {
        ChannelsError::Create { source, .. } => source,
        other => ChannelError::Unavailable(chain(&other)),
    }
}

#[cfg(test)]
#[cfg(feature = "telegram")]
mod tests {
    use nanobot_config::Environment;
    use serde_json::json;

    use super::*;
    use crate::LoadOptions;
    use crate::assembly::runtime::in_environment;

    fn channels(section: &Value) -> Vec<ConfiguredChannel> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".nanobot")).unwrap();
        std::fs::write(
            home.path().join(".nanobot/config.json"),
            json!({ "channels": section }).to_string(),
        )
        .unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        configured_channels(&in_environment(environment, LoadOptions::default())).unwrap()
    }

    #[test]
    fn channels_with_the_same_account_are_refused() {
        let built = build_all(channels(&json!({
            "telegram": { "enabled": true, "token": "1:a" },
            "telegram2": { "enabled": true, "kind": "telegram", "token": " 1:a" },
            "telegram3": { "enabled": true, "kind": "telegram", "token": "1:b" },
            "telegram4": { "enabled": false, "kind": "telegram", "token": "1:b" },
        })));
        let faults: Vec<_> = built
            .iter()
            .map(|(name, (_, built))| (name.as_str(), built.as_ref().err().map(String::as_str)))
            .collect();
        let same = "channels.telegram receives with the same telegram credentials; give each an account of its own, \
                    or disable one of the two";
        assert_eq!(
            faults,
            [
                ("telegram", None),
                ("telegram2", Some(same)),
                ("telegram3", None)
            ]
        );
    }

    #[test]
    fn channel_named_like_the_terminal_is_refused() {
        let section = json!({ "cli": { "enabled": true, "kind": "telegram", "token": "1:a" } });
        let built = build_all(channels(&section)).remove(&ChannelName::from("cli"));
        let why = built.and_then(|(_, built)| built.err()).unwrap();
        assert!(
            why.contains("name of the terminal") && why.contains("\"kind\": \"telegram\""),
            "{why}"
        );
    }

    #[test]
    fn channels_know_the_opened_networks() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".nanobot")).unwrap();
        let config = json!({
            "tools": {"ssrfWhitelist": ["198.18.0.0/15"]},
            "channels": {"telegram": {"enabled": true, "token": "1:a"}},
        });
        std::fs::write(home.path().join(".nanobot/config.json"), config.to_string()).unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        let runtime = in_environment(environment, LoadOptions::default());
        let channel = configured_channels(&runtime).unwrap().remove(0);
        assert_eq!(channel.raw.opened_networks, ["198.18.0.0/15"]);
    }

    #[test]
    fn shared_keys_do_not_change_channel_identity() {
        let of = |section: Value| channels(&json!({ "telegram": section })).remove(0);
        let first = of(json!({ "enabled": true, "token": "1:a" }));
        for (section, is_same) in [
            (
                json!({ "enabled": true, "token": "1:a", "allowFrom": ["7"], "sendProgress": false }),
                true,
            ),
            (json!({ "enabled": true, "token": "1:b" }), false),
            (
                json!({ "enabled": true, "token": "1:a", "reactEmoji": "👍" }),
                false,
            ),
            (
                json!({ "enabled": true, "token": "1:a", "reactEmoji": "" }),
                false,
            ),
        ] {
            assert_eq!(
                first.is_same_channel(&of(section.clone())),
                is_same,
                "{section}"
            );
        }
        let claim = first
            .claim
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        assert!(
            claim.starts_with("telegram-") && !claim.contains("1:a") && claim.len() == 41,
            "{claim}"
        );
    }
}
