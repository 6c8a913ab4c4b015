//! Access rules of one channel: who may talk, and which messages of a group are for the assistant.
//!
//! Decision: the most specific rule for a place decides. A group with its own allowlist uses that
//! list, any other uses `allowFrom`. An approval counts as an entry of `allowFrom` and of no other
//! list. Only if there is no list of people at all does naming a group in `groupAllowFrom` admit
//! everyone in it. An empty list admits no one. Rules for a place also apply to its parts, unless
//! there are nearer ones: for a thread first the thread's own, then those of its channel, then
//! those of its server.
//!
//! A verdict depends only on the message's origin, these rules and whether the sender was approved.
//! [`crate::PairingStore`] knows who was.

use std::collections::BTreeMap;

use nanobot_channel::{Arrival, ChatId, ChatKind, SenderId};
use serde::Deserialize;

use crate::AllowFrom;

/// Selects the messages of a group that are for the assistant: the key `groupPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// Messages addressed to it: a mention, a reply to it, or a command for it.
    #[default]
    Mention,
    /// All messages that it sees.
    Open,
    /// All messages of the listed groups, and none of any other.
    Allowlist,
}

/// Policy for direct chats: the key `dm.policy`. If it is unset, `allowFrom` decides; if that is
/// unset too, strangers are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectPolicy {
    /// People that `allowFrom` admits; everyone if it is unset.
    Open,
    /// People listed in `dm.allowFrom`, or in `allowFrom` if that is unset.
    Allowlist,
    /// People listed in either, and those approved; strangers get a code.
    Pairing,
}

/// Rules of direct chats: the key `dm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectRules {
    /// `true` if direct chats are enabled.
    pub enabled: bool,
    /// Policy; `None` if the key is unset.
    pub policy: Option<DirectPolicy>,
    /// Allowlist for direct chats only.
    pub allow_from: AllowFrom,
}

impl Default for DirectRules {
    fn default() -> Self {
        Self {
            enabled: true,
            policy: None,
            allow_from: AllowFrom::Unset,
        }
    }
}

/// Rules of one group: an entry of the key `groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupRule {
    /// Messages of this group that are for the assistant; `None` uses the channel's policy.
    pub policy: Option<GroupPolicy>,
    /// People who may talk in this group; overrides every other list.
    #[serde(rename = "allowFrom", alias = "allow_from")]
    pub allow_from: AllowFrom,
}

/// All access rules of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// People who may talk: the key `allowFrom`.
    pub allow_from: AllowFrom,
    /// Rules of direct chats.
    pub direct: DirectRules,
    /// Messages of a group that are for the assistant.
    pub group_policy: GroupPolicy,
    /// `true` if group messages must also be addressed to the assistant, whatever the policy: the
    /// key `groupRequireMention`.
    pub group_require_mention: bool,
    /// Listed groups: the key `groupAllowFrom`. If any are listed, all others are ignored.
    pub group_allow_from: AllowFrom,
    /// Groups with their own rules, by id; they count as listed.
    pub groups: BTreeMap<String, GroupRule>,
}

/// Verdict of the rules about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// The message is accepted.
    Allowed,
    /// The message is rejected silently.
    Denied,
    /// The message is rejected, and its sender may be given a code.
    Stranger,
}

impl AccessRules {
    /// Creates rules that consist of a list of people.
    #[must_use]
    pub fn of(allow_from: AllowFrom) -> Self {
        Self {
            allow_from,
            ..Self::default()
        }
    }

    /// `true` if a list of people names the sender; `*` names no one in particular.
    #[must_use]
    pub fn names(&self, sender: &SenderId) -> bool {
        [&self.allow_from, &self.direct.allow_from]
            .into_iter()
            .any(|list| list.lists(sender.as_str()))
    }

    /// Judges a message by its origin; `approved` is `true` if its sender was approved by pairing.
    #[must_use]
    pub fn judge(
        &self,
        sender: &SenderId,
        chat: &ChatId,
        arrival: &Arrival,
        approved: bool,
    ) -> AccessVerdict {
        match arrival.kind {
            ChatKind::Direct => self.judge_direct(sender.as_str(), approved),
            ChatKind::Group => {
                if self.accepts_group_message(chat, arrival)
                    && self.admits_in_group(sender.as_str(), chat, arrival, approved)
                {
                    AccessVerdict::Allowed
                } else {
                    AccessVerdict::Denied
                }
            }
        }
    }

    fn judge_direct(&self, sender: &str, approved: bool) -> AccessVerdict {
        let DirectRules {
            enabled,
            policy,
            allow_from: own,
        } = &self.direct;
        let direct_list = if own.is_set() { own } else { &self.allow_from };
        let (admitted, otherwise) = match policy {
            _ if !enabled => (false, AccessVerdict::Denied),
            Some(DirectPolicy::Open) => (
                !self.allow_from.is_set() || self.is_admitted(sender, approved),
                AccessVerdict::Denied,
            ),
            Some(DirectPolicy::Allowlist) => {
                (admits(direct_list, sender, approved), AccessVerdict::Denied)
            }
            Some(DirectPolicy::Pairing) => (
                approved || self.allow_from.allows(sender) || own.allows(sender),
                AccessVerdict::Stranger,
            ),
            None if !own.is_empty() => (admits(own, sender, approved), AccessVerdict::Denied),
            None if self.allow_from.is_set() => {
                (self.is_admitted(sender, approved), AccessVerdict::Denied)
            }
            None => (approved, AccessVerdict::Stranger),
        };
        if admitted {
            AccessVerdict::Allowed
        } else {
            otherwise
        }
    }

    /// `true` if `allowFrom` or an approval admits the sender.
    fn is_admitted(&self, sender: &str, approved: bool) -> bool {
        admits(&self.allow_from, sender, approved)
    }

    /// `true` if messages of this group can be for the assistant, regardless of the sender.
    fn accepts_group_message(&self, chat: &ChatId, arrival: &Arrival) -> bool {
        let rule = self.rule_of(chat, arrival);
        let is_listed = rule.is_some()
            || chat_and_parents(chat, arrival).any(|id| self.group_allow_from.names(id));
        let policy = rule
            .and_then(|rule| rule.policy)
            .unwrap_or(self.group_policy);
        let is_restricted = policy == GroupPolicy::Allowlist || !self.group_allow_from.is_empty();
        let requires_address = policy == GroupPolicy::Mention || self.group_require_mention;
        (is_listed || !is_restricted) && (arrival.addressed || !requires_address)
    }

    fn admits_in_group(
        &self,
        sender: &str,
        chat: &ChatId,
        arrival: &Arrival,
        approved: bool,
    ) -> bool {
        if let Some(rule) = self
            .rule_of(chat, arrival)
            .filter(|rule| rule.allow_from.is_set())
        {
            return rule.allow_from.allows(sender);
        }
        let is_named =
            || chat_and_parents(chat, arrival).any(|id| self.group_allow_from.contains(id));
        self.is_admitted(sender, approved) || (!self.allow_from.is_set() && is_named())
    }

    /// Returns the rule of a group, or of the nearest place that contains it.
    fn rule_of(&self, chat: &ChatId, arrival: &Arrival) -> Option<&GroupRule> {
        chat_and_parents(chat, arrival).find_map(|id| self.groups.get(id))
    }
}

/// Returns the ids of a chat and of the places that contain it, nearest first.
fn chat_and_parents<'a>(chat: &'a ChatId, arrival: &'a Arrival) -> impl Iterator<Item = &'a str> {
    std::iter::once(chat)
        .chain(&arrival.parents)
        .map(ChatId::as_str)
}

/// `true` if a list admits the sender. An approval counts as an entry, but adds no one to an empty
/// list, which explicitly admits no one.
fn admits(list: &AllowFrom, sender: &str, approved: bool) -> bool {
    list.allows(sender) || (approved && !(list.is_set() && list.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{ChannelSettings, DeliverySettings};

    fn rules(section: &Value) -> AccessRules {
        let name = "chat".into();
        ChannelSettings::resolve(&name, &DeliverySettings::default(), &json!({}), section)
            .unwrap()
            .access
    }

    /// Verdicts for a stranger and for an approved sender, in order.
    fn verdicts(
        section: &Value,
        sender: &str,
        chat: &str,
        arrival: &Arrival,
    ) -> (AccessVerdict, AccessVerdict) {
        let rules = rules(section);
        let judge = |approved| rules.judge(&sender.into(), &chat.into(), arrival, approved);
        (judge(false), judge(true))
    }

    #[test]
    fn direct_chats() {
        use AccessVerdict::{Allowed, Denied, Stranger};
        let table = [
            // Nothing is configured: pairing.
            (json!({}), "1", Stranger, Allowed),
            // A list is exhaustive; an approval counts as an entry of it.
            (json!({"allowFrom": []}), "1", Denied, Denied),
            (json!({"allowFrom": ["1"]}), "1", Allowed, Allowed),
            (json!({"allowFrom": ["1"]}), "2", Denied, Allowed),
            (json!({"allowFrom": ["*"]}), "2", Allowed, Allowed),
            (
                json!({"dm": {"enabled": false}, "allowFrom": ["*"]}),
                "1",
                Denied,
                Denied,
            ),
            // `open` admits no one that a list leaves out.
            (json!({"dm": {"policy": "open"}}), "1", Allowed, Allowed),
            (
                json!({"dm": {"policy": "open"}, "allowFrom": []}),
                "1",
                Denied,
                Denied,
            ),
            (
                json!({"dm": {"policy": "open"}, "allowFrom": ["1"]}),
                "2",
                Denied,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "open"}, "allowFrom": ["1"]}),
                "1",
                Allowed,
                Allowed,
            ),
            // The list of direct chats takes precedence over the general one there.
            (
                json!({"dm": {"policy": "allowlist", "allowFrom": ["1"]}, "allowFrom": ["*"]}),
                "2",
                Denied,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "allowlist", "allowFrom": ["1"]}, "allowFrom": []}),
                "1",
                Allowed,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "allowlist", "allowFrom": []}, "allowFrom": ["1"]}),
                "1",
                Denied,
                Denied,
            ),
            (
                json!({"dm": {"policy": "allowlist"}, "allowFrom": ["1"]}),
                "1",
                Allowed,
                Allowed,
            ),
            (json!({"dm": {"policy": "allowlist"}}), "1", Denied, Allowed),
            (
                json!({"dm": {"allow_from": ["1"]}, "allowFrom": ["2"]}),
                "2",
                Denied,
                Allowed,
            ),
            (json!({"dm": {"allowFrom": []}}), "1", Stranger, Allowed),
            // Pairing combined with lists.
            (
                json!({"dm": {"policy": "pairing"}, "allowFrom": ["1"]}),
                "1",
                Allowed,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "pairing"}, "allowFrom": ["1"]}),
                "2",
                Stranger,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "pairing", "allowFrom": ["2"]}, "allowFrom": []}),
                "2",
                Allowed,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "pairing"}, "allowFrom": []}),
                "1",
                Stranger,
                Allowed,
            ),
        ];
        for (section, sender, stranger, approved) in table {
            let verdicts = verdicts(&section, sender, sender, &Arrival::direct());
            assert_eq!(verdicts, (stranger, approved), "{section} {sender}");
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one table or story, read from top to bottom"
    )]
    #[test]
    fn groups() {
        use AccessVerdict::{Allowed, Denied};
        let thread = Arrival {
            parents: vec!["-5".into(), "server".into()],
            ..Arrival::group(true)
        };
        let (meant, talk) = (Arrival::group(true), Arrival::group(false));
        let table = [
            // Strangers never get a code in a group.
            (json!({}), "1", &meant, Denied, Allowed),
            (json!({}), "1", &talk, Denied, Denied),
            (json!({"allowFrom": ["1"]}), "1", &meant, Allowed, Allowed),
            (json!({"allowFrom": ["1"]}), "1", &talk, Denied, Denied),
            (json!({"allowFrom": ["1"]}), "2", &meant, Denied, Allowed),
            (json!({"allowFrom": []}), "1", &meant, Denied, Denied),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "open"}),
                "1",
                &talk,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "open", "groupRequireMention": true}),
                "1",
                &talk,
                Denied,
                Denied,
            ),
            // Direct chats have their own rules.
            (
                json!({"allowFrom": ["1"], "dm": {"enabled": false}}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "open"}}),
                "1",
                &meant,
                Denied,
                Allowed,
            ),
            (
                json!({"dm": {"policy": "allowlist", "allowFrom": ["1"]}}),
                "1",
                &meant,
                Denied,
                Allowed,
            ),
            // Only listed groups are accepted, and the list of people applies in them.
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": [-5]}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["-5"]}),
                "1",
                &thread,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["-5"]}),
                "2",
                &meant,
                Denied,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["-6"]}),
                "1",
                &meant,
                Denied,
                Denied,
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": []}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist"}),
                "1",
                &meant,
                Denied,
                Denied,
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist", "groupAllowFrom": ["-5"]}),
                "1",
                &talk,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupPolicy": "allowlist", "groupAllowFrom": ["*"]}),
                "1",
                &talk,
                Allowed,
                Allowed,
            ),
            // Without a list of people, a named group is open to everyone in it.
            (
                json!({"groupAllowFrom": ["-5"]}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
            (
                json!({"groupAllowFrom": ["-5"]}),
                "1",
                &talk,
                Denied,
                Denied,
            ),
            (
                json!({"groupAllowFrom": ["*"]}),
                "1",
                &meant,
                Denied,
                Allowed,
            ),
            (
                json!({"groups": {"-5": {"policy": "open"}}}),
                "1",
                &talk,
                Denied,
                Allowed,
            ),
            // A group's own rules come first, and an approval does not extend its list.
            (
                json!({"groups": {"-5": {"allowFrom": ["*"]}}, "allowFrom": ["2"]}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
            (
                json!({"groups": {"-5": {"allow_from": ["2"]}}, "allowFrom": ["*"]}),
                "1",
                &meant,
                Denied,
                Denied,
            ),
            (
                json!({"groups": {"-5": {"allowFrom": []}}, "allowFrom": ["*"]}),
                "1",
                &thread,
                Denied,
                Denied,
            ),
            // Rules of a server apply to its channels, which may have nearer ones.
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["server"]}),
                "1",
                &thread,
                Allowed,
                Allowed,
            ),
            (
                json!({"allowFrom": ["1"], "groupAllowFrom": ["server"]}),
                "1",
                &meant,
                Denied,
                Denied,
            ),
            (
                json!({"groupAllowFrom": ["server"]}),
                "1",
                &thread,
                Allowed,
                Allowed,
            ),
            (
                json!({"groups": {"server": {"allowFrom": ["1"]}}}),
                "1",
                &thread,
                Allowed,
                Allowed,
            ),
            (
                json!({"groups": {"server": {"allowFrom": ["1"]}, "-5": {"allowFrom": ["2"]}}}),
                "1",
                &thread,
                Denied,
                Denied,
            ),
            (
                json!({"groups": {"-5": {"policy": "mention"}}, "groupPolicy": "open", "allowFrom": ["1"]}),
                "1",
                &talk,
                Denied,
                Denied,
            ),
            (
                json!({"groups": {"-5": {"policy": "allowlist"}}, "allowFrom": ["1"]}),
                "1",
                &talk,
                Allowed,
                Allowed,
            ),
            (
                json!({"groups": {"-5": {}}, "groupAllowFrom": ["-6"], "allowFrom": ["1"]}),
                "1",
                &meant,
                Allowed,
                Allowed,
            ),
        ];
        for (section, sender, arrival, stranger, approved) in table {
            let chat = if arrival.parents.is_empty() {
                "-5"
            } else {
                "-55"
            };
            let verdicts = verdicts(&section, sender, chat, arrival);
            assert_eq!(
                verdicts,
                (stranger, approved),
                "{section} {sender} {arrival:?}"
            );
        }
    }
}
