//! The settings that every channel has, whatever its platform.
//!
//! Decision: a running channel reads them through a [`tokio::sync::watch::Receiver`] at every use,
//! so that a change of the allow list works with the next message.

use std::collections::BTreeSet;
use std::time::Duration;

use nanobot_channel::{ChannelName, Value};
use serde::{Deserialize, Serialize};

use crate::ChannelsError;

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
            alive_within_s: 120,
        }
    }
}

impl DeliverySettings {
    pub(crate) fn send_patience(&self) -> Duration {
        Duration::from_secs(self.send_patience_s)
    }

    pub(crate) fn send_timeout(&self) -> Duration {
        Duration::from_secs(self.send_timeout_s.max(1))
    }

    pub(crate) fn alive_within(&self) -> Duration {
        Duration::from_secs(self.alive_within_s.max(1))
    }
}

/// Who may talk: the key `allowFrom`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowFrom {
    /// The key is not there: nobody until people are paired.
    #[default]
    Unset,
    /// These, and everybody when `*` is among them. An empty list is nobody.
    Listed(BTreeSet<String>),
}

impl AllowFrom {
    /// A list.
    pub fn listed<S: Into<String>>(ids: impl IntoIterator<Item = S>) -> Self {
        Self::Listed(ids.into_iter().map(Into::into).collect())
    }

    /// Whether a sender is on the list.
    ///
    /// Ids are compared as they are. An id of the shape `digits|name` is two names of one person,
    /// a platform's number and a user name: either may be listed. No other shape is taken apart.
    #[must_use]
    pub fn allows(&self, sender: &str) -> bool {
        let Self::Listed(ids) = self else { return false };
        if ids.contains("*") || ids.contains(sender) {
            return true;
        }
        let Some((number, name)) = sender.split_once('|') else { return false };
        let well_formed =
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() && !name.contains('|');
        well_formed && (ids.contains(number) || ids.contains(name))
    }
}

impl<'de> Deserialize<'de> for AllowFrom {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Numeric ids are often written without quotes.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Id {
            Text(String),
            Number(i64),
        }
        let ids: Option<Vec<Id>> = Option::deserialize(deserializer)?;
        Ok(ids.map_or(Self::Unset, |ids| {
            Self::listed(ids.into_iter().map(|id| match id {
                Id::Text(text) => text,
                Id::Number(number) => number.to_string(),
            }))
        }))
    }
}

/// What the manager has to know about a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Who may talk.
    pub allow_from: AllowFrom,
    /// How messages are sent.
    pub delivery: DeliverySettings,
}

impl ChannelSettings {
    /// Reads them from a channel's section. What the section does not say, its platform's defaults
    /// say ([`nanobot_channel::ChannelFactory::default_config`]), and then `shared`. `null` says
    /// nothing.
    ///
    /// # Errors
    /// [`ChannelsError::Settings`] when a key has the wrong type.
    pub fn resolve(
        name: &ChannelName,
        shared: &DeliverySettings,
        platform: &Value,
        section: &Value,
    ) -> Result<Self, ChannelsError> {
        let wrong = |source| ChannelsError::Settings { name: name.clone(), source };
        let said =
            |key: &str| [section, platform].into_iter().filter_map(|layer| layer.get(key)).find(|v| !v.is_null());
        let mut delivery = serde_json::to_value(shared).map_err(wrong)?;
        if let Some(keys) = delivery.as_object_mut() {
            for (key, value) in keys {
                if let Some(own) = said(key) {
                    value.clone_from(own);
                }
            }
        }
        let allow_from = said("allowFrom").cloned().unwrap_or_default();
        Ok(Self {
            allow_from: serde_json::from_value(allow_from).map_err(wrong)?,
            delivery: serde_json::from_value(delivery).map_err(wrong)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_allow_list_lets_in_whom_it_names() {
        let table: [(AllowFrom, &str, bool); 11] = [
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
        ];
        for (list, sender, allowed) in table {
            assert_eq!(list.allows(sender), allowed, "{list:?} {sender}");
        }
    }

    #[test]
    fn a_section_overrides_its_platform_which_overrides_what_is_shared() {
        let name = ChannelName::from("mail");
        let shared = DeliverySettings { send_tool_hints: true, ..DeliverySettings::default() };
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
        assert_eq!(settings, ChannelSettings { allow_from: AllowFrom::listed(["a", "7"]), delivery });
        let wrong = ChannelSettings::resolve(&name, &shared, &platform, &json!({ "sendProgress": "false" }));
        assert!(matches!(wrong, Err(ChannelsError::Settings { .. })));
        let unset = ChannelSettings::resolve(&name, &shared, &json!({}), &json!({})).unwrap();
        assert_eq!(unset, ChannelSettings { allow_from: AllowFrom::Unset, delivery: shared });
    }
}
