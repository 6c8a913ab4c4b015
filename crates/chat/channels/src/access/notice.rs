//! Notices about access rules that are probably not what their author meant, above all where the
//! same keys meant something else in the Python program.

use std::fmt;

use nanobot_channel::ChannelName;
use serde::Serialize;

use super::rules::{AccessRules, DirectPolicy, GroupPolicy};
use crate::AllowFrom;

/// Importance of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// A person is probably kept out, or let in, against the author's intent.
    Warning,
    /// Worth knowing.
    Remark,
}

/// A notice about access rules. Displayed as one line: the finding, and what to write if that is
/// not intended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessNotice {
    /// Importance.
    pub weight: Weight,
    /// Affected key, from the root of the configuration.
    pub key: String,
    /// Finding.
    pub what: &'static str,
    /// Remedy: the value to write if something else is meant.
    pub remedy: &'static str,
}

impl AccessNotice {
    /// `true` if this is a warning.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.weight == Weight::Warning
    }
}

impl fmt::Display for AccessNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}. {}.", self.key, self.what, self.remedy)
    }
}

impl AccessRules {
    /// Returns the notices about these rules of a channel, the most important first.
    #[must_use]
    pub fn notices(&self, channel: &ChannelName) -> Vec<AccessNotice> {
        let notice = |weight, key: &str, what, remedy| {
            let key = format!("channels.{channel}.{key}");
            AccessNotice {
                weight,
                key,
                what,
                remedy,
            }
        };
        let mut notices = Vec::new();
        notices.extend(
            self.people_notice()
                .map(|(weight, what, remedy)| notice(weight, "allowFrom", what, remedy)),
        );
        if self.direct.policy == Some(DirectPolicy::Open)
            && !self.allow_from.is_empty()
            && !self.allow_from.contains("*")
        {
            notices.push(notice(
                Weight::Remark,
                "dm.policy",
                "is \"open\", and allowFrom still says who that is open to",
                "Write \"*\" into allowFrom, or remove it, where everyone is meant",
            ));
        }
        notices.extend(
            self.group_notice()
                .map(|(weight, what, remedy)| notice(weight, "groupAllowFrom", what, remedy)),
        );
        notices
    }

    fn people_notice(&self) -> Option<(Weight, &'static str, &'static str)> {
        let decides_in_direct_chats = match self.direct.policy {
            _ if !self.direct.enabled => false,
            Some(DirectPolicy::Open) => true,
            Some(DirectPolicy::Allowlist) => !self.direct.allow_from.is_set(),
            Some(DirectPolicy::Pairing) => false,
            None => self.direct.allow_from.is_empty(),
        };
        match &self.allow_from {
            AllowFrom::Listed(ids) if ids.is_empty() && decides_in_direct_chats => Some((
                Weight::Warning,
                "is [], which means nobody (in the Python program it meant everyone until March 2026, and pairing \
                 since May 2026)",
                "Write [\"*\"] for everyone, or ids of people; remove the key to let people in by pairing codes",
            )),
            AllowFrom::Unset if decides_in_direct_chats && self.direct.policy.is_none() => Some((
                Weight::Remark,
                "is not there, so strangers in direct chats get a code for `nanobot pairing approve`",
                "Write ids of people where only these are meant, [\"*\"] for everyone",
            )),
            AllowFrom::Listed(_) | AllowFrom::Unset => None,
        }
    }

    fn group_notice(&self) -> Option<(Weight, &'static str, &'static str)> {
        let has_listed = !self.group_allow_from.is_empty() || !self.groups.is_empty();
        if self.group_policy == GroupPolicy::Allowlist && !has_listed {
            return Some((
                Weight::Warning,
                "lists nothing, so with groupPolicy \"allowlist\" no group is heard",
                "Write the ids of groups",
            ));
        }
        if self.group_policy != GroupPolicy::Allowlist && !self.group_allow_from.is_empty() {
            return Some((
                Weight::Remark,
                "keeps the assistant out of all other groups (the Python program looked at it with groupPolicy \
                 \"allowlist\" only)",
                "Remove it where every group is meant",
            ));
        }
        (self.allow_from.is_set()
            && !self.allow_from.contains("*")
            && !self.group_allow_from.is_empty())
        .then_some((
            Weight::Remark,
            "says where, and allowFrom who is heard there",
            "Write groups.<id>.allowFrom: [\"*\"] where everybody in a group is meant",
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{ChannelSettings, DeliverySettings};

    #[test]
    fn notices_of_access_rules() {
        use Weight::{Remark, Warning};
        let table: [(Value, &[(Weight, &str)]); 14] = [
            (json!({"allowFrom": ["1"]}), &[]),
            (json!({"allowFrom": ["*"], "groupPolicy": "open"}), &[]),
            (json!({}), &[(Remark, "allowFrom")]),
            (json!({"allowFrom": []}), &[(Warning, "allowFrom")]),
            (
                json!({"allowFrom": [], "dm": {"policy": "open", "allowFrom": []}}),
                &[(Warning, "allowFrom")],
            ),
            (json!({"allowFrom": [], "dm": {"policy": "pairing"}}), &[]),
            (
                json!({"allowFrom": [], "dm": {"policy": "allowlist", "allowFrom": ["1"]}}),
                &[],
            ),
            (json!({"allowFrom": [], "dm": {"enabled": false}}), &[]),
            (json!({"dm": {"policy": "open"}}), &[]),
            (
                json!({"allowFrom": ["1"], "dm": {"policy": "open"}}),
                &[(Remark, "dm.policy")],
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist"}),
                &[(Warning, "groupAllowFrom")],
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist", "groups": {"2": {}}}),
                &[],
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["2"]}),
                &[(Remark, "groupAllowFrom")],
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist", "groupAllowFrom": ["2"]}),
                &[(Remark, "groupAllowFrom")],
            ),
        ];
        for (section, expected) in table {
            let name = "chat".into();
            let resolved =
                ChannelSettings::resolve(&name, &DeliverySettings::default(), &json!({}), &section)
                    .unwrap();
            let notices = resolved.access.notices(&name);
            let said: Vec<_> = notices
                .iter()
                .map(|notice| (notice.weight, notice.key.as_str()))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(weight, key)| (*weight, format!("channels.chat.{key}")))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(weight, key)| (*weight, key.as_str()))
                .collect();
            assert_eq!(said, expected, "{section}");
        }
    }
}
