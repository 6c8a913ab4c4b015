//! The settings that every channel has, whatever its platform.
//!
//! Decision: a running channel reads them through a [`tokio::sync::watch::Receiver`] at every use,
//! so that a change of the allow list works with the next message.

use std::collections::BTreeSet;
use std::time::Duration;

use nanobot_channel::{ChannelName, Value};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{AccessRules, ChannelsError, DirectRules};

/// What follows when nobody can tell whether the platform took a message: the key `uncertain`.
/// A platform that drops repeated sends leaves no doubt, so there it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncertainPolicy {
    /// It is sent again, with a mark that it may be a repetition.
    ResendMarked,
    /// It is kept as uncertain, and its chat is told once.
    #[default]
    Ask,
    /// It is kept as uncertain, and nobody is told.
    Drop,
}

/// How messages are sent: keys of `channels`, each of which a channel's own section may override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeliverySettings {
    /// Whether thoughts on the way are shown.
    pub send_progress: bool,
    /// Whether the tools that run are shown.
    pub send_tool_hints: bool,
    /// How often a part is tried again after the platform could not be reached.
    pub send_max_retries: u32,
    /// For how many seconds a part is tried at least, however often that is.
    pub send_patience_s: u64,
    /// After how many seconds a send without an answer counts as of unknown outcome.
    pub send_timeout_s: u64,
    /// What follows when nobody can tell whether a message was sent.
    pub uncertain: UncertainPolicy,
    /// After how many seconds in which nothing was seen of a turn it is said that it is alive, and
    /// then at growing distances. 0 says nothing, and so does a channel that shows no progress.
    pub alive_notice_s: u64,
    /// After how many seconds without a sign of life a channel is started again.
    pub alive_within_s: u64,
}

impl Default for DeliverySettings {
    fn default() -> Self {
        Self {
            send_progress: true,
            send_tool_hints: false,
            send_max_retries: 3,
            send_patience_s: 600,
            send_timeout_s: 60,
            uncertain: UncertainPolicy::Ask,
            alive_notice_s: 60,
            alive_within_s: 120,
        }
    }
}

/// The longest time that is waited for: clocks cannot add just any number.
pub(crate) const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);

impl DeliverySettings {
    pub(crate) fn send_patience(&self) -> Duration {
        Duration::from_secs(self.send_patience_s)
    }

    pub(crate) fn send_timeout(&self) -> Duration {
        Duration::from_secs(self.send_timeout_s.max(1))
    }

    /// When the first notice is due; never, when there is none.
    pub(crate) fn alive_notice(&self) -> Option<Duration> {
        (self.alive_notice_s > 0).then(|| Duration::from_secs(self.alive_notice_s).min(CLOCK_LIMIT))
    }

    pub(crate) fn alive_within(&self) -> Duration {
        Duration::from_secs(self.alive_within_s.max(1)).min(CLOCK_LIMIT)
    }
}

/// A list of people or of chats, by id: keys such as `allowFrom`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowFrom {
    /// The key is not there: it says nothing.
    #[default]
    Unset,
    /// These, and all when `*` is among them. An empty list is nobody.
    Listed(BTreeSet<String>),
}

impl AllowFrom {
    /// A list.
    pub fn listed<S: Into<String>>(ids: impl IntoIterator<Item = S>) -> Self {
        Self::Listed(ids.into_iter().map(Into::into).collect())
    }

    /// Whether the key is there.
    #[must_use]
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !matches!(self, Self::Listed(ids) if !ids.is_empty())
    }

    /// Whether exactly this id is listed; `*` is an id like any other.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        matches!(self, Self::Listed(ids) if ids.contains(id))
    }

    /// Whether exactly this id, or `*`, is listed.
    #[must_use]
    pub fn names(&self, id: &str) -> bool {
        self.contains("*") || self.contains(id)
    }

    /// Whether a sender is on the list, or everybody is.
    #[must_use]
    pub fn allows(&self, sender: &str) -> bool {
        self.contains("*") || self.lists(sender)
    }

    /// Whether the list has a sender.
    ///
    /// Ids are compared as they are. An id of the shape `digits|name` is two names of one person,
    /// a platform's number and a user name: either may be listed. No other shape is taken apart. An
    /// address of mail is the same in whatever case it is written.
    #[must_use]
    pub fn lists(&self, sender: &str) -> bool {
        let Self::Listed(ids) = self else {
            return false;
        };
        if ids.contains(sender) {
            return sender != "*";
        }
        if sender
            .split_once('@')
            .is_some_and(|(name, _)| !name.is_empty())
        {
            return ids.iter().any(|id| id.eq_ignore_ascii_case(sender));
        }
        let Some((number, name)) = sender.split_once('|') else {
            return false;
        };
        let well_formed = !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
            && !name.is_empty()
            && !name.contains('|');
        well_formed && (ids.contains(number) || ids.contains(name))
    }
}

impl<'de> Deserialize<'de> for AllowFrom {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("a list of ids is wanted, such as [\"12345\", \"ann\"]");
        // Numeric ids are often written without quotes.
        let id = |id: &Value| match id {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) if !number.is_f64() => Some(number.to_string()),
            _ => None,
        };
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Unset),
            Value::Array(ids) => ids
                .iter()
                .map(id)
                .collect::<Option<_>>()
                .map(Self::Listed)
                .ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// What the manager has to know about a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Who may talk, and where.
    pub access: AccessRules,
    /// How messages are sent.
    pub delivery: DeliverySettings,
}

impl ChannelSettings {
    /// The keys of a channel's section that decide about access.
    pub const ACCESS_KEYS: [&'static str; 6] = [
        "allowFrom",
        "dm",
        "groupPolicy",
        "groupRequireMention",
        "groupAllowFrom",
        "groups",
    ];

    /// Reads them from a channel's section. What the section does not say, its platform's defaults
    /// say ([`nanobot_channel::ChannelFactory::default_config`]), and then `shared`. `null` says
    /// nothing.
    ///
    /// # Errors
    /// [`ChannelsError::Settings`] naming the key that holds something else than it should.
    pub fn resolve(
        name: &ChannelName,
        shared: &DeliverySettings,
        platform: &Value,
        section: &Value,
    ) -> Result<Self, ChannelsError> {
        let layers = Layers {
            name,
            section,
            platform,
        };
        let wrong = |key: &str, source| ChannelsError::Settings {
            name: name.clone(),
            key: key.to_owned(),
            source,
        };
        let mut delivery = serde_json::to_value(shared).map_err(|source| wrong("", source))?;
        if let Some(keys) = delivery.as_object_mut() {
            for (key, value) in keys {
                if let Some(own) = layers.said(&[key]) {
                    value.clone_from(own);
                    // By itself, so that the error can name it.
                    DeliverySettings::deserialize(json!({ key: own }))
                        .map_err(|source| wrong(key, source))?;
                }
            }
        }
        let delivery = serde_json::from_value(delivery).map_err(|source| wrong("", source))?;
        let direct = DirectRules::default();
        let access = AccessRules {
            allow_from: layers.read("allowFrom")?.unwrap_or_default(),
            direct: DirectRules {
                enabled: layers.read("dm.enabled")?.unwrap_or(direct.enabled),
                policy: layers.read("dm.policy")?,
                allow_from: layers.read("dm.allowFrom")?.unwrap_or_default(),
            },
            group_policy: layers.read("groupPolicy")?.unwrap_or_default(),
            group_require_mention: layers.read("groupRequireMention")?.unwrap_or_default(),
            group_allow_from: layers.read("groupAllowFrom")?.unwrap_or_default(),
            groups: layers.read("groups")?.unwrap_or_default(),
        };
        Ok(Self { access, delivery })
    }
}

/// A section and what counts where it says nothing.
struct Layers<'a> {
    name: &'a ChannelName,
    section: &'a Value,
    platform: &'a Value,
}

impl<'a> Layers<'a> {
    /// What is said under a key, by the section first.
    fn said(&self, path: &[&str]) -> Option<&'a Value> {
        let below = |layer: &'a Value| path.iter().try_fold(layer, |value, key| found(value, key));
        [self.section, self.platform]
            .into_iter()
            .filter_map(below)
            .find(|value| !value.is_null())
    }

    /// The same as what it should be.
    fn read<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, ChannelsError> {
        let said = self.said(&key.split('.').collect::<Vec<_>>());
        let read = said
            .map(|value| serde_json::from_value(value.clone()))
            .transpose();
        read.map_err(|source| ChannelsError::Settings {
            name: self.name.clone(),
            key: key.to_owned(),
            source,
        })
    }
}

/// What stands under a key, also in `snake_case`.
fn found<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).or_else(|| {
        let spell = |letter: char| {
            if letter.is_ascii_uppercase() {
                format!("_{}", letter.to_ascii_lowercase())
            } else {
                letter.to_string()
            }
        };
        value.get(key.chars().map(spell).collect::<String>())
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_allow_list_lets_in_whom_it_names() {
        let table: [(AllowFrom, &str, bool); 14] = [
            (AllowFrom::Unset, "1", false),
            (AllowFrom::listed::<&str>([]), "1", false),
            (AllowFrom::listed(["*"]), "1", true),
            (AllowFrom::listed(["1"]), "1", true),
            (AllowFrom::listed(["1"]), "12", false),
            (AllowFrom::listed(["1"]), "1|ann", true),
            (AllowFrom::listed(["ann"]), "1|ann", true),
            (AllowFrom::listed(["1|ann"]), "1|ann", true),
            (AllowFrom::listed(["ann"]), "x|ann", false),
            (AllowFrom::listed(["ann", "1"]), "1|ann|ann", false),
            (AllowFrom::listed(["1", ""]), "1|", false),
            (
                AllowFrom::listed(["Ann@Example.org"]),
                "ann@example.org",
                true,
            ),
            (
                AllowFrom::listed(["Ann@Example.org"]),
                "ann@example.org.evil",
                false,
            ),
            (AllowFrom::listed(["@Ann"]), "@ann", false),
        ];
        for (list, sender, allowed) in table {
            assert_eq!(list.allows(sender), allowed, "{list:?} {sender}");
        }
    }

    #[test]
    fn a_section_overrides_its_platform_which_overrides_what_is_shared() {
        let name = ChannelName::from("mail");
        let shared = DeliverySettings {
            send_tool_hints: true,
            ..DeliverySettings::default()
        };
        let platform = json!({ "sendProgress": false, "sendMaxRetries": 1 });
        let section = json!({ "allowFrom": ["a", 7], "uncertain": "drop", "sendMaxRetries": 5, "sendProgress": null, "host": "x" });
        let settings = ChannelSettings::resolve(&name, &shared, &platform, &section).unwrap();
        let delivery = DeliverySettings {
            send_progress: false,
            send_tool_hints: true,
            send_max_retries: 5,
            uncertain: UncertainPolicy::Drop,
            ..DeliverySettings::default()
        };
        assert_eq!(
            settings,
            ChannelSettings {
                access: AccessRules::of(AllowFrom::listed(["a", "7"])),
                delivery
            }
        );
        let wrong = ChannelSettings::resolve(
            &name,
            &shared,
            &platform,
            &json!({ "sendProgress": "false" }),
        );
        assert!(matches!(wrong, Err(ChannelsError::Settings { .. })));
        let unset = ChannelSettings::resolve(&name, &shared, &json!({}), &json!({})).unwrap();
        assert_eq!(
            unset,
            ChannelSettings {
                access: AccessRules::default(),
                delivery: shared
            }
        );
    }

    #[test]
    fn a_key_that_cannot_be_read_is_named() {
        let resolve = |section: Value| {
            let shared = DeliverySettings::default();
            let resolved = ChannelSettings::resolve(&"mail".into(), &shared, &json!({}), &section);
            resolved.map(|settings| settings.access).map_err(|error| {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                format!("{error}: {why}")
            })
        };
        let table = [
            (
                json!({"groupPolicy": "all"}),
                "channels.mail.groupPolicy cannot be used: unknown variant `all`",
            ),
            (
                json!({"dm": {"policy": 1}}),
                "channels.mail.dm.policy cannot be used: ",
            ),
            (
                json!({"allowFrom": "me"}),
                "channels.mail.allowFrom cannot be used: a list of ids is wanted, such as [",
            ),
            (
                json!({"allowFrom": [7.5]}),
                "channels.mail.allowFrom cannot be used: a list of ids is wanted, such as [",
            ),
            (
                json!({"groups": []}),
                "channels.mail.groups cannot be used: ",
            ),
            (
                json!({"sendTimeoutS": "x"}),
                "channels.mail.sendTimeoutS cannot be used: invalid type: string \"x\"",
            ),
            (
                json!({"uncertain": "maybe"}),
                "channels.mail.uncertain cannot be used: unknown variant `maybe`",
            ),
        ];
        for (section, error) in table {
            let said = resolve(section).unwrap_err();
            assert!(said.starts_with(error), "{said}");
        }
        let snake =
            resolve(json!({"group_policy": "open", "dm": {"allow_from": [1], "enabled": null}}))
                .unwrap();
        let direct = DirectRules {
            allow_from: AllowFrom::listed(["1"]),
            ..DirectRules::default()
        };
        assert_eq!(
            snake,
            AccessRules {
                group_policy: crate::GroupPolicy::Open,
                direct,
                ..AccessRules::default()
            }
        );
    }

    #[test]
    fn times_are_ones_that_clocks_can_add() {
        for seconds in [1, u64::MAX / 1000, u64::MAX] {
            let delivery = DeliverySettings {
                alive_notice_s: seconds,
                alive_within_s: seconds,
                ..Default::default()
            };
            let notice = delivery.alive_notice().unwrap_or_default();
            for time in [notice * 32, delivery.alive_within()] {
                assert!(
                    tokio::time::Instant::now().checked_add(time).is_some(),
                    "{seconds}"
                );
            }
        }
    }
}
