//! Settings common to all channels, whatever their platform.
//!
//! Decision: a running channel reads them through a [`tokio::sync::watch::Receiver`] at every use,
//! so a change of the allowlist takes effect with the next message.

use std::collections::BTreeSet;
use std::time::Duration;

use nanobot_channel::{ChannelName, Value};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{AccessRules, ChannelsError, DirectRules};

/// Policy for a message that the platform may or may not have received: the key `uncertain`.
/// Without effect on platforms that drop repeated sends, because they leave no doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UncertainPolicy {
    /// Send it again, marked as a possible repetition.
    ResendMarked,
    /// Record it as uncertain and notify its chat once.
    #[default]
    Ask,
    /// Record it as uncertain without a notice.
    Drop,
}

/// Delivery settings: keys of `channels`, each of which a channel's own section may override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeliverySettings {
    /// Shows progress: intermediate texts of a turn.
    pub send_progress: bool,
    /// Shows running tools.
    pub send_tool_hints: bool,
    /// Number of retries of a part after the platform could not be reached.
    pub send_max_retries: u32,
    /// Minimum time in seconds for which a part is retried, whatever the number of retries.
    pub send_patience_s: u64,
    /// Timeout in seconds after which a send without an answer has an unknown outcome.
    pub send_timeout_s: u64,
    /// Policy for a message that may or may not have been sent.
    pub uncertain: UncertainPolicy,
    /// Time in seconds without visible activity of a turn before a notice says that it is alive;
    /// further notices come at growing intervals. 0 disables the notices, and so does disabling
    /// progress.
    pub alive_notice_s: u64,
    /// Time in seconds without a sign of life before a channel is restarted.
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

/// Maximum duration of any wait: clock arithmetic would overflow with arbitrary values.
pub(crate) const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);

impl DeliverySettings {
    pub(crate) fn send_patience(&self) -> Duration {
        Duration::from_secs(self.send_patience_s)
    }

    pub(crate) fn send_timeout(&self) -> Duration {
        Duration::from_secs(self.send_timeout_s.max(1))
    }

    /// Returns the silence before the first notice; `None` if notices are disabled.
    pub(crate) fn alive_notice(&self) -> Option<Duration> {
        (self.alive_notice_s > 0).then(|| Duration::from_secs(self.alive_notice_s).min(CLOCK_LIMIT))
    }

    pub(crate) fn alive_within(&self) -> Duration {
        Duration::from_secs(self.alive_within_s.max(1)).min(CLOCK_LIMIT)
    }
}

/// List of people or chats, by id: keys such as `allowFrom`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowFrom {
    /// The key is unset and has no effect.
    #[default]
    Unset,
    /// The listed ids, or everyone if `*` is among them. An empty list admits no one.
    Listed(BTreeSet<String>),
}

impl AllowFrom {
    /// Creates a list of ids.
    pub fn listed<S: Into<String>>(ids: impl IntoIterator<Item = S>) -> Self {
        Self::Listed(ids.into_iter().map(Into::into).collect())
    }

    /// `true` if the key is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// `true` if nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !matches!(self, Self::Listed(ids) if !ids.is_empty())
    }

    /// `true` if exactly this id is listed; `*` is an id like any other.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        matches!(self, Self::Listed(ids) if ids.contains(id))
    }

    /// `true` if exactly this id, or `*`, is listed.
    #[must_use]
    pub fn names(&self, id: &str) -> bool {
        self.contains("*") || self.contains(id)
    }

    /// `true` if the sender or `*` is listed.
    #[must_use]
    pub fn allows(&self, sender: &str) -> bool {
        self.contains("*") || self.lists(sender)
    }

    /// `true` if the sender is listed; `*` does not count.
    ///
    /// Ids are compared verbatim, with two exceptions. An id of the form `digits|name` has two
    /// names of one person, a platform's number and a user name: either may be listed. An e-mail
    /// address is compared without regard to ASCII case.
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
        let invalid = || D::Error::custom("a list of ids is wanted, such as [\"12345\", \"ann\"]");
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
                .ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }
}

/// Settings of a channel that the manager needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Access rules.
    pub access: AccessRules,
    /// Delivery settings.
    pub delivery: DeliverySettings,
}

impl ChannelSettings {
    /// Keys of a channel's section that decide about access.
    pub const ACCESS_KEYS: [&'static str; 6] = [
        "allowFrom",
        "dm",
        "groupPolicy",
        "groupRequireMention",
        "groupAllowFrom",
        "groups",
    ];

    /// Returns the JSON Schema of the keys of a channel's section that every platform has.
    #[must_use]
    pub fn schema() -> Value {
        let ids = |meaning: &str| json!({"description": meaning, "type": "array", "items": {"type": ["string", "integer"]}});
        // Without references, so that every key has its type in its place.
        let generator = SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator();
        let mut schema = generator
            .into_root_schema_for::<DeliverySettings>()
            .to_value();
        let access = json!({
            "enabled": {"description": "Runs the channel.", "type": "boolean"},
            "kind": {
                "description": "Platform of the channel, if the channel has another name.",
                "type": "string"
            },
            "allowFrom": ids("Ids of the people who may talk to the assistant; `*` is everyone. An empty list admits no one."),
            "dm": {"description": "Rules of direct chats.", "type": "object", "properties": {
                "enabled": {"description": "Accepts direct chats.", "type": "boolean"},
                "policy": {
                    "description": "Policy for direct chats. Without the key, `allowFrom` decides; without that too, strangers are paired.",
                    "oneOf": [
                        {"const": "open", "description": "People that `allowFrom` admits; everyone if it is not set."},
                        {"const": "allowlist", "description": "People in `dm.allowFrom`, or in `allowFrom` if that is not set."},
                        {"const": "pairing", "description": "People in either list, and approved people; strangers get a code."}
                    ]
                },
                "allowFrom": ids("Ids of the people who may use direct chats.")
            }},
            "groupPolicy": {
                "description": "Messages of a group that are for the assistant.",
                "oneOf": [
                    {"const": "mention", "description": "Messages addressed to it: a mention, a reply to it, or a command for it."},
                    {"const": "open", "description": "All messages that it sees."},
                    {"const": "allowlist", "description": "All messages of the listed groups, and none of any other."}
                ]
            },
            "groupRequireMention": {
                "description": "Requires that messages of groups are addressed to the assistant, whatever the policy.",
                "type": "boolean"
            },
            "groupAllowFrom": ids("Ids of listed groups. If any are listed, all others are ignored."),
            "groups": {
                "description": "Groups with rules of their own, by id: `policy` and `allowFrom`. They count as listed.",
                "type": "object"
            }
        });
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let (Some(properties), Value::Object(access)) = (properties, access) {
            properties.extend(access);
        }
        schema
    }

    /// Reads the settings from a channel's section. Keys missing there fall back to the platform's
    /// defaults ([`nanobot_channel::ChannelFactory::default_config`]), and then to `shared`. `null`
    /// counts as missing.
    ///
    /// # Errors
    /// Returns [`ChannelsError::Settings`] with the name of the key if a value is invalid.
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
        let invalid = |key: &str, source| ChannelsError::Settings {
            name: name.clone(),
            key: key.to_owned(),
            source,
        };
        let mut delivery = serde_json::to_value(shared).map_err(|source| invalid("", source))?;
        if let Some(keys) = delivery.as_object_mut() {
            for (key, value) in keys {
                if let Some(own) = layers.value_at(&[key]) {
                    value.clone_from(own);
                    // Parsed on its own, so that the error can name the key.
                    DeliverySettings::deserialize(json!({ key: own }))
                        .map_err(|source| invalid(key, source))?;
                }
            }
        }
        let delivery = serde_json::from_value(delivery).map_err(|source| invalid("", source))?;
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

/// A section and its fallback.
struct Layers<'a> {
    name: &'a ChannelName,
    section: &'a Value,
    platform: &'a Value,
}

impl<'a> Layers<'a> {
    /// Returns the value at a path, from the section first.
    fn value_at(&self, path: &[&str]) -> Option<&'a Value> {
        let below = |layer: &'a Value| {
            path.iter()
                .try_fold(layer, |value, key| get_any_spelling(value, key))
        };
        [self.section, self.platform]
            .into_iter()
            .filter_map(below)
            .find(|value| !value.is_null())
    }

    /// Reads and parses the value of a dotted key.
    fn read<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, ChannelsError> {
        let value_at = self.value_at(&key.split('.').collect::<Vec<_>>());
        let read = value_at
            .map(|value| serde_json::from_value(value.clone()))
            .transpose();
        read.map_err(|source| ChannelsError::Settings {
            name: self.name.clone(),
            key: key.to_owned(),
            source,
        })
    }
}

/// Returns the value of a key, also if it is written in `snake_case`.
fn get_any_spelling<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
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
    fn allow_list_admits_listed_senders() {
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
    fn channel_section_overrides_platform_and_shared_settings() {
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
        let invalid = ChannelSettings::resolve(
            &name,
            &shared,
            &platform,
            &json!({ "sendProgress": "false" }),
        );
        assert!(matches!(invalid, Err(ChannelsError::Settings { .. })));
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
    fn invalid_key_is_named_in_the_error() {
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
            let value_at = resolve(section).unwrap_err();
            assert!(value_at.starts_with(error), "{value_at}");
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
    fn durations_never_overflow_the_clock() {
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
